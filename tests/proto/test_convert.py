"""Messages and the types of the maths: each way and back, bit for bit."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    EMPTY_STATE,
    Batch,
    ControllerState,
    Entropy,
    EnvironmentReport,
    EnvironmentState,
    InvalidConfigError,
    RunConfig,
    Schedule,
    Warning,
    observe,
)
from fade_proto import convert
from fade_proto.v1 import observation_pb2, run_pb2, scheduler_pb2

finite = st.floats(allow_nan=False, allow_infinity=False)
natural = st.integers(0, 2**62)
text = st.text(max_size=20)

states = st.dictionaries(
    text.filter(bool),
    st.builds(
        EnvironmentState,
        solve_rate=finite,
        entropy_nats=st.none() | finite,
        initial_entropy_nats=st.none() | finite,
        warmup_entropy_nats=st.lists(finite, max_size=4).map(tuple),
        entropy_kind=st.none() | text,
        entropy_baseline=natural,
        observation_count=natural,
    ),
    max_size=4,
).map(ControllerState)


def wire(message: Any) -> Any:
    """Through bytes and back."""
    return type(message).FromString(message.SerializeToString())


@given(state=states)
def test_states_pass_unchanged(state: ControllerState) -> None:
    again = convert.state_from_proto(wire(convert.state_to_proto(state)))
    assert repr(sorted(again.environments.items())) == repr(sorted(state.environments.items()))  # apart: 0.0 and -0.0


@given(
    schedule=st.builds(
        Schedule,
        alpha=finite,
        delta=finite,
        scale=finite,
        mode=st.sampled_from(["active", "shadow", "pinned"]),
        estimator=st.sampled_from(["plug_in", "subset"]),
        phase=st.sampled_from(["exploring", "exploiting", "floor"]),
        target_entropy_nats=st.none() | finite,
    )
)
def test_schedules_pass_unchanged(schedule: Schedule) -> None:
    message = observation_pb2.Schedule()
    convert.schedule_to_proto(schedule, message)
    assert repr(convert.schedule_from_proto(wire(message))) == repr(schedule)


CONFIGS = [
    RunConfig(),
    RunConfig(reward_min=-1, solve_threshold=0.25, strict_rewards=True, alpha_rule="fixed", alpha=0.5, alpha_max=5),
    RunConfig(delta_rule="log_decay", delta=3, delta_min=0.1, delta_max=2, ema_weight=1.0, target_entropy_nats=0.5),
    RunConfig(target_entropy_fraction=0.3, initial_entropy_nats=2.0, entropy_warmup=7, vocabulary_size=32000),
    RunConfig(scale="match_grpo", estimator="subset", quorum=0.0, max_policy_lag=0, group_size=8, decay_observations=5),
    RunConfig(likelihood=0.25, lr_rule="cosine", lr_min=0.1, lr_observations=500),
    RunConfig(alpha_rule="entropy"),
    RunConfig(mode="pinned", pinned_alpha=2.0, pinned_delta=0.5, entropy_baseline=3, alpha_rule="log_decay", delta_rule="ratio"),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_configurations_pass_unchanged(config: RunConfig) -> None:
    assert convert.config_from_proto(wire(convert.config_to_proto(config))) == config


def test_configuration_fields_are_the_same_on_both_sides() -> None:
    ours = [item.name for item in fields(RunConfig)]
    assert ours == [field.name for field in run_pb2.RunConfig.DESCRIPTOR.fields]
    tested = {name for name in ours if any(getattr(config, name) != getattr(CONFIGS[0], name) for config in CONFIGS)}
    assert tested == set(ours) - {"reward_max", "alpha_min"}


def test_an_unset_configuration_is_the_default_and_an_unknown_rule_is_refused() -> None:
    assert convert.config_from_proto(run_pb2.RunConfig()) == RunConfig()
    with pytest.raises(InvalidConfigError, match="mode"):
        convert.config_from_proto(run_pb2.RunConfig(mode=99))  # type: ignore[arg-type]


rows = st.integers(1, 30)


@st.composite
def batches(draw: Any) -> Batch:
    """Any report, also ones that the maths would refuse."""
    count, groups = draw(rows), draw(st.integers(1, 4))

    def column(values: Any, dtype: Any) -> Any:
        return draw(st.none() | st.lists(values, min_size=count, max_size=count).map(lambda items: np.array(items, dtype)))

    entropy = st.builds(Entropy, sum_nats=finite, token_count=natural, kind=text)
    return Batch(
        rewards=np.array(draw(st.lists(st.floats(), min_size=count, max_size=count)), np.float64),
        group_index=np.array(draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count)), np.int32),
        environments=tuple(draw(st.lists(st.sampled_from(["default", "code", "é"]), min_size=groups, max_size=groups))),
        rollout_index=column(st.integers(-(2**62), 2**62), np.int64),
        statuses=column(st.integers(0, 6), np.int32),
        solved=column(st.booleans(), np.bool_),
        policy_versions=column(natural, np.int64),
        current_policy_version=draw(st.none() | natural),
        reports=draw(
            st.dictionaries(
                st.sampled_from(["default", "code"]),
                st.builds(
                    EnvironmentReport,
                    filtered_all_solved=natural,
                    filtered_all_failed=natural,
                    prefiltered=st.booleans(),
                    entropy=st.none() | entropy,
                ),
            )
        ),
        entropy=draw(st.none() | entropy),
    )


@given(sent=batches())
def test_batches_pass_unchanged(sent: Batch) -> None:
    request = scheduler_pb2.ObserveRequest()
    convert.batch_to_proto(sent, [f"label {place}" for place in range(len(sent.environments))], request)
    request = wire(request)
    got = convert.batch_from_proto(request)
    for name in ("rewards", "group_index", "rollout_index", "statuses", "solved", "policy_versions"):
        ours, theirs = getattr(sent, name), getattr(got, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            assert ours.tobytes() == theirs.tobytes() or (name == "rewards" and np.isnan(ours).any()), name
            assert np.array_equal(ours, theirs, equal_nan=name == "rewards")
    assert (got.environments, got.current_policy_version) == (sent.environments, sent.current_policy_version)
    assert (dict(got.reports), got.entropy) == (dict(sent.reports), sent.entropy)
    assert list(request.groups.labels) == [f"label {place}" for place in range(len(sent.environments))]


def test_an_environment_reported_twice_is_refused() -> None:
    request = scheduler_pb2.ObserveRequest()
    request.environments.add()
    request.environments.add(environment="default")
    with pytest.raises(ValueError, match="'default' is reported twice"):
        convert.batch_from_proto(request)


@pytest.mark.parametrize("entropy", [None, Entropy(sum_nats=0.0, token_count=4)])
def test_answers_pass_unchanged_with_zero_apart_from_absent(entropy: Entropy | None) -> None:
    batch = Batch(
        rewards=np.array([0.0, 0.0, math.nan]),
        group_index=np.array([0, 0, 0], np.int32),
        environments=("default",),
        entropy=entropy,
        reports={"default": EnvironmentReport(prefiltered=True)},
    )
    _, answer = observe(RunConfig(quorum=0.9), EMPTY_STATE, batch)
    message = observation_pb2.EnvironmentSchedule()
    convert.answer_to_proto("default", answer.environments["default"], message)
    again = convert.answer_from_proto(wire(message))
    assert again == answer.environments["default"]
    assert again.diagnostics.solve_rate == 0.0 and again.hold_reasons == ("quorum", "prefiltered")
    assert again.diagnostics.entropy_nats == (None if entropy is None else 0.0)


def test_a_newer_servers_hold_reason_is_left_out() -> None:
    batch = Batch(rewards=np.zeros(2), group_index=np.zeros(2, np.int32), environments=("default",))
    _, answer = observe(RunConfig(), EMPTY_STATE, batch, evaluation=True)
    message = observation_pb2.EnvironmentSchedule()
    convert.answer_to_proto("default", answer.environments["default"], message)
    message.hold_reasons.append(99)  # type: ignore[arg-type]
    assert convert.answer_from_proto(wire(message)) == answer.environments["default"]


def test_warnings_pass_unchanged() -> None:
    warnings = (Warning(reason="A", message="b", subject="c"), Warning(reason="D", message="e"))
    assert convert.warnings_from_proto([wire(item) for item in convert.warnings_to_proto(warnings)]) == warnings
