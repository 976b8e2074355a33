"""RestoreRun: branches, their lines of history, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fade_core import ControllerState, EnvironmentState
from fade_proto.convert import state_to_proto
from fade_proto.v1.run_pb2 import HistoryPoint, Snapshot
from fade_proto.v1.scheduler_pb2 import CompleteRunRequest, RestoreRunRequest

ROWS = ([1.0, 0.0], [0, 0])
OTHER_ROWS = ([1.0, 1.0, 1.0, 0.0], [0, 0, 0, 0])


def restore(client: Any, writer: str = "next", **fields: Any) -> Any:
    """RestoreRun; the client writes the new branch from then on."""
    response = client.stub.RestoreRun(RestoreRunRequest(name=client.name, writer=writer, **fields), timeout=10)
    client.writer = writer
    return response


def snapshot(client: Any, revision: int | None = None, trainer_step: int | None = None) -> Snapshot:
    """What a checkpoint would carry."""
    point = client.schedule(revision=revision)
    return Snapshot(
        name=client.name,
        branch=point.branch,
        revision=point.revision,
        trainer_step=trainer_step,
        config_revision=point.config_revision,
        state=point.state,
        state_digest=point.state_digest,
    )


def states(client: Any, branch: str) -> list[bytes]:
    """The state after each observation along a line."""
    return [client.schedule(branch, item.revision).state.SerializeToString(deterministic=True) for item in client.history(branch)]


@pytest.mark.parametrize("kind", ["point", "snapshot"])
def test_case_32_a_run_restored_and_continued_equals_one_that_never_went_on(client: Any, connect: Any, kind: str) -> None:
    twin = connect()
    twin.create()
    for number in range(1, 11):
        client.observe(f"b{number}", *ROWS, 1 / number, trainer_step=number)
        if number <= 6:
            twin.observe(f"b{number}", *ROWS, 1 / number, trainer_step=number)
    source = {"snapshot": snapshot(client, 6, trainer_step=6)} if kind == "snapshot" else {"point": HistoryPoint(revision=6)}
    opened = restore(client, trainer_step=6, **source)
    branch = opened.run.branch
    assert opened.run.revision == 6 and opened.run.trainer_step == 6 and branch != "main"
    assert [(item.parent, item.parent_revision) for item in opened.run.branches] == [("", 0), ("main", 6)]
    assert client.observe("b7", *OTHER_ROWS, 0.9, branch=branch, trainer_step=7).revision == 7
    twin.observe("b7", *OTHER_ROWS, 0.9, trainer_step=7)
    assert client.schedule().state_digest == twin.schedule().state_digest
    assert states(client, branch) == states(twin, "main")
    line = client.history(branch)
    assert [item.branch for item in line] == ["main"] * 6 + [branch]
    assert [item.observation_id for item in client.history("main")] == [f"b{number}" for number in range(1, 11)]
    assert client.schedule("main").revision == 10


def test_case_32_a_restore_says_which_step_it_expects_and_is_refused_at_another(client: Any, refused: Any) -> None:
    for number in range(1, 4):
        client.observe(f"b{number}", *ROWS, trainer_step=number)
    before = client.everything()
    for source in ({"snapshot": snapshot(client, 3, trainer_step=3)}, {"point": HistoryPoint(revision=3)}):
        refusal = refused(lambda source=source: restore(client, trainer_step=2, **source))
        assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "SNAPSHOT_MISMATCH")
        assert (refusal.metadata["given"], refusal.metadata["known"]) == ("2", "3")
    assert client.everything() == before


def test_a_point_without_a_step_of_its_own_stands_at_the_last_one_known(client: Any, refused: Any) -> None:
    client.observe("b1", *ROWS, trainer_step=4)
    client.observe("b2", *ROWS)
    client.observe("b3", *ROWS, trainer_step=6)
    refusal = refused(lambda: restore(client, trainer_step=99, point=HistoryPoint(revision=2)))
    assert (refusal.reason, refusal.metadata["known"]) == ("SNAPSHOT_MISMATCH", "4")
    assert restore(client, trainer_step=4, point=HistoryPoint(revision=2)).run.trainer_step == 4


def test_a_restored_trainer_may_step_from_its_checkpoint_again(client: Any, refused: Any) -> None:
    for number in range(1, 4):
        client.observe(f"b{number}", *ROWS, trainer_step=number)
    restore(client, point=HistoryPoint(revision=2))
    assert client.observe("b3", *ROWS, trainer_step=3).revision == 3
    restore(client, point=HistoryPoint(revision=1), writer="third")
    refusal = refused(lambda: client.observe("b2", *ROWS, trainer_step=0))
    assert refusal.reason == "TRAINER_STEP_DECREASED"


def test_the_same_restore_again_finds_its_branch_and_another_start_or_writer_does_not(client: Any, refused: Any) -> None:
    client.observe("b1", *ROWS)
    client.observe("b2", *ROWS)
    first = restore(client, branch_id="attempt-2", point=HistoryPoint(revision=1))
    for point in (HistoryPoint(revision=1), HistoryPoint(branch="main", revision=1)):
        again = restore(client, branch_id="attempt-2", point=point)
        assert again.run.branches == first.run.branches and again.state == first.state
    client.observe("b2", *OTHER_ROWS)
    late = restore(client, branch_id="attempt-2", point=HistoryPoint(branch="main", revision=1))
    assert late.run.revision == 2, "the retry finds the branch as it stands now"
    assert client.get().branches == first.run.branches
    elsewhere, here = HistoryPoint(branch="main", revision=2), HistoryPoint(branch="main", revision=1)
    for fields in ({"point": elsewhere}, {"point": here, "writer": "x"}):
        refusal = refused(lambda fields=fields: restore(client, branch_id="attempt-2", **fields))
        assert (refusal.code, refusal.reason) == ("ALREADY_EXISTS", "BRANCH_EXISTS")


def test_a_snapshot_of_another_run_or_of_an_unknown_branch_starts_a_line_of_its_own(client: Any, connect: Any) -> None:
    for number in range(3):
        client.observe(f"b{number}", *ROWS, 0.5)
    other = connect()
    other.create()
    taken = snapshot(client)
    opened = restore(other, snapshot=taken)
    assert opened.run.revision == 3 and opened.run.branches[1].parent == ""
    assert other.schedule().state_digest == client.schedule().state_digest
    assert other.history() == []
    assert other.observe("b3", *ROWS).revision == 4
    taken.name, taken.branch = other.name, "lost"
    assert restore(other, snapshot=taken, writer="third").run.branches[2].parent == ""
    assert client.get().revision == 3


def test_a_snapshot_of_the_start_opens_a_branch_at_zero(client: Any) -> None:
    start = snapshot(client)
    client.observe("b1", *ROWS)
    opened = restore(client, snapshot=start)
    assert (opened.run.revision, opened.run.branches[1].parent, client.schedule().revision) == (0, "main", 0)
    assert client.observe("b1", *OTHER_ROWS).revision == 1


def test_a_snapshot_that_this_history_does_not_hold_hangs_on_nothing(client: Any, connect: Any) -> None:
    twin = connect()
    twin.create()
    client.observe("b1", *ROWS)
    twin.observe("b1", *OTHER_ROWS)
    taken = snapshot(twin)
    taken.name = client.name
    assert restore(client, snapshot=taken).run.branches[1].parent == ""


def test_a_tampered_snapshot_is_refused(client: Any, refused: Any) -> None:
    client.observe("b1", *ROWS, 1.0)
    taken = snapshot(client)
    taken.state.environments[0].solve_rate = 0.9
    before = client.everything()
    refusal = refused(lambda: restore(client, snapshot=taken))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "SNAPSHOT_MISMATCH")
    assert client.everything() == before


@pytest.mark.parametrize(
    "state",
    [
        EnvironmentState(solve_rate=1.5),
        EnvironmentState(solve_rate=float("nan")),
        EnvironmentState(entropy_nats=float("inf")),
        EnvironmentState(entropy_nats=-1.0),
        EnvironmentState(warmup_entropy_nats=(1.0, float("nan"))),
        EnvironmentState(observation_count=-1),
        EnvironmentState(observation_count=2**63 - 1),
        EnvironmentState(entropy_baseline=-1),
    ],
)
def test_a_state_that_no_controller_can_have_is_refused(client: Any, refused: Any, state: EnvironmentState) -> None:
    taken = Snapshot(name=client.name, branch="main", state=state_to_proto(ControllerState({"default": state})))
    refusal = refused(lambda: restore(client, snapshot=taken))
    assert (refusal.code, refusal.field) == ("INVALID_ARGUMENT", "snapshot.state.environments[default]")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "INVALID_FIELD"),
        ({"point": HistoryPoint(revision=9)}, "REVISION_NOT_FOUND"),
        ({"point": HistoryPoint(revision=-1)}, "INVALID_FIELD"),
        ({"point": HistoryPoint(branch="lost", revision=0)}, "BRANCH_NOT_FOUND"),
        ({"point": HistoryPoint(), "writer": ""}, "INVALID_FIELD"),
        ({"point": HistoryPoint(), "branch_id": "Not An Id"}, "INVALID_FIELD"),
        ({"point": HistoryPoint(), "branch_id": "main", "writer": "writer"}, "BRANCH_EXISTS"),
        ({"snapshot": Snapshot(revision=-1)}, "INVALID_FIELD"),
        ({"snapshot": Snapshot(revision=2**63 - 1)}, "INVALID_FIELD"),
        ({"snapshot": Snapshot()}, "SNAPSHOT_MISMATCH"),
    ],
)
def test_a_restore_from_nowhere_is_refused(client: Any, refused: Any, fields: dict[str, Any], reason: str) -> None:
    client.observe("b1", *ROWS)
    before = client.everything()
    assert refused(lambda: restore(client, **fields)).reason == reason
    assert client.everything() == before


def test_a_completed_run_cannot_be_restored(client: Any, refused: Any) -> None:
    client.stub.CompleteRun(CompleteRunRequest(name=client.name), timeout=10)
    assert refused(lambda: restore(client, point=HistoryPoint())).reason == "RUN_COMPLETED"


def test_lines_go_back_through_every_fork(client: Any, refused: Any) -> None:
    for number in range(1, 5):
        client.observe(f"main-{number}", *ROWS, 1.0)
    restore(client, "w2", branch_id="second", point=HistoryPoint(revision=3))
    client.observe("second-4", *ROWS, 0.9)
    client.observe("second-5", *ROWS, 0.8)
    restore(client, "w3", branch_id="third", point=HistoryPoint(branch="second", revision=4))
    client.observe("third-5", *ROWS, 0.7)
    restore(client, "w4", branch_id="fourth", point=HistoryPoint(branch="third", revision=2))
    client.observe("fourth-3", *ROWS, 0.6)
    ids = {branch: [item.observation_id for item in client.history(branch)] for branch in ("main", "second", "third", "fourth")}
    assert ids == {
        "main": ["main-1", "main-2", "main-3", "main-4"],
        "second": ["main-1", "main-2", "main-3", "second-4", "second-5"],
        "third": ["main-1", "main-2", "main-3", "second-4", "third-5"],
        "fourth": ["main-1", "main-2", "fourth-3"],
    }
    for branch, line in ids.items():
        for revision in range(len(line) + 1):
            averages = client.schedule(branch, revision).state.environments
            told = [client.history(branch)[revision - 1].schedules[0].state] if revision else []
            assert list(averages) == told
    for branch, line in ids.items():
        assert refused(partial(client.schedule, branch, len(line) + 1)).reason == "REVISION_NOT_FOUND"
    assert client.schedule("second").revision == 5, "the newest of an abandoned branch is its last"
