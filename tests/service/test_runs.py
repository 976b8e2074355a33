"""A run's life: create, join, read, list, configure, complete, delete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CreateRunRequest,
    DeleteRunRequest,
    ListObservationsRequest,
    ListRunsRequest,
    UpdateRunRequest,
)

ROWS = ([1.0, 0.0], [0, 0])


def update(client: Any, etag: str = "", rebaseline_entropy: bool = False, validate_only: bool = False, **config: Any) -> Any:
    """UpdateRun of these fields; None unsets a field."""
    values = {name: value for name, value in config.items() if value is not None}
    run = run_pb2.Run(name=client.name, etag=etag, config=run_pb2.RunConfig(**values))
    request = UpdateRunRequest(run=run, reason="because", rebaseline_entropy=rebaseline_entropy, validate_only=validate_only)
    request.update_mask.paths.extend(f"config.{name}" for name in config)
    return client.stub.UpdateRun(request, timeout=10)


def test_a_new_run_shows_its_whole_configuration_and_stands_at_the_start(connect: Any) -> None:
    client = connect()
    run = client.create(reward_min=-1.0)
    assert run.name == client.name and run.state == run_pb2.Run.STATE_ACTIVE
    assert (run.config_revision, run.branch, run.revision) == (1, "main", 0)
    assert (run.config.reward_min, run.config.reward_max, run.config.ema_weight) == (-1.0, 1.0, 0.02)
    assert run.config.alpha_rule == run_pb2.ALPHA_RULE_SOLVE_RATE and run.config.mode == observation_pb2.MODE_ACTIVE
    assert [branch.id for branch in run.branches] == ["main"] and not run.HasField("observe_time")
    assert not run.HasField("trainer_step") and run.etag and run.uid
    assert client.get() == run


def test_a_run_that_exists_is_joined_and_the_differences_come_back(connect: Any) -> None:
    client = connect()
    first = client.create(reward_max=10.0, alpha_max=2.0)
    joined = client.create(reward_max=10.0, ema_weight=0.5)
    assert joined.uid == first.uid and joined.config == first.config
    assert {item.subject: item.reason for item in joined.warnings} == {
        "alpha_max": "CONFIG_DIFFERS",
        "ema_weight": "CONFIG_DIFFERS",
    }
    without = client.stub.CreateRun(CreateRunRequest(parent="projects/test", run_id=client.run), timeout=10)
    assert not without.warnings, "who passes no configuration differs in none"


def test_sixteen_creations_at_once_make_one_run(connect: Any) -> None:
    clients = [connect("at-once") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert len({run.uid for run in pool.map(lambda client: client.create(), clients * 2)}) == 1


def test_a_creation_can_be_checked_without_being_done(connect: Any, refused: Any) -> None:
    client = connect()
    request = CreateRunRequest(parent="projects/test", run_id=client.run, validate_only=True)
    assert client.stub.CreateRun(request, timeout=10).config.alpha_max == 3.0
    assert refused(client.get).reason == "RUN_NOT_FOUND"


@pytest.mark.parametrize("run_id", ["", "Upper", "-x", "x-", "a" * 64, "a/b", "a_b"])
def test_a_run_id_of_another_shape_is_refused(connect: Any, refused: Any, run_id: str) -> None:
    request = CreateRunRequest(parent="projects/test", run_id=run_id)
    refusal = refused(lambda: connect().stub.CreateRun(request, timeout=10))
    assert (refusal.reason, refusal.field) == ("INVALID_FIELD", "run_id")


def test_runs_are_listed_in_pages_in_the_order_of_their_names(connect: Any, refused: Any) -> None:
    stub = connect().stub
    for project, run in (("listed", "b"), ("listed", "a"), ("listed", "c"), ("listed-too", "a")):
        stub.CreateRun(CreateRunRequest(parent=f"projects/{project}", run_id=run), timeout=10)
    names, token = [], ""
    while True:
        page = stub.ListRuns(ListRunsRequest(parent="projects/listed", page_size=2, page_token=token), timeout=10)
        names.append([run.name for run in page.runs])
        token = page.next_page_token
        if not token:
            break
    assert names == [["projects/listed/runs/a", "projects/listed/runs/b"], ["projects/listed/runs/c"]]
    everywhere = stub.ListRuns(ListRunsRequest(parent="projects/-", page_size=5000), timeout=10).runs
    assert {"projects/listed/runs/a", "projects/listed-too/runs/a"} <= {run.name for run in everywhere}
    token = stub.ListRuns(ListRunsRequest(parent="projects/listed", page_size=1), timeout=10).next_page_token
    for request in (
        ListRunsRequest(parent="projects/other", page_token=token),
        ListRunsRequest(parent="projects/listed", page_token="garbage"),
        ListRunsRequest(parent="projects/listed", page_token="WyJ4Il0="),
    ):
        assert refused(lambda request=request: stub.ListRuns(request, timeout=10)).field == "page_token"
    assert (
        refused(lambda: stub.ListRuns(ListRunsRequest(parent="projects/listed", page_size=-1), timeout=10)).field == "page_size"
    )


def test_an_update_takes_effect_with_the_next_observation_and_stays_in_the_history(client: Any) -> None:
    client.observe("b1", *ROWS)
    after = update(client, alpha_max=1.25, delta_rule=run_pb2.DELTA_RULE_RATIO)
    assert (after.config_revision, after.config.alpha_max, after.config.alpha_min) == (2, 1.25, 1.0)
    answer = client.observe("b2", *ROWS)
    assert (answer.config_revision, answer.schedules[0].schedule.alpha) == (2, 1.25)
    page = client.stub.ListObservations(ListObservationsRequest(parent=client.name), timeout=10)
    assert [item.config_revision for item in page.observations] == [1, 2]
    change = page.config_changes[1]
    assert (change.config_revision, change.reason, change.branch, change.revision) == (2, "because", "main", 1)
    assert change.config.alpha_max == 1.25


def test_a_named_field_that_is_unset_goes_back_to_its_default_and_nothing_else_moves(connect: Any) -> None:
    client = connect()
    client.create(alpha_max=2.0, target_entropy_nats=1.0)
    after = update(client, target_entropy_nats=None)
    assert not after.config.HasField("target_entropy_nats") and after.config.alpha_max == 2.0
    assert update(client, alpha_max=2.0).config_revision == 2, "no change, no version"


def test_a_field_that_cannot_change_live_is_refused(client: Any, refused: Any) -> None:
    refusal = refused(lambda: update(client, reward_max=2.0))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "FIELD_NOT_LIVE")
    assert refusal.metadata["name"] == "reward_max"
    assert update(client, reward_max=1.0).config_revision == 1


@pytest.mark.parametrize("path", ["config", "config.nothing", "name", "config.entropy_baseline", "state"])
def test_a_path_that_names_no_configuration_field_is_refused(client: Any, refused: Any, path: str) -> None:
    request = UpdateRunRequest(run=run_pb2.Run(name=client.name))
    request.update_mask.paths.append(path)
    refusal = refused(lambda: client.stub.UpdateRun(request, timeout=10))
    assert (refusal.reason, refusal.field, refusal.metadata["path"]) == ("INVALID_FIELD", "update_mask", path)


def test_an_update_of_nothing_is_refused(client: Any, refused: Any) -> None:
    assert refused(lambda: update(client)).field == "update_mask"


def test_an_etag_of_another_configuration_aborts_and_observations_do_not_change_it(client: Any, refused: Any) -> None:
    etag = client.get().etag
    client.observe("b1", *ROWS)
    assert client.get().etag == etag
    after = update(client, etag=etag, alpha_max=2.0)
    assert after.etag != etag
    refusal = refused(lambda: update(client, etag=etag, alpha_max=2.5))
    assert (refusal.code, refusal.reason) == ("ABORTED", "ETAG_MISMATCH")
    assert refused(lambda: client.stub.DeleteRun(DeleteRunRequest(name=client.name, etag=etag), timeout=10)).code == "ABORTED"
    assert client.get().config.alpha_max == 2.0


def test_an_update_can_be_checked_without_being_done(client: Any, refused: Any) -> None:
    assert update(client, validate_only=True, alpha_max=2.0).config_revision == 2
    assert refused(lambda: update(client, validate_only=True, alpha_max=0.5)).reason == "INVALID_CONFIG"
    assert client.get().config_revision == 1


def test_a_rebaseline_lets_another_kind_of_entropy_in_and_starts_its_average_anew(client: Any) -> None:
    def observe(number: int, kind: str, entropy: float) -> Any:
        request = client.report(f"b{number}", *ROWS, entropy)
        request.entropy.kind = kind
        return client.send(request)[0].schedules[0].state

    observe(1, "first", 0.6)
    assert update(client, rebaseline_entropy=True).config.entropy_baseline == 1
    state = observe(2, "second", 1.0)
    assert (state.entropy_nats, state.initial_entropy_nats, state.entropy_kind) == (1.0, 1.0, "second")
    assert observe(3, "second", 0.5).entropy_nats == pytest.approx(0.98 + 0.02 * 0.5, rel=1e-15)


def test_pinned_weights_hold_while_the_averages_go_on(client: Any) -> None:
    update(client, mode=observation_pb2.MODE_PINNED, pinned_alpha=2.0, pinned_delta=0.5)
    item = client.observe("b1", *ROWS, 1.0).schedules[0]
    assert (item.schedule.alpha, item.schedule.delta, item.schedule.mode) == (2.0, 0.5, observation_pb2.MODE_PINNED)
    assert item.state.observation_count == 1 and item.state.entropy_nats == 1.0
    assert client.schedule().schedules[0].schedule.alpha == 2.0


def test_a_run_can_be_turned_to_shadow_and_back_live(client: Any) -> None:
    update(client, mode=observation_pb2.MODE_SHADOW)
    answer = client.observe("b1", *ROWS, return_advantages=True)
    assert answer.schedules[0].schedule.mode == observation_pb2.MODE_SHADOW and list(answer.advantages) == [0.5, -0.5]
    alpha = answer.schedules[0].schedule.alpha
    assert alpha > 1
    update(client, mode=None)
    answer = client.observe("b2", *ROWS, return_advantages=True)
    assert answer.schedules[0].schedule.mode == observation_pb2.MODE_ACTIVE
    assert list(answer.advantages) == pytest.approx([0.5**alpha, -(0.5**alpha)], rel=1e-14)


def test_completing_twice_changes_nothing_more(client: Any) -> None:
    def complete() -> Any:
        return client.stub.CompleteRun(CompleteRunRequest(name=client.name), timeout=10).run

    first = complete()
    assert first.state == run_pb2.Run.STATE_COMPLETED
    assert complete() == first == client.get()


def test_a_deleted_run_is_gone_and_its_name_starts_anew(client: Any, connect: Any, refused: Any) -> None:
    uid = client.get().uid
    client.observe("b1", *ROWS)
    client.stub.DeleteRun(DeleteRunRequest(name=client.name), timeout=10)
    assert refused(client.get).reason == "RUN_NOT_FOUND"
    assert refused(lambda: client.observe("b2", *ROWS)).reason == "RUN_NOT_FOUND"
    assert refused(lambda: client.stub.DeleteRun(DeleteRunRequest(name=client.name), timeout=10)).code == "NOT_FOUND"
    assert client.create().uid != uid
    assert client.get().branches[0].writer == ""
    assert client.history() == []
    assert connect(client.run, writer="new job").observe("b1", *ROWS).revision == 1
    assert refused(lambda: client.observe("b2", *ROWS)).reason == "WRITER_FENCED", "the old job does not mix in"
