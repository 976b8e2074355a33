"""Between the messages of fade.v1 and the types of fade_core. Written by hand; names are the same on both sides.

Floats pass unchanged, bit for bit. An unset configuration field is its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fade_core import (
    DEFAULT_ENVIRONMENT,
    MATHS_VERSION,
    Batch,
    ControllerState,
    Diagnostics,
    Entropy,
    EnvironmentAnswer,
    EnvironmentReport,
    EnvironmentState,
    InvalidBatchError,
    RunConfig,
    Schedule,
    Warning,
)
from fade_proto.v1 import observation_pb2 as observation
from fade_proto.v1 import run_pb2 as run
from fade_proto.v1 import scheduler_pb2 as scheduler

_Enum = TypeVar("_Enum", bound=int)


def _names(wrapper: Any) -> tuple[dict[str, Any], dict[int, str]]:
    """Words as fade_core writes them to enum numbers, and back: ALPHA_RULE_FIXED is "fixed"."""
    prefix = next(name for name in wrapper.keys() if wrapper.Value(name) == 0).removesuffix("UNSPECIFIED")
    words = {name.removeprefix(prefix).lower(): wrapper.Value(name) for name in wrapper.keys() if wrapper.Value(name)}
    return words, {number: word for word, number in words.items()}


_CONFIG_ENUMS = {
    "alpha_rule": _names(run.AlphaRule),
    "delta_rule": _names(run.DeltaRule),
    "scale": _names(run.Scale),
    "estimator": _names(observation.Estimator),
    "mode": _names(observation.Mode),
    "lr_rule": _names(run.LrRule),
}
_PHASE = _names(observation.Phase)
_OUTCOME = _names(observation.Outcome)
_HOLD_REASON = _names(observation.HoldReason)
_MODE, _ESTIMATOR = _CONFIG_ENUMS["mode"], _CONFIG_ENUMS["estimator"]

_CONFIG_FIELDS = tuple(item.name for item in fields(RunConfig))
_DIAGNOSTICS_FIELDS = tuple(item.name for item in fields(Diagnostics))
_OPTIONAL_DIAGNOSTICS = tuple(item.name for item in fields(Diagnostics) if "None" in str(item.type))
_STATE_FIELDS = tuple(item.name for item in fields(EnvironmentState) if item.name != "warmup_entropy_nats")


def config_to_proto(config: RunConfig) -> run.RunConfig:
    """Every field set, so that the message says what is in force."""
    message = run.RunConfig()
    for name in _CONFIG_FIELDS:
        value = getattr(config, name)
        if value is not None:
            setattr(message, name, _CONFIG_ENUMS[name][0][value] if name in _CONFIG_ENUMS else value)
    return message


def config_from_proto(message: run.RunConfig) -> RunConfig:
    """The inverse; unset fields take their defaults.

    Raises:
        InvalidConfigError: A value is wrong, by field.
    """
    values: dict[str, Any] = {}
    for descriptor, value in message.ListFields():
        name = descriptor.name
        values[name] = _CONFIG_ENUMS[name][1].get(value, value) if name in _CONFIG_ENUMS else value
    return RunConfig(**values)


def state_to_proto(state: ControllerState) -> observation.ControllerState:
    """All environments, in the order of their names."""
    message = observation.ControllerState(maths_version=MATHS_VERSION)
    for name, item in sorted(state.environments.items()):
        environment_state_to_proto(name, item, message.environments.add())
    return message


def state_from_proto(message: observation.ControllerState) -> ControllerState:
    """The inverse of :func:`state_to_proto`."""
    return ControllerState({item.environment: environment_state_from_proto(item) for item in message.environments})


def environment_state_to_proto(name: str, state: EnvironmentState, message: observation.EnvironmentState) -> None:
    """Fills ``message``."""
    message.environment = name
    for field in _STATE_FIELDS:
        value = getattr(state, field)
        if value is not None:
            setattr(message, field, value)
    message.warmup_entropy_nats.extend(state.warmup_entropy_nats)


def environment_state_from_proto(message: observation.EnvironmentState) -> EnvironmentState:
    """The inverse of :func:`environment_state_to_proto`, without the name."""
    values = {descriptor.name: value for descriptor, value in message.ListFields()}
    values.pop("environment", None)
    values["solve_rate"] = message.solve_rate  # 0 is a value here
    values["warmup_entropy_nats"] = tuple(message.warmup_entropy_nats)
    return EnvironmentState(**values)


def schedule_to_proto(schedule: Schedule, message: observation.Schedule) -> None:
    """Fills ``message``."""
    message.alpha = schedule.alpha
    message.delta = schedule.delta
    message.scale = schedule.scale
    message.mode = _MODE[0][schedule.mode]
    message.estimator = _ESTIMATOR[0][schedule.estimator]
    message.phase = _PHASE[0][schedule.phase]
    message.likelihood = schedule.likelihood
    message.lr_scale = schedule.lr_scale
    if schedule.target_entropy_nats is not None:
        message.target_entropy_nats = schedule.target_entropy_nats


def schedule_from_proto(message: observation.Schedule) -> Schedule:
    """The inverse of :func:`schedule_to_proto`; unset words take their defaults, unset numbers are refused by their user."""
    target = message.target_entropy_nats if message.HasField("target_entropy_nats") else None
    mode: Any = _MODE[1].get(message.mode, "active")
    estimator: Any = _ESTIMATOR[1].get(message.estimator, "plug_in")
    phase: Any = _PHASE[1].get(message.phase, "exploring")
    return Schedule(
        alpha=message.alpha,
        delta=message.delta,
        scale=message.scale,
        mode=mode,
        estimator=estimator,
        phase=phase,
        target_entropy_nats=target,
        likelihood=message.likelihood,
        lr_scale=message.lr_scale if message.HasField("lr_scale") else 1.0,
    )


def answer_to_proto(name: str, answer: EnvironmentAnswer, message: observation.EnvironmentSchedule) -> None:
    """Fills ``message`` with one environment's answer."""
    message.environment = name
    schedule_to_proto(answer.schedule, message.schedule)
    environment_state_to_proto(name, answer.state, message.state)
    message.outcome = _OUTCOME[0][answer.outcome]
    message.hold_reasons.extend(_HOLD_REASON[0][reason] for reason in answer.hold_reasons)
    seen = message.diagnostics
    for field in _DIAGNOSTICS_FIELDS:
        value = getattr(answer.diagnostics, field)
        if value is not None:
            setattr(seen, field, value)


