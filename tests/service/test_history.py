"""ListObservations and GetSchedule: what was reported, what came of it, and in which pages it is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import (
    GetScheduleRequest,
    ListObservationsRequest,
    ListRunsRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_service import FadeServer

ROWS = ([1.0, 0.0], [0, 0])


def page(client: Any, **fields: Any) -> Any:
    """One page of ListObservations."""
    return client.stub.ListObservations(ListObservationsRequest(parent=client.name, **fields), timeout=10)


def pages(client: Any, **fields: Any) -> list[Any]:
    """All pages."""
    told = [page(client, **fields)]
    while told[-1].next_page_token:
        told.append(page(client, page_token=told[-1].next_page_token, **fields))
    return told


def update(client: Any, **config: Any) -> None:
    """UpdateRun of these fields."""
    request = UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(**config)), reason="because")
    request.update_mask.paths.extend(f"config.{name}" for name in config)
    client.stub.UpdateRun(request, timeout=10)


def test_an_entry_shows_the_report_by_group_and_its_answer(client: Any) -> None:
    request = client.report("b1", [1, 0, 1, 1, 0, float("nan"), 0, 0], [0, 0, 1, 1, 1, 2, 3, 3], 1.0, trainer_step=5)
    request.rows.statuses.extend([1, 1, 1, 2, 6, 1, 5, 5])
    request.groups.environments.extend(["math", "code", "math", "pad"])
    request.lost_reports = 3
    answer, _ = client.send(request)
    (entry,) = client.history()
    assert (entry.observation_id, entry.branch, entry.revision, entry.trainer_step) == ("b1", "main", 1, 5)
    assert (entry.config_revision, entry.outcome, entry.lost_reports) == (1, answer.outcome, 3)
    assert list(entry.schedules) == list(answer.schedules) and list(entry.warnings) == list(answer.warnings)
    assert [item.environment for item in entry.schedules] == ["code", "math"]
    groups = entry.groups
    assert list(groups.environment_index) == [1, 0, 1, -1]
    assert (list(groups.scored), list(groups.solved)) == ([2, 3, 0, 0], [1, 2, 0, 0])
    assert (list(groups.stale), list(groups.stale_solved)) == ([0, 1, 0, 0], [0, 0, 0, 0])
    assert list(groups.mean) == [0.5, pytest.approx(2 / 3), 0.0, 0.0]
    assert entry.create_time == client.get().observe_time and not entry.HasField("late")


def test_pages_hold_every_observation_once_whatever_their_size(client: Any) -> None:
    for number in range(7):
        client.observe(f"b{number}", *ROWS)
    for size, lengths in ((1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (0, [7]), (5000, [7])):
        told = pages(client, page_size=size)
        assert [len(item.observations) for item in told] == lengths
        assert [entry.observation_id for item in told for entry in item.observations] == [f"b{number}" for number in range(7)]


def test_pages_go_on_through_the_forks_of_a_line(client: Any) -> None:
    for number in range(4):
        client.observe(f"main-{number}", *ROWS)
    point = run_pb2.HistoryPoint(revision=3)
    client.stub.RestoreRun(RestoreRunRequest(name=client.name, writer="writer", branch_id="second", point=point), timeout=10)
    client.observe("second-3", *ROWS)
    told = pages(client, page_size=2)
    assert [[entry.observation_id for entry in item.observations] for item in told] == [
        ["main-0", "main-1"],
        ["main-2", "second-3"],
    ]


@pytest.fixture
def short(redis_url: str, connect: Any) -> Iterator[Any]:
    """A client of a new run on a store that keeps the newest 5 observations of each branch; 12 were made."""
    with FadeServer(f"{redis_url}?history=5", grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        for number in range(1, 13):
            client.observe(f"b{number}", *ROWS)
        yield client


def test_a_revision_that_is_no_longer_kept_is_told_from_one_that_never_was(short: Any, refused: Any) -> None:
    assert [short.schedule(revision=revision).revision for revision in (0, 8, 12)] == [0, 8, 12]
    for revision in (1, 7):
        expired = refused(partial(short.schedule, revision=revision))
        assert (expired.code, expired.reason) == ("FAILED_PRECONDITION", "HISTORY_EXPIRED")
        assert (expired.metadata["revision"], expired.metadata["branch"]) == (str(revision), "main")
        request = RestoreRunRequest(name=short.name, writer="next", point=run_pb2.HistoryPoint(revision=revision))
        assert refused(partial(short.stub.RestoreRun, request, timeout=10)).reason == "HISTORY_EXPIRED"
    assert refused(partial(short.schedule, revision=13)).reason == "REVISION_NOT_FOUND"
    assert short.get().branch == "main"


def test_where_a_branch_starts_is_kept_whatever_is_dropped(short: Any) -> None:
    at_nine = short.schedule(revision=9)
    point = run_pb2.HistoryPoint(revision=9)
    short.stub.RestoreRun(RestoreRunRequest(name=short.name, writer="next", branch_id="main-2", point=point), timeout=10)
    short.writer = "next"
    for number in range(10, 20):
        short.observe(f"c{number}", *ROWS)
    assert short.schedule("main-2", 9).state == at_nine.state
    assert [entry.revision for entry in short.history("main-2")] == [8, 9, 15, 16, 17, 18, 19]
    assert [entry.revision for item in pages(short, branch="main-2", page_size=1) for entry in item.observations] == [
        entry.revision for entry in short.history("main-2")
    ]


def test_a_snapshot_of_a_state_that_is_no_longer_kept_starts_a_line_of_its_own(short: Any) -> None:
    kept = short.schedule(revision=8)
    short.observe("b13", *ROWS)
    snapshot = run_pb2.Snapshot(
        name=short.name,
        branch="main",
        revision=8,
        config_revision=1,
        state=kept.state,
        state_digest=kept.state_digest,
    )
    opened = short.stub.RestoreRun(RestoreRunRequest(name=short.name, writer="next", snapshot=snapshot), timeout=10)
    assert (opened.run.revision, opened.run.branches[1].parent, opened.state) == (8, "", kept.state)


def test_a_page_does_not_jump_over_what_was_dropped_since_the_page_before(short: Any, refused: Any) -> None:
    first = page(short, page_size=2)
    assert [entry.revision for entry in first.observations] == [8, 9]
    short.observe("b13", *ROWS)
    short.observe("b14", *ROWS)
    assert page(short, page_size=2, page_token=first.next_page_token).observations[0].revision == 10
    short.observe("b15", *ROWS)
    expired = refused(partial(page, short, page_token=first.next_page_token))
    assert (expired.reason, expired.metadata["revision"]) == ("HISTORY_EXPIRED", "10")
    assert [entry.revision for entry in short.history()] == [11, 12, 13, 14, 15]


def test_large_observations_make_pages_that_any_client_can_receive(client: Any) -> None:
    """gRPC's clients take 4 MB unless told otherwise."""
    groups = 20_000
    rewards = [1.0, 0.3] * groups
    for number in range(12):
        client.observe(f"b{number}", rewards, [row // 2 for row in range(2 * groups)])
    told = pages(client)
    assert len(told) > 1 and all(0 < item.ByteSize() < 4 * 2**20 for item in told)
    assert [entry.observation_id for item in told for entry in item.observations] == [f"b{number}" for number in range(12)]


def test_a_page_brings_the_configurations_that_its_observations_fall_under(client: Any) -> None:
    client.observe("b1", *ROWS)
    update(client, alpha_max=2.0)
    update(client, alpha_max=2.5)
    client.observe("b2", *ROWS)
    told = page(client)
    assert [(item.config_revision, item.reason, item.revision) for item in told.config_changes] == [(1, "", 0), (3, "because", 1)]
    assert told.config_changes[1].config.alpha_max == 2.5 and told.config_changes[1].branch == "main"
    assert [item.config_revision for item in page(client, page_size=1).config_changes] == [1]


def test_a_schedule_of_the_past_is_the_one_that_was_answered_and_the_newest_has_the_configuration_in_force(client: Any) -> None:
    answers = [client.observe(f"b{number}", *ROWS, 1 / (1 + number)) for number in range(4)]
    update(client, mode=observation_pb2.MODE_PINNED, pinned_alpha=2.0)
    for answer in answers[:-1]:
        told = client.schedule(revision=answer.revision)
        assert (told.config_revision, told.revision) == (1, answer.revision)
        assert told.schedules[0].schedule == answer.schedules[0].schedule and told.state == answer.state
        assert len(told.state_digest) == 64
    newest = client.schedule()
    assert (newest.revision, newest.config_revision, newest.schedules[0].schedule.alpha) == (4, 2, 2.0)
    assert newest.state == answers[-1].state


def test_before_the_first_observation_there_is_the_default_environment_alone(client: Any) -> None:
    told = client.schedule()
    (item,) = told.schedules
    assert (told.revision, item.environment, item.state.solve_rate, item.schedule.scale) == (0, "default", 0.5, 1.0)
    assert item.schedule.alpha == 1.5 and item.schedule.delta == 1.0 and not item.schedule.HasField("target_entropy_nats")
    assert not told.state.environments
    assert client.schedule(revision=0) == told


def forged(token: str, after: Any) -> str:
    """The same token with another place in it."""
    bound, _ = json.loads(base64.urlsafe_b64decode(token))
    return base64.urlsafe_b64encode(json.dumps([bound, after]).encode()).decode()


def test_a_token_belongs_to_its_listing_and_anything_else_is_refused(client: Any, connect: Any, refused: Any) -> None:
    other = connect()
    other.create()
    for number in range(3):
        client.observe(f"b{number}", *ROWS)
    token = page(client, page_size=1).next_page_token
    runs = client.stub.ListRuns(ListRunsRequest(parent="projects/test", page_size=1), timeout=10).next_page_token
    deep = base64.urlsafe_b64encode(b"[" * 100_000).decode()
    garbage = [
        "garbage",
        "é",
        "bnVsbA==",
        runs,
        deep,
        *(forged(token, after) for after in ("9" * 5000, "x", "-1", None, [1], "٣x")),
    ]
    for wrong in garbage:
        refusal = refused(partial(page, client, page_token=wrong))
        assert (refusal.code, refusal.field) == ("INVALID_ARGUMENT", "page_token"), wrong[:40]
    assert refused(partial(page, other, page_token=token)).field == "page_token"
    assert [item.observation_id for item in page(client, page_token=token, page_size=2).observations] == ["b1", "b2"]


@pytest.mark.parametrize(
    ("asked", "reason", "field"),
    [
        (ListObservationsRequest(page_size=-1), "INVALID_FIELD", "page_size"),
        (ListObservationsRequest(branch="lost"), "BRANCH_NOT_FOUND", ""),
        (ListObservationsRequest(parent="projects/test/runs/nowhere"), "RUN_NOT_FOUND", ""),
        (ListObservationsRequest(parent="projects/test"), "INVALID_FIELD", "parent"),
        (GetScheduleRequest(revision=-1), "INVALID_FIELD", "revision"),
        (GetScheduleRequest(revision=2), "REVISION_NOT_FOUND", ""),
        (GetScheduleRequest(revision=2**63 - 1), "REVISION_NOT_FOUND", ""),
        (GetScheduleRequest(branch="lost"), "BRANCH_NOT_FOUND", ""),
        (GetScheduleRequest(name="x"), "INVALID_FIELD", "name"),
    ],
)
def test_what_is_not_there_cannot_be_read(client: Any, refused: Any, asked: Any, reason: str, field: str) -> None:
    client.observe("b1", *ROWS)
    if isinstance(asked, ListObservationsRequest):
        method, request = client.stub.ListObservations, ListObservationsRequest(parent=client.name)
    else:
        method, request = client.stub.GetSchedule, GetScheduleRequest(name=client.name)
    request.MergeFrom(asked)
    refusal = refused(lambda: method(request, timeout=10))
    assert (refusal.reason, refusal.field) == (reason, field)
