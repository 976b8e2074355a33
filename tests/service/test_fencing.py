"""Who may report what, and which refusal comes first: branch, writer, used id, completed run, current branch, step, maths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CreateRunRequest,
    DeleteRunRequest,
    ObserveRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_service import FadeServer

ROWS, OTHER_ROWS = ([1.0, 0.0], [0, 0]), ([1.0, 1.0, 0.0], [0, 0, 0])


def restore(client: Any, writer: str, revision: int) -> str:
    """Opens branch "second" from a revision of "main"."""
    point = run_pb2.HistoryPoint(branch="main", revision=revision)
    request = RestoreRunRequest(name=client.name, writer=writer, branch_id="second", point=point)
    return str(client.stub.RestoreRun(request, timeout=10).run.branch)


Spoil = Callable[[ObserveRequest], object]

FAULTS: dict[str, tuple[str, Spoil]] = {
    "unknown branch": ("BRANCH_NOT_FOUND", lambda request: setattr(request, "branch", "lost")),
    "other writer": ("WRITER_FENCED owner", lambda request: setattr(request, "writer", "other")),
    "used id": ("OBSERVATION_CONFLICT", lambda request: setattr(request, "observation_id", "b1")),
    "completed": ("RUN_COMPLETED", lambda request: None),
    "abandoned branch": ("WRITER_FENCED current", lambda request: setattr(request, "branch", "main")),
    "smaller step": ("TRAINER_STEP_DECREASED", lambda request: setattr(request, "trainer_step", 2)),
    "bad reward": ("INVALID_FIELD", lambda request: request.rows.rewards.__setitem__(0, 7.0)),
}
"""In the order in which they are looked for: each with what the refusal says, and what makes a good report have the fault."""


@pytest.mark.parametrize("first", FAULTS)
def test_of_all_faults_of_a_report_the_first_in_the_order_is_named_and_nothing_changes(
    client: Any, refused: Any, first: str
) -> None:
    client.observe("b1", *ROWS, trainer_step=1)
    client.observe("b2", *ROWS, trainer_step=3)
    had = list(FAULTS)[list(FAULTS).index(first) :]
    if "abandoned branch" in had:
        restore(client, "writer", 2)
    if "completed" in had:
        client.stub.CompleteRun(CompleteRunRequest(name=client.name), timeout=10)
    request = client.report("new", *OTHER_ROWS, trainer_step=4)
    for fault in reversed(had):
        FAULTS[fault][1](request)
    before = client.everything()
    refusal = refused(lambda: client.send(request))
    reason, _, said = FAULTS[first][0].partition(" ")
    assert refusal.reason == reason and (not said or said in refusal.metadata)
    assert client.everything() == before


def test_another_writer_is_fenced_off_from_a_replay_and_from_an_evaluation(client: Any, connect: Any, refused: Any) -> None:
    client.observe("b1", *ROWS)
    other = connect(client.run, writer="other")
    for split in (observation_pb2.SPLIT_TRAIN, observation_pb2.SPLIT_EVAL):
        refusal = refused(lambda split=split: other.observe("b1", *ROWS, split=split))
        assert (refusal.reason, refusal.metadata["owner"], refusal.metadata["writer"]) == ("WRITER_FENCED", "writer", "other")


def test_a_refused_report_and_an_evaluation_claim_nothing(client: Any, connect: Any, refused: Any) -> None:
    assert refused(lambda: client.observe("b1", [7.0], [0])).reason == "INVALID_FIELD"
    client.observe("e1", *ROWS, split=observation_pb2.SPLIT_EVAL)
    assert client.get().branches[0].writer == ""
    assert connect(client.run, writer="other").observe("b1", *ROWS).revision == 1
    assert client.get().branches[0].writer == "other"
    assert refused(lambda: client.observe("b1", *ROWS)).reason == "WRITER_FENCED"


def test_a_writer_that_restores_takes_the_run_over_and_fences_the_first_off(client: Any, connect: Any, refused: Any) -> None:
    client.observe("b1", *ROWS)
    other = connect(client.run, writer="other")
    branch = restore(other, "other", 1)
    assert other.observe("b2", *ROWS).branch == branch
    for named in ("", "main", branch):
        assert refused(lambda named=named: client.observe("b2", *ROWS, branch=named)).reason == "WRITER_FENCED"
    assert [item.branch for item in client.history()] == ["main", branch]


def test_a_completed_run_still_answers_evaluations_and_advice_does_not_send_in_circles(client: Any, refused: Any) -> None:
    client.observe("b1", *ROWS)
    restore(client, "writer", 1)
    client.stub.CompleteRun(CompleteRunRequest(name=client.name), timeout=10)
    assert client.observe("e1", *ROWS, split=observation_pb2.SPLIT_EVAL).revision == 1
    refusal = refused(lambda: client.observe("b2", *ROWS, branch="main"))
    assert refusal.reason == "RUN_COMPLETED" and "RestoreRun" not in refusal.message


@pytest.fixture
def replicas(tmp_path: Path, connect: Any) -> Any:
    """Clients of one run, which stands at revision 10 of "main" and step 10, through two servers on one file."""
    store = f"sqlite:///{tmp_path}/fade.db"
    with FadeServer(store, grpc_port=0, http_port=0) as one, FadeServer(store, grpc_port=0, http_port=0) as two:
        clients = [connect("r", at=f"127.0.0.1:{server.grpc_port}") for server in (one, two)]
        clients[0].create()
        for number in range(1, 11):
            clients[1].observe(f"b{number}", *ROWS, trainer_step=number)
        yield clients


@pytest.mark.parametrize("rows", [ROWS, OTHER_ROWS], ids=["the same content", "other content"])
def test_a_report_after_a_restore_through_another_replica_is_applied_not_replayed(replicas: Any, rows: Any) -> None:
    here, there = replicas
    restore(here, "writer", 6)
    answer, replayed = there.send(there.report("b7", *rows, trainer_step=7))
    assert (answer.branch, answer.revision, replayed) == ("second", 7, False)
    assert [item.observation_id for item in here.history()] == [f"b{number}" for number in range(1, 8)]


def test_what_one_replica_changed_the_other_goes_by(replicas: Any, refused: Any) -> None:
    here, there = replicas
    update = UpdateRunRequest(run=run_pb2.Run(name=here.name, config=run_pb2.RunConfig(reward_max=1.0, alpha_max=1.0)))
    update.update_mask.paths.append("config.alpha_max")
    here.stub.UpdateRun(update, timeout=10)
    answer = there.observe("b11", *ROWS)
    assert (answer.config_revision, answer.schedules[0].schedule.alpha) == (2, 1.0)
    here.stub.CompleteRun(CompleteRunRequest(name=here.name), timeout=10)
    assert refused(lambda: there.observe("b12", *ROWS)).reason == "RUN_COMPLETED"
    here.stub.DeleteRun(DeleteRunRequest(name=here.name), timeout=10)
    assert refused(lambda: there.observe("b12", *ROWS)).reason == "RUN_NOT_FOUND"
    here.stub.CreateRun(CreateRunRequest(parent="projects/test", run_id="r"), timeout=10)
    answer, replayed = there.send(there.report("b1", *ROWS, trainer_step=1))
    assert (answer.revision, replayed) == (1, False), "the old run's history is gone with it"