def answer_from_proto(message: observation.EnvironmentSchedule) -> EnvironmentAnswer:
    """The inverse of :func:`answer_to_proto`, without the name; a newer server's hold reasons, unknown here, are left out."""
    seen: Any = message.diagnostics
    optional = {name: getattr(seen, name) if seen.HasField(name) else None for name in _OPTIONAL_DIAGNOSTICS}
    values = {name: getattr(seen, name) for name in _DIAGNOSTICS_FIELDS}
    outcome: Any = _OUTCOME[1].get(message.outcome, "applied")
    reasons: Any = tuple(_HOLD_REASON[1][reason] for reason in message.hold_reasons if reason in _HOLD_REASON[1])
    return EnvironmentAnswer(
        schedule=schedule_from_proto(message.schedule),
        state=environment_state_from_proto(message.state),
        outcome=outcome,
        hold_reasons=reasons,
        diagnostics=Diagnostics(**{**values, **optional}),
    )


def outcome_to_proto(outcome: str) -> observation.Outcome.ValueType:
    """ "applied" or "frozen" to its number."""
    number: observation.Outcome.ValueType = _OUTCOME[0][outcome]
    return number


def warnings_to_proto(warnings: Sequence[Warning]) -> list[observation.Warning]:
    """One message each."""
    return [observation.Warning(reason=item.reason, message=item.message, subject=item.subject) for item in warnings]


def warnings_from_proto(messages: Sequence[observation.Warning]) -> tuple[Warning, ...]:
    """The inverse of :func:`warnings_to_proto`."""
    return tuple(Warning(reason=item.reason, message=item.message, subject=item.subject) for item in messages)


