"""Observe: the schedule of a batch, and exactly once."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import CompleteRunRequest, RestoreRunRequest, UpdateRunRequest
from fade_service import FadeServer

REWARDS, GROUPS = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0], [0, 0, 0, 0, 1, 1, 1, 1]
SOLVE_RATE = (0.25 + 0.5) / 2


def test_the_schedule_is_that_of_the_paper_for_the_averages_after_the_batch(client: Any) -> None:
    answer = client.observe("b1", REWARDS, GROUPS, 1.0)
    p_hat = 0.98 * 0.5 + 0.02 * SOLVE_RATE
    (item,) = answer.schedules
    assert (answer.branch, answer.revision, answer.config_revision) == ("main", 1, 1)
    assert item.environment == "default"
    assert item.state.solve_rate == pytest.approx(p_hat, rel=1e-15)
    assert item.state.entropy_nats == item.state.initial_entropy_nats == 1.0
    assert item.schedule.alpha == pytest.approx(1.5 * (1 - p_hat) / p_hat, rel=1e-15)
    assert item.schedule.delta == 1.0
    assert item.schedule.target_entropy_nats == 0.5
    second = client.observe("b2", REWARDS, GROUPS, 0.0)
    assert second.revision == 2
    assert second.schedules[0].state.entropy_nats == pytest.approx(0.98, rel=1e-15)
    assert client.get().revision == 2


def test_delta_falls_under_the_target_entropy(connect: Any) -> None:
    client = connect()
    client.create(ema_weight=1.0, target_entropy_nats=1.0)
    assert client.observe("b1", REWARDS, GROUPS, 0.6).schedules[0].schedule.delta == pytest.approx(0.6, rel=1e-15)
    floor = client.observe("b2", REWARDS, GROUPS, 0.1).schedules[0].schedule
    assert floor.delta == 0.3 and floor.phase == observation_pb2.PHASE_FLOOR


def test_advantages_come_back_in_request_order(connect: Any) -> None:
    client = connect()
    client.create(alpha_rule=run_pb2.ALPHA_RULE_FIXED, alpha=2.0, delta_rule=run_pb2.DELTA_RULE_FIXED, delta=0.5)
    answer = client.observe("b1", [0, 1, 1, 0, 0, 0], [1, 0, 1, 1, 1, 0], return_advantages=True)
    factor = 1 - 0.25
    expected = [factor * -0.25 / 0.5, 0.5 * 0.5, factor * 0.75, factor * -0.25 / 0.5, factor * -0.25 / 0.5, 0.5 * -0.5 / 0.5]
    assert list(answer.advantages) == pytest.approx(expected, rel=1e-15)


def test_case_30_a_report_sent_again_gets_the_stored_answer_and_moves_nothing(client: Any) -> None:
    request = client.report("b7", [1.0, 0.0], [0, 0], 1.0, return_advantages=True)
    first, replayed = client.send(request)
    assert not replayed
    client.observe("b8", REWARDS, GROUPS, 0.7)
    before = client.everything()
    again, replayed = client.send(request)
    assert replayed
    assert again == first
    assert client.everything() == before


def test_a_replay_may_differ_in_what_is_no_content(client: Any) -> None:
    first, _ = client.send(client.report("b7", [1.0, -0.0], [0, 0], trainer_step=3))
    again = client.report("b7", [1.0, 0.0], [0, 0], trainer_step=2, return_advantages=True, lost_reports=2)
    again.groups.labels.append("a prompt")
    again.late.config_revision = 1
    answer, replayed = client.send(again)
    assert replayed and answer.revision == 1
    size = 0.5 ** first.schedules[0].schedule.alpha
    assert list(answer.advantages) == pytest.approx([size, -size], rel=1e-14)
    assert client.get().trainer_step == 3


def test_case_30_other_content_under_a_used_id_is_refused(client: Any, refused: Any) -> None:
    client.observe("b7", [1.0, 0.0], [0, 0])
    before = client.everything()
    refusal = refused(lambda: client.observe("b7", [0.0, 0.0], [0, 0]))
    assert (refusal.code, refusal.reason) == ("ALREADY_EXISTS", "OBSERVATION_CONFLICT")
    assert refusal.metadata["observation_id"] == "b7" and refusal.metadata["revision"] == "1"
    assert client.everything() == before


def test_nan_is_one_value_in_a_replay(client: Any) -> None:
    client.observe("b1", [1.0, math.nan, 0.0], [0, 0, 0])
    assert client.send(client.report("b1", [1.0, -math.nan, 0.0], [0, 0, 0]))[1]


def test_case_34_eight_ranks_with_one_report_make_one_update_and_get_eight_equal_answers(client: Any, connect: Any) -> None:
    ranks = [connect(client.run) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda rank: rank.send(rank.report("b1", REWARDS, GROUPS, 1.0)), ranks))
    assert len({answer.SerializeToString(deterministic=True) for answer, _ in answers}) == 1
    assert sum(not replayed for _, replayed in answers) == 1
    assert client.get().revision == 1


def test_different_reports_at_once_are_all_counted_once(client: Any, connect: Any) -> None:
    ranks = [connect(client.run) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        done = pool.map(lambda n: ranks[n % 4].observe(f"b{n // 2}", REWARDS, GROUPS).revision, range(80))
        revisions = sorted(done)
    assert revisions == sorted([*range(1, 41), *range(1, 41)])
    assert [item.revision for item in client.history()] == list(range(1, 41))


def test_replays_survive_a_restart_and_later_configuration(tmp_path: Path, connect: Any) -> None:
    store = f"sqlite:///{tmp_path}/fade.db"
    with FadeServer(store, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        request = client.report("b1", REWARDS, GROUPS, 1.0, return_advantages=True)
        first, _ = client.send(request)
        update = UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(alpha_max=1.0)))
        update.update_mask.paths.append("config.alpha_max")
        client.stub.UpdateRun(update, timeout=10)
        assert client.observe("b2", REWARDS, GROUPS).schedules[0].schedule.alpha == 1.0
    with FadeServer(store, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        again, replayed = client.send(request)
        assert replayed and again == first


def test_the_first_writer_claims_the_branch_and_fences_others_off_also_from_replays(
    client: Any, connect: Any, refused: Any
) -> None:
    client.observe("b1", REWARDS, GROUPS)
    other = connect(client.run, writer="second job")
    before = client.everything()
    for observation_id in ("b1", "b2"):
        refusal = refused(lambda observation_id=observation_id: other.observe(observation_id, REWARDS, GROUPS))
        assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "WRITER_FENCED")
        assert refusal.metadata["owner"] == "writer" and "RestoreRun" in refusal.message
    assert client.everything() == before


def test_a_zombie_of_an_abandoned_branch_gets_its_replays_and_nothing_else(client: Any, connect: Any, refused: Any) -> None:
    client.observe("b1", REWARDS, GROUPS)
    restored = connect(client.run, writer="second attempt")
    restore = RestoreRunRequest(name=client.name, writer="second attempt", point=run_pb2.HistoryPoint(revision=1))
    branch = restored.stub.RestoreRun(restore, timeout=10).run.branch
    assert restored.observe("b2", REWARDS, GROUPS, branch=branch).revision == 2
    assert client.send(client.report("b1", REWARDS, GROUPS, branch="main"))[1]
    refusal = refused(lambda: client.observe("b2", REWARDS, GROUPS, branch="main"))
    assert refusal.reason == "WRITER_FENCED" and refusal.metadata["current"] == branch
    assert [item.branch for item in client.history("main")] == ["main"]


def test_a_completed_run_takes_nothing_new_and_still_replays(client: Any, refused: Any) -> None:
    client.observe("b1", REWARDS, GROUPS)
    client.stub.CompleteRun(CompleteRunRequest(name=client.name), timeout=10)
    assert client.send(client.report("b1", REWARDS, GROUPS))[1]
    refusal = refused(lambda: client.observe("b2", REWARDS, GROUPS))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "RUN_COMPLETED")


def test_case_31_the_trainers_step_never_decreases_and_need_not_be_dense(client: Any, refused: Any) -> None:
    for step in (0, 3, 3):
        client.observe(f"b-{client.get().revision}", REWARDS, GROUPS, trainer_step=step)
    refusal = refused(lambda: client.observe("late", REWARDS, GROUPS, trainer_step=2))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "TRAINER_STEP_DECREASED")
    assert refusal.metadata["known"] == "3" and refusal.metadata["given"] == "2"
    assert client.observe("without", REWARDS, GROUPS).revision == 4
    assert client.get().trainer_step == 3


def test_evaluation_moves_nothing_and_is_not_kept(client: Any) -> None:
    client.observe("b1", REWARDS, GROUPS, 1.0)
    before = client.everything()
    answer = client.observe("e1", [0.0, 1.0], [0, 0], 0.1, split=observation_pb2.SPLIT_EVAL, return_advantages=True)
    assert client.everything() == before
    (item,) = answer.schedules
    assert answer.revision == 1 and item.outcome == observation_pb2.OUTCOME_FROZEN
    assert list(item.hold_reasons) == [observation_pb2.HOLD_REASON_EVAL]
    assert item.state == client.schedule().schedules[0].state
    assert len(answer.advantages) == 2 and item.diagnostics.solve_rate == 0.5


def test_a_late_report_is_applied_under_the_configuration_it_was_trained_under(client: Any, refused: Any) -> None:
    client.observe("b1", REWARDS, GROUPS, 1.0)
    update = UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(ema_weight=1.0)))
    update.update_mask.paths.append("config.ema_weight")
    client.stub.UpdateRun(update, timeout=10)
    request = client.report("b2", REWARDS, GROUPS, lost_reports=2)
    request.late.config_revision, request.late.source = 1, "LOCAL"
    answer, _ = client.send(request)
    assert answer.config_revision == 1
    after_one = 0.98 * 0.5 + 0.02 * SOLVE_RATE
    assert answer.schedules[0].state.solve_rate == pytest.approx(0.98 * after_one + 0.02 * SOLVE_RATE, rel=1e-15)
    entry = client.history()[-1]
    assert (entry.late.source, entry.lost_reports, entry.config_revision) == ("LOCAL", 2, 1)
    assert client.observe("b3", REWARDS, GROUPS).schedules[0].state.solve_rate == SOLVE_RATE
    request = client.report("b4", REWARDS, GROUPS)
    request.late.config_revision = 9
    refusal = refused(lambda: client.send(request))
    assert refusal.field == "late.config_revision"


def test_environments_have_averages_and_schedules_of_their_own(connect: Any) -> None:
    client = connect()
    client.create(ema_weight=1.0)
    request = client.report("b1", [1, 1, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1])
    request.groups.environments.extend(["math", "code"])
    request.environments.add(environment="math").entropy.CopyFrom(observation_pb2.Entropy(sum_nats=4.0, token_count=2))
    request.environments.add(environment="chat", filtered_all_solved=3, filtered_all_failed=1)
    request.entropy.CopyFrom(observation_pb2.Entropy(sum_nats=3.0, token_count=3))
    answer, _ = client.send(request)
    rates = {item.environment: item.state.solve_rate for item in answer.schedules}
    assert list(rates) == ["chat", "code", "math"]
    assert rates == {"chat": 0.75, "code": pytest.approx(1 / 3), "math": pytest.approx(2 / 3)}
    assert {item.environment: item.state.entropy_nats for item in answer.schedules} == {"chat": 1.0, "code": 1.0, "math": 2.0}
    client.observe("b2", [0, 0], [0, 0])
    assert [item.environment for item in client.schedule().schedules] == ["chat", "code", "default", "math"]


def test_a_batch_of_counts_alone_moves_the_solve_rate(connect: Any) -> None:
    client = connect()
    client.create(ema_weight=1.0)
    request = client.report("b1", [], [])
    request.environments.add(filtered_all_solved=1, filtered_all_failed=3)
    answer, _ = client.send(request)
    assert (answer.revision, answer.schedules[0].state.solve_rate, answer.schedules[0].schedule.alpha) == (1, 0.25, 3.0)


def test_coverage_under_the_quorum_holds_the_averages_and_still_weighs(client: Any) -> None:
    rewards = [1.0, 0.0] * 12 + [math.nan] * 40
    answer = client.observe("b1", rewards, [row // 8 for row in range(64)], 1.0, return_advantages=True)
    (item,) = answer.schedules
    assert answer.degraded and answer.outcome == observation_pb2.OUTCOME_FROZEN
    assert item.diagnostics.coverage == 0.375 and item.state.solve_rate == 0.5
    assert all(answer.advantages[:24]) and not any(answer.advantages[24:])
    assert [warning.reason for warning in answer.warnings if warning.reason == "LOW_COVERAGE"]


def test_shadow_mode_computes_the_schedule_and_returns_neutral_advantages(connect: Any) -> None:
    client = connect()
    client.create(mode=observation_pb2.MODE_SHADOW)
    answer = client.observe("b1", [1.0, 0.0, 0.0, 0.0], [0] * 4, return_advantages=True)
    assert answer.schedules[0].schedule.mode == observation_pb2.MODE_SHADOW and answer.schedules[0].schedule.alpha > 1
    assert list(answer.advantages) == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_state_is_equal_on_every_store(store: str, tmp_path: Path, connect: Callable[..., Any]) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/fade.db"
    with FadeServer(url, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        for number in range(5):
            client.observe(f"b{number}", REWARDS, GROUPS, 1 / (number + 1))
        state = client.schedule().schedules[0].state
    p_hat, h_hat = 0.5, 1.0
    for number in range(5):
        p_hat = 0.98 * p_hat + 0.02 * SOLVE_RATE
        h_hat = 1.0 if number == 0 else 0.98 * h_hat + 0.02 * (10 * (1 / (number + 1)) / 10)
    assert state.solve_rate == pytest.approx(p_hat, rel=1e-14) and state.entropy_nats == pytest.approx(h_hat, rel=1e-14)
