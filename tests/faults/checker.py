"""The proof: one run as its clients saw it, against the run as the service shows it.

The model is a pure line per branch: the reports in the order of their revisions, folded by :func:`fade_core.observe` under the
configuration of each. Every answer that any client got, every entry of the history and the end state must be the model's, bit for
bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.faults.history import Call, Evidence, History

import fade_core
from fade_core import EMPTY_STATE, Answer, ControllerState, Watch
from fade_core import RunConfig as CoreConfig
from fade_proto.convert import (
    answer_to_proto,
    batch_from_proto,
    config_from_proto,
    outcome_to_proto,
    state_to_proto,
    warnings_to_proto,
)
from fade_proto.v1.observation_pb2 import Observation
from fade_proto.v1.run_pb2 import Branch
from fade_proto.v1.scheduler_pb2 import ObserveRequest, ObserveResponse

Observe = Call[ObserveRequest, ObserveResponse]
Key = tuple[str, str]
"""Branch and observation id: what an observation is applied once for."""


class Finding(NamedTuple):
    """A broken promise: "lost", "doubled" or "broken", and what was seen."""

    kind: str
    seen: str


@dataclass(frozen=True, slots=True)
class Span:
    """When an observation was applied: after its first attempt began, and before its first answer came. Seconds."""

    began: float
    answered: float


def check(history: History, evidence: Evidence) -> list[Finding]:
    """Everything that is wrong with a run whose every call was answered; empty if nothing is."""
    sent: dict[Key, list[Observe]] = {}
    for call in history.observes:
        sent.setdefault((call.request.branch, call.request.observation_id), []).append(call)
    answered = {key: [call for call in calls if call.response is not None] for key, calls in sent.items()}
    answered = {key: calls for key, calls in answered.items() if calls}
    spans = {
        key: Span(min(call.started for call in sent[key]), min(call.ended for call in calls)) for key, calls in answered.items()
    }
    return [
        *_lines(evidence),
        *_once(answered, evidence),
        *_order(spans, evidence),
        *_fences(history, spans, answered, evidence),
        *_configs(history, spans, evidence),
        *_restores(history, evidence),
        *_model(history, answered, evidence),
    ]


def own(evidence: Evidence, branch: str) -> list[Observation]:
    """The observations that moved this branch itself."""
    return [entry for entry in evidence.lines[branch] if entry.branch == branch]


def _lines(evidence: Evidence) -> Iterator[Finding]:
    """Revisions are dense, and a branch's line begins as its parent's."""
    for branch in evidence.run.branches:
        line = evidence.lines[branch.id]
        if [entry.revision for entry in line] != list(range(1, len(line) + 1)):
            yield Finding("broken", f"revisions of {branch.id} are {[entry.revision for entry in line]}")
        shared = branch.parent_revision
        if branch.parent and list(line[:shared]) != list(evidence.lines[branch.parent][:shared]):
            yield Finding("broken", f"{branch.id} does not begin as {branch.parent} until {shared}")
        if len(line) != evidence.heads[branch.id].revision:
            yield Finding("broken", f"{branch.id} has {len(line)} observations at revision {evidence.heads[branch.id].revision}")


def _once(answered: dict[Key, list[Observe]], evidence: Evidence) -> Iterator[Finding]:
    """What was answered is there once, where the answer says; nothing else is; all answers to one report are equal."""
    places: dict[Key, int] = {}
    for branch in evidence.run.branches:
        for entry in own(evidence, branch.id):
            key = (branch.id, entry.observation_id)
            if key in places:
                yield Finding("doubled", f"{key} at revisions {places[key]} and {entry.revision}")
            elif key not in answered:
                yield Finding("broken", f"{key} at revision {entry.revision} was never acknowledged to anyone")
            places[key] = entry.revision
    for key, calls in answered.items():
        if key not in places:
            yield Finding("lost", f"{key} was acknowledged and is not in the history")
        if sum(not call.replayed for call in calls) > 1:
            yield Finding("doubled", f"{key} was applied by more than one call")
        if len({_without_advantages(call) for call in calls}) > 1:
            yield Finding("broken", f"{key} has different answers")


def _without_advantages(call: Observe) -> bytes:
    response = ObserveResponse()
    response.CopyFrom(call.response or response)
    response.ClearField("advantages")
    return response.SerializeToString(deterministic=True)


def _order(spans: dict[Key, Span], evidence: Evidence) -> Iterator[Finding]:
    """An observation that was answered before another was first sent comes before it."""
    for branch in evidence.run.branches:
        began = 0.0
        for entry in own(evidence, branch.id):
            span = spans.get((branch.id, entry.observation_id))
            if span is None:
                continue
            if span.answered < began:
                yield Finding("broken", f"{entry.observation_id} on {branch.id} comes after one that began when it was answered")
            began = max(began, span.began)


def _fences(
    history: History, spans: dict[Key, Span], answered: dict[Key, list[Observe]], evidence: Evidence
) -> Iterator[Finding]:
    """Only its writer wrote a branch, and nobody once the next one was open; what was refused as fenced is not there."""
    branches = list(evidence.run.branches)
    opened = {call.request.branch_id: call for call in history.restores if call.response is not None}
    for branch, following in zip(branches, [*branches[1:], None], strict=True):
        left = opened[following.id].ended if following is not None and following.id in opened else float("inf")
        for entry in own(evidence, branch.id):
            key = (branch.id, entry.observation_id)
            if any(call.request.writer != branch.writer for call in answered.get(key, ())):
                yield Finding("broken", f"{key} was acknowledged to another writer than {branch.writer}")
            if key in spans and spans[key].began > left:
                yield Finding("broken", f"{key} began after the run had been restored to {following and following.id}")
    for call in history.observes:
        key = (call.request.branch, call.request.observation_id)
        if call.refused == "WRITER_FENCED" and any(item.request.writer == call.request.writer for item in answered.get(key, ())):
            yield Finding("broken", f"{key} was refused to {call.request.writer} as fenced, and applied")


def _configs(history: History, spans: dict[Key, Span], evidence: Evidence) -> Iterator[Finding]:
    """Each change came into force once, in order, between its request and its answer."""
    versions = [call.response.config_revision for call in history.updates if call.response is not None]
    if versions != list(range(2, len(versions) + 2)) or evidence.run.config_revision != len(versions) + 1:
        yield Finding("broken", f"configuration versions are {versions}, and the run has {evidence.run.config_revision}")
    changes = {call.response.config_revision: call for call in history.updates if call.response is not None}
    for branch in evidence.run.branches:
        before = 1
        for entry in own(evidence, branch.id):
            version, span = entry.config_revision, spans.get((branch.id, entry.observation_id))
            late = entry.HasField("late")
            if span is None or late:
                continue
            if version < before:
                yield Finding("broken", f"{entry.observation_id} on {branch.id} is under configuration {version} after {before}")
            if version in changes and span.answered < changes[version].started:
                yield Finding("broken", f"{entry.observation_id} on {branch.id} is under configuration {version} before it came")
            if version + 1 in changes and span.began > changes[version + 1].ended:
                yield Finding("broken", f"{entry.observation_id} on {branch.id} is under configuration {version} after it went")
            before = version


def _restores(history: History, evidence: Evidence) -> Iterator[Finding]:
    """Each restore opened one branch, where it was asked to and for its writer."""
    branches = {branch.id: branch for branch in evidence.run.branches}
    wanted = {call.request.branch_id: call.request for call in history.restores if call.response is not None}
    if set(branches) - {evidence.run.branches[0].id} != set(wanted) or len(branches) != len(evidence.run.branches):
        yield Finding("broken", f"branches are {list(branches)}, and {list(wanted)} were opened")
    for name, request in wanted.items():
        source = request.point if request.WhichOneof("source") == "point" else request.snapshot
        wish = (source.branch, source.revision, request.writer)
        if name in branches and _place(branches[name]) != wish:
            yield Finding("broken", f"{name} starts at {_place(branches[name])}, not at {wish}")


def _place(branch: Branch) -> tuple[str, int, str]:
    return branch.parent, branch.parent_revision, branch.writer


def _model(history: History, answered: dict[Key, list[Observe]], evidence: Evidence) -> Iterator[Finding]:
    """Folds every branch from where it starts, and compares what was answered, what is shown, and where it ends."""
    configs = {1: config_from_proto(history.config)}
    configs |= {
        call.response.config_revision: config_from_proto(call.response.config) for call in history.updates if call.response
    }
    restored = {call.request.branch_id: call.response for call in history.restores if call.response is not None}
    states: dict[str, list[ControllerState]] = {"": [EMPTY_STATE]}
    for branch in evidence.run.branches:
        line = states[branch.id] = states[branch.parent][: branch.parent_revision + 1]
        if branch.id in restored and restored[branch.id].state != state_to_proto(line[-1]):
            yield Finding("broken", f"{branch.id} was answered to start from another state than that of {_place(branch)}")
        watches: dict[str, Watch] = {}
        for entry in own(evidence, branch.id):
            calls = answered.get((branch.id, entry.observation_id))
            if calls is None:
                break  # found above; what follows cannot be known
            state, expected, answer = fold(configs[entry.config_revision], line[-1], calls[0].request, entry)
            line.append(state)
            watches, warnings = fade_core.watch(configs[entry.config_revision], watches, answer)
            expected.warnings.extend(warnings_to_proto(warnings))
            advantages = answer.advantages().tolist()
            for call in calls:
                expected.advantages[:] = advantages if call.request.return_advantages else ()
                if call.response != expected:
                    yield Finding(
                        "broken", f"the answer to {entry.observation_id} at {branch.id}/{entry.revision} is not the model's"
                    )
            if list(entry.schedules) != list(expected.schedules) or entry.outcome != expected.outcome:
                yield Finding("broken", f"the history's entry at {branch.id}/{entry.revision} is not the model's")
        if evidence.heads[branch.id].state_digest != line[-1].digest():
            yield Finding("broken", f"the state of {branch.id} at {evidence.heads[branch.id].revision} is not the model's")


def fold(
    config: CoreConfig, state: ControllerState, request: ObserveRequest, entry: Observation
) -> tuple[ControllerState, ObserveResponse, Answer]:
    """The state after a report that stands where ``entry`` does, and the answer: without advantages and without the warnings over
    many observations, and as the maths gives it."""
    after, answer = fade_core.observe(config, state, batch_from_proto(request))
    expected = ObserveResponse(
        name=request.name,
        branch=entry.branch,
        observation_id=request.observation_id,
        revision=entry.revision,
        config_revision=entry.config_revision,
        outcome=outcome_to_proto(answer.outcome),
        degraded=answer.degraded,
        state=state_to_proto(after),
        warnings=warnings_to_proto(answer.warnings),
    )
    for environment, item in answer.environments.items():
        answer_to_proto(environment, item, expected.schedules.add())
    return after, expected, answer