def batch_from_proto(request: scheduler.ObserveRequest | scheduler.ComputeAdvantagesRequest) -> Batch:
    """The rows of a request, and what an Observe reports beside them, as arrays.

    Raises:
        InvalidBatchError: The group table contradicts itself or the rows, or an environment is reported twice.
    """
    rows = request.rows
    reports: Mapping[str, EnvironmentReport] = {}
    entropy = None
    if isinstance(request, scheduler.ObserveRequest):
        entropy = _entropy_from_proto(request.entropy) if request.HasField("entropy") else None
        if request.environments:
            reports = _reports_from_proto(request.environments)
    return Batch(
        rewards=np.array(rows.rewards, np.float64),
        group_index=np.array(rows.group_index, np.int32),
        environments=_environments(request.groups, len(rows.rewards)),
        rollout_index=_column(rows.rollout_index, np.int64),
        statuses=_column(rows.statuses, np.int32),
        solved=_column(rows.solved, np.bool_),
        policy_versions=_column(rows.policy_versions, np.int64),
        current_policy_version=rows.current_policy_version if rows.HasField("current_policy_version") else None,
        reports=reports,
        entropy=entropy,
    )


def batch_to_proto(batch: Batch, labels: Sequence[str], request: scheduler.ObserveRequest) -> None:
    """Fills the rows, groups, reports and entropy of ``request``.

    Args:
        batch: The report.
        labels: One per group, or empty.
        request: Where to.
    """
    rows = request.rows
    rows.rewards.extend(batch.rewards.tolist())  # from a list: six times faster than from the array
    rows.group_index.extend(batch.group_index.tolist())
    for name in ("rollout_index", "statuses", "solved", "policy_versions"):
        column = getattr(batch, name)
        if column is not None:
            getattr(rows, name).extend(column.tolist())
    if batch.current_policy_version is not None:
        rows.current_policy_version = batch.current_policy_version
    table = request.groups
    table.count = len(batch.environments)
    table.labels.extend(labels)
    if set(batch.environments) - {DEFAULT_ENVIRONMENT}:
        table.environments.extend(batch.environments)
    for name, report in batch.reports.items():
        message = request.environments.add(
            environment=name,
            filtered_all_solved=report.filtered_all_solved,
            filtered_all_failed=report.filtered_all_failed,
            prefiltered=report.prefiltered,
        )
        if report.entropy is not None:
            _entropy_to_proto(report.entropy, message.entropy)
    if batch.entropy is not None:
        _entropy_to_proto(batch.entropy, request.entropy)


def _column(values: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    return np.array(values, dtype) if len(values) else None


def _environments(table: observation.GroupTable, rows: int) -> tuple[str, ...]:
    """The environment of each group; as many as the message itself has room for, so that no count can ask for more memory."""
    count = table.count
    for name in ("labels", "environments"):
        length = len(getattr(table, name))
        if length not in (0, count):
            raise InvalidBatchError(f"groups.{name}", f"has {length} entries for {count} groups; give one per group, or none")
    if not 0 <= count <= max(rows, len(table.labels), len(table.environments)):
        raise InvalidBatchError("groups.count", f"is {count} for {rows} rows; give the number of groups that the rows point into")
    if not table.environments:
        return (DEFAULT_ENVIRONMENT,) * count
    return tuple([environment or DEFAULT_ENVIRONMENT for environment in table.environments])


def _reports_from_proto(messages: Sequence[observation.EnvironmentReport]) -> dict[str, EnvironmentReport]:
    reports: dict[str, EnvironmentReport] = {}
    for item in messages:
        name = item.environment or DEFAULT_ENVIRONMENT
        if name in reports:
            raise InvalidBatchError("environments", f"{name!r} is reported twice; report each environment once")
        reports[name] = EnvironmentReport(
            filtered_all_solved=item.filtered_all_solved,
            filtered_all_failed=item.filtered_all_failed,
            prefiltered=item.prefiltered,
            entropy=_entropy_from_proto(item.entropy) if item.HasField("entropy") else None,
        )
    return reports


def _entropy_from_proto(message: observation.Entropy) -> Entropy:
    return Entropy(sum_nats=message.sum_nats, token_count=message.token_count, kind=message.kind)


def _entropy_to_proto(entropy: Entropy, message: observation.Entropy) -> None:
    message.sum_nats = entropy.sum_nats
    message.token_count = entropy.token_count
    message.kind = entropy.kind
