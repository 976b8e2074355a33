"""The checker finds each kind of broken promise in a real run's history that was falsified after the fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.faults.caller import Caller
from tests.faults.checker import check, own
from tests.faults.clients import Job, evidence_of
from tests.faults.history import Call, Evidence, History

from fade_proto.v1.observation_pb2 import Observation
from fade_service import FadeServer

Run = tuple[History, Evidence]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A whole run against a server that nothing happens to."""
    path: Path = tmp_path_factory.mktemp("faults") / "fade.db"
    with FadeServer(f"sqlite:///{path}", grpc_port=0, http_port=0) as server:
        caller = Caller([f"127.0.0.1:{server.grpc_port}"])
        job = Job(caller, "checker", "run-5")
        job.play()
        yield job.history, evidence_of(caller, job.history.name)
        caller.close()


@pytest.fixture
def run(played: Run) -> Run:
    """A copy of it, to falsify."""
    history, evidence = played
    copied = replace(history, observes=list(history.observes), restores=list(history.restores), updates=list(history.updates))
    return copied, Evidence(
        run=deepcopy(evidence.run),
        lines={branch: deepcopy(list(line)) for branch, line in evidence.lines.items()},
        heads=deepcopy(dict(evidence.heads)),
    )


def kinds(run: Run) -> set[str]:
    """The kinds of what is found."""
    return {finding.kind for finding in check(*run)}


def longest(evidence: Evidence) -> str:
    """The branch that was moved most often."""
    return max((branch.id for branch in evidence.run.branches), key=lambda branch: len(own(evidence, branch)))


def place(run: Run, seen: Callable[[Call[Any, Any]], bool]) -> int:
    """The first Observe of which ``seen`` holds."""
    return next(number for number, call in enumerate(run[0].observes) if seen(call))


def renumbered(line: list[Observation]) -> list[Observation]:
    """With dense revisions again."""
    for revision, entry in enumerate(line, 1):
        entry.revision = revision
    return line


def rewrite(run: Run, branch: str, change: Callable[[list[Observation]], object]) -> None:
    """Falsifies a branch's line, in a way that leaves its form sound."""
    line = list(run[1].lines[branch])
    change(line)
    run[1].lines[branch][:] = renumbered(line)  # type: ignore[index]
    run[1].heads[branch].revision = len(line)


def test_an_honest_run_has_every_kind_of_event_and_nothing_is_found(run: Run) -> None:
    history, evidence = run
    assert check(history, evidence) == []
    assert {call.refused for call in history.observes} == {"", "WRITER_FENCED", "OBSERVATION_CONFLICT"}
    assert any(call.replayed for call in history.observes)
    assert history.restores and history.updates
    assert len(evidence.run.branches) > 2 and len(own(evidence, longest(evidence))) > 3


def test_an_acknowledged_observation_that_is_gone_is_lost(run: Run) -> None:
    rewrite(run, longest(run[1]), lambda line: line.pop())
    assert "lost" in kinds(run)


def test_an_observation_that_stands_there_twice_is_doubled(run: Run) -> None:
    rewrite(run, longest(run[1]), lambda line: line.append(deepcopy(line[-1])))
    assert "doubled" in kinds(run)


def test_an_observation_that_two_calls_applied_is_doubled(run: Run) -> None:
    number = place(run, lambda call: call.replayed)
    run[0].observes[number] = replace(run[0].observes[number], replayed=False)
    assert kinds(run) == {"doubled"}


def test_an_observation_that_nobody_was_told_of_is_found(run: Run) -> None:
    history, evidence = run
    entry = own(evidence, longest(evidence))[-1]
    history.observes[:] = [call for call in history.observes if call.request.observation_id != entry.observation_id]
    assert kinds(run) == {"broken"}


def test_a_later_observation_in_front_of_an_earlier_one_is_found(run: Run) -> None:
    branch = longest(run[1])
    spans = {entry.observation_id: entry for entry in own(run[1], branch)}
    first, last = list(spans)[0], list(spans)[-1]

    def swap(line: list[Observation]) -> None:
        places = {entry.observation_id: number for number, entry in enumerate(line) if entry.branch == branch}
        line[places[first]], line[places[last]] = line[places[last]], line[places[first]]

    rewrite(run, branch, swap)
    assert any("comes after one that began when it was answered" in finding.seen for finding in check(*run))


def test_a_replay_that_answers_otherwise_is_found(run: Run) -> None:
    number = place(run, lambda call: call.replayed)
    response: Any = deepcopy(run[0].observes[number].response)
    response.schedules[0].schedule.alpha += 1e-15 * response.schedules[0].schedule.alpha
    run[0].observes[number] = replace(run[0].observes[number], response=response)
    assert any("has different answers" in finding.seen for finding in check(*run))


def test_returned_advantages_of_other_bits_are_found(run: Run) -> None:
    number = place(run, lambda call: call.response is not None and any(call.response.advantages))
    response: Any = deepcopy(run[0].observes[number].response)
    response.advantages[0] += 1e-9
    run[0].observes[number] = replace(run[0].observes[number], response=response)
    assert any("is not the model's" in finding.seen for finding in check(*run))


def test_an_observation_of_another_writer_is_found(run: Run) -> None:
    run[1].run.branches[0].writer = "writer-999"
    assert any("another writer" in finding.seen for finding in check(*run))


def test_an_observation_that_was_refused_as_fenced_and_applied_all_the_same_is_found(run: Run) -> None:
    number = place(run, lambda call: call.response is not None)
    refused = replace(run[0].observes[number], response=None, refused="WRITER_FENCED", replayed=False)
    run[0].observes.append(refused)
    assert any("as fenced, and applied" in finding.seen for finding in check(*run))


def test_an_observation_that_began_after_its_branch_was_left_is_found(run: Run) -> None:
    history, evidence = run
    left = next(branch for branch in list(evidence.run.branches)[:-1] if own(evidence, branch.id))
    entry = own(evidence, left.id)[-1]
    for number, call in enumerate(history.observes):
        if (call.request.branch, call.request.observation_id) == (left.id, entry.observation_id):
            history.observes[number] = replace(call, started=call.started + 1e6, ended=call.ended + 1e6)
    assert any("began after the run had been restored" in finding.seen for finding in check(*run))


def test_a_configuration_change_that_came_twice_is_found(run: Run) -> None:
    run[1].run.config_revision += 1
    assert any("configuration versions are" in finding.seen for finding in check(*run))


def test_a_configuration_in_force_before_it_was_asked_for_is_found(run: Run) -> None:
    history = run[0]
    history.updates[0] = replace(history.updates[0], started=1e9, ended=1e9)
    assert any("before it came" in finding.seen for finding in check(*run))


def test_a_branch_that_starts_elsewhere_than_asked_is_found(run: Run) -> None:
    run[1].run.branches[-1].writer = "writer-999"
    assert any("starts at" in finding.seen for finding in check(*run))


def test_a_restore_that_opened_a_second_branch_is_found(run: Run) -> None:
    run[0].restores.pop()
    assert any("were opened" in finding.seen for finding in check(*run))


def test_an_end_state_of_other_bits_is_found(run: Run) -> None:
    run[1].heads[run[1].run.branch].state_digest = "0" * 64
    assert any(finding.seen.startswith("the state of") for finding in check(*run))
