"""Bad input: refused with the reason, the field and the row, and with nothing changed."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import grpc
import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import CreateRunRequest, ObserveRequest
from fade_service import FadeServer
from fade_service.rpc.server import WORKERS

Break = Callable[[ObserveRequest], object]


def _rows(column: str, values: list[Any]) -> Break:
    return lambda request: getattr(request.rows, column).extend(values)


def _reward(row: int, value: float) -> Break:
    return lambda request: request.rows.rewards.__setitem__(row, value)


def _entropy(**fields: Any) -> Break:
    return lambda request: request.entropy.MergeFrom(observation_pb2.Entropy(**fields))


def _environment(**fields: Any) -> Break:
    return lambda request: request.environments.add(**fields)


def _twice(request: ObserveRequest) -> None:
    request.environments.add(environment="default")
    request.environments.add()


def _empty(request: ObserveRequest) -> None:
    request.ClearField("rows")
    request.ClearField("groups")


def _fan_out(request: ObserveRequest) -> None:
    request.rows.rollout_index.extend([0, 0, 1, 2])
    request.rows.rewards[1] = 1.0 - request.rows.rewards[0]


def _set(**fields: Any) -> Break:
    return lambda request: [setattr(request, name, value) for name, value in fields.items()]


BAD: dict[str, tuple[Break, str]] = {
    **{
        f"{ascii(text)} in the writer": (_set(writer=f"a{text}b"), "writer")
        for text in ("\x1b[31m", "\n", "\x00", "\x85", "\u202e")
    },
    "an escape in the id": (_set(observation_id="a\x1b"), "observation_id"),
    "an escape in an environment": (_environment(environment="a\x1b"), "environments"),
    "a long environment": (_environment(environment="a" * 129), "environments"),
    "a bell in a group's environment": (lambda request: request.groups.environments.extend(["\x07"] * 2), "environments"),
    "infinite reward": (_reward(2, math.inf), "rows.rewards[2]"),
    "reward of minus infinity": (_reward(0, -math.inf), "rows.rewards[0]"),
    "reward above the range": (_reward(3, 1.01), "rows.rewards[3]"),
    "reward below the range": (_reward(1, -0.5), "rows.rewards[1]"),
    "NaN under strict": (_reward(1, math.nan), "rows.rewards[1]"),
    "one reward more": (_rows("rewards", [1.0]), "rows.group_index"),
    "one group index more": (_rows("group_index", [0]), "rows.group_index"),
    "short statuses": (_rows("statuses", [1]), "rows.statuses"),
    "short solved": (_rows("solved", [True]), "rows.solved"),
    "short rollouts": (_rows("rollout_index", [1, 2]), "rows.rollout_index"),
    "short policy versions": (_rows("policy_versions", [1]), "rows.policy_versions"),
    "policy versions without the current one": (_rows("policy_versions", [1, 1, 1, 1]), "rows.current_policy_version"),
    "unknown status": (_rows("statuses", [1, 1, 99, 1]), "rows.statuses[2]"),
    "group outside the table": (lambda request: request.rows.group_index.__setitem__(3, 2), "rows.group_index[3]"),
    "negative group": (lambda request: request.rows.group_index.__setitem__(0, -1), "rows.group_index[0]"),
    "rows of one rollout that disagree": (_fan_out, "rows.rewards[1]"),
    "nothing that counts": (_empty, "rows.rewards"),
    "padding alone": (_rows("statuses", [5] * 4), "rows.rewards"),
    "negative count of solved groups": (_environment(filtered_all_solved=-1), "environments[default].filtered_all_solved"),
    "negative count of failed groups": (_environment(filtered_all_failed=-2), "environments[default].filtered_all_failed"),
    "environment twice": (_twice, "environments"),
    "short labels": (lambda request: request.groups.labels.append("one"), "groups.labels"),
    "long environments": (lambda request: request.groups.environments.extend("abc"), "groups.environments"),
    "negative number of groups": (lambda request: setattr(request.groups, "count", -1), "groups.count"),
    "more groups than there can be": (lambda request: setattr(request.groups, "count", 2**31 - 1), "groups.count"),
    "entropy above ln(vocabulary)": (_entropy(sum_nats=70.0, token_count=10), "entropy.sum_nats"),
    "negative entropy": (_entropy(sum_nats=-1.0, token_count=10), "entropy.sum_nats"),
    "entropy that is NaN": (_entropy(sum_nats=math.nan, token_count=10), "entropy.sum_nats"),
    "negative token count": (_entropy(sum_nats=1.0, token_count=-10), "entropy.token_count"),
    "no id": (_set(observation_id=""), "observation_id"),
    "long id": (_set(observation_id="x" * 129), "observation_id"),
    "no writer": (_set(writer=""), "writer"),
    "long writer": (_set(writer="x" * 129), "writer"),
    "unknown split": (_set(split=7), "split"),
    "negative lost reports": (_set(lost_reports=-1), "lost_reports"),
    "no name": (_set(name=""), "name"),
    "name of another shape": (_set(name="runs/x"), "name"),
    "name with capitals": (_set(name="projects/test/runs/Upper"), "name"),
}


@pytest.fixture
def strict(connect: Any) -> Any:
    """A run that knows its vocabulary and takes no NaN, with one observation."""
    client = connect()
    client.create(strict_rewards=True, vocabulary_size=1000)
    client.observe("first", [1.0, 0.0], [0, 0], 1.0)
    return client


@pytest.mark.parametrize(("spoil", "field"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_by_field_and_row_and_changes_nothing(strict: Any, refused: Any, spoil: Break, field: str) -> None:
    request = strict.report("second", [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1])
    spoil(request)
    before = strict.everything()
    refusal = refused(lambda: strict.send(request))
    assert (refusal.code, refusal.reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert refusal.field == field == refusal.metadata["field"]
    assert refusal.bad_request.field_violations[0].description == refusal.message
    assert not refusal.has_retry
    assert strict.everything() == before
    assert strict.observe("second", [1.0, 0.0], [0, 0]).revision == 2, "the id was not used up"


def test_an_unknown_run_and_an_unknown_branch_are_not_found(client: Any, connect: Any, refused: Any) -> None:
    refusal = refused(lambda: connect("nowhere").observe("b", [1.0, 0.0], [0, 0]))
    assert (refusal.code, refusal.reason) == ("NOT_FOUND", "RUN_NOT_FOUND")
    assert refusal.metadata["name"] == "projects/test/runs/nowhere" and "CreateRun" in refusal.message
    refusal = refused(lambda: client.observe("b", [1.0, 0.0], [0, 0], branch="other"))
    assert (refusal.code, refusal.reason, refusal.metadata["branch"]) == ("NOT_FOUND", "BRANCH_NOT_FOUND", "other")


def test_another_kind_of_entropy_is_refused(client: Any, refused: Any) -> None:
    request = client.report("b1", [1.0, 0.0], [0, 0], 1.0)
    request.entropy.kind = "full_vocabulary"
    client.send(request)
    before = client.everything()
    request = client.report("b2", [1.0, 0.0], [0, 0], 2.0)
    request.entropy.kind = "sampled_nll"
    refusal = refused(lambda: client.send(request))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "ENTROPY_KIND_CHANGED")
    assert (refusal.metadata["known"], refusal.metadata["reported"]) == ("full_vocabulary", "sampled_nll")
    assert "rebaseline_entropy" in refusal.message and client.everything() == before


LONG = "€" * 20_000


def _long_kinds(client: Any) -> None:
    for number in range(2):
        request = client.report(f"b{number}", [1.0, 0.0], [0, 0])
        request.entropy.MergeFrom(observation_pb2.Entropy(sum_nats=1.0, token_count=1, kind=f"{LONG}{number}"))
        client.send(request)


def _long_environments(client: Any) -> None:
    request = client.report("b1", [1.0, 0.0], [0, 0])
    for _ in range(2):
        request.environments.add(environment=LONG)
    client.send(request)


@pytest.mark.parametrize(
    ("call", "reason", "advice"),
    [
        (lambda client: client.schedule(branch=LONG), "BRANCH_NOT_FOUND", "has no branch"),
        (lambda client: client.observe("b1", [1.0, 0.0], [0, 0], branch=LONG), "BRANCH_NOT_FOUND", "has no branch"),
        (lambda client: client.observe("b1", [1.0, 0.0], [0, 0], name=LONG), "INVALID_FIELD", "projects/{project}/runs/{run}"),
        (_long_environments, "INVALID_FIELD", "report each environment once"),
        (_long_kinds, "ENTROPY_KIND_CHANGED", "to start the average anew"),
    ],
)
def test_a_refusal_of_long_words_still_reaches_the_caller_with_its_advice(
    client: Any, refused: Any, call: Any, reason: str, advice: str
) -> None:
    """gRPC may drop a status of more than 8 KB, and drops one of more than 16 KB, details and all."""
    refusal = refused(lambda: call(client))
    assert refusal.reason == reason and advice in refusal.message
    assert "€...€" in refusal.message and len(refusal.message.encode()) < 2000


def test_a_message_over_the_limit_is_refused_by_an_error_that_names_it(client: Any, refused: Any) -> None:
    before = client.everything()
    rows = 2_200_000  # of 8 bytes
    refusal = refused(lambda: client.observe("b1", [1.0] * rows, [0] * rows))
    assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE")
    assert refusal.metadata["limit"] == str(16 * 2**20) and "fewer rows" in refusal.message
    assert client.everything() == before


def test_bytes_that_are_no_request_are_refused(client: Any, refused: Any) -> None:
    call = client.channel.unary_unary("/fade.v1.SchedulerService/Observe", bytes, bytes)
    refusal = refused(lambda: call(b"\xff\xff\xff", timeout=10))
    assert (refusal.code, refusal.reason, refusal.metadata["type"]) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        "fade.v1.ObserveRequest",
    )


def test_a_call_whose_deadline_passed_while_it_waited_for_its_turn_is_not_begun(tmp_path: Path, connect: Any) -> None:
    path = tmp_path / "fade.db"
    with FadeServer(f"sqlite:///{path}", grpc_port=0, http_port=0) as server, ThreadPoolExecutor(WORKERS) as pool:
        clients = [connect(f"r-{number}", at=f"127.0.0.1:{server.grpc_port}") for number in range(WORKERS + 1)]
        for client in clients:
            client.create()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = [pool.submit(client.observe, "b1", [1.0, 0.0], [0, 0]) for client in clients[:-1]]
        time.sleep(0.3)  # every worker has a call now, and waits for the store
        with pytest.raises(grpc.RpcError) as caught:
            clients[-1].stub.Observe(clients[-1].report("b1", [1.0, 0.0], [0, 0]), timeout=0.2)
        other.execute("ROLLBACK")
        other.close()
        wait(waiting)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert clients[-1].observe("b2", [1.0, 0.0], [0, 0]).revision == 1, "the call before was not applied"


CONFIG = {
    "alpha_max under alpha_min": ({"alpha_min": 2.0, "alpha_max": 1.5}, "alpha_max"),
    "empty range": ({"reward_min": 1.0, "reward_max": 1.0}, "reward_max"),
    "NaN": ({"ema_weight": math.nan}, "ema_weight"),
    "weight of zero": ({"ema_weight": 0.0}, "ema_weight"),
    "threshold outside the range": ({"solve_threshold": 2.0}, "solve_threshold"),
    "unknown alpha rule": ({"alpha_rule": 77}, "alpha_rule"),
    "unknown delta rule": ({"delta_rule": 5}, "delta_rule"),
    "unknown scale": ({"scale": 3}, "scale"),
    "unknown estimator": ({"estimator": -1}, "estimator"),
    "unknown mode": ({"mode": 4}, "mode"),
    "no warm-up": ({"entropy_warmup": 0}, "entropy_warmup"),
    "quorum above one": ({"quorum": 1.5}, "quorum"),
    "alpha under one half": ({"alpha": 0.4}, "alpha"),
}


@pytest.mark.parametrize(("config", "field"), CONFIG.values(), ids=CONFIG.keys())
def test_a_bad_configuration_creates_nothing(connect: Any, refused: Any, config: dict[str, Any], field: str) -> None:
    client = connect()
    run = run_pb2.Run(config=run_pb2.RunConfig(**config))
    request = CreateRunRequest(parent="projects/test", run_id=client.run, run=run)
    refusal = refused(lambda: client.stub.CreateRun(request, timeout=10))
    assert (refusal.code, refusal.reason, refusal.field) == ("INVALID_ARGUMENT", "INVALID_CONFIG", f"run.config.{field}")
    assert refused(client.get).reason == "RUN_NOT_FOUND"


def test_a_locked_store_is_unavailable_with_a_time_to_try_again_and_loses_nothing(
    tmp_path: Path, connect: Any, refused: Any
) -> None:
    path = tmp_path / "fade.db"
    with FadeServer(f"sqlite:///{path}", grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        client.observe("b1", [1.0, 0.0], [0, 0])
        before = client.everything()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        refusal = refused(lambda: client.observe("b2", [1.0, 0.0], [0, 0]))
        assert (refusal.code, refusal.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE")
        assert refusal.has_retry and refusal.retry.retry_delay.ToMilliseconds() > 0
        assert client.everything() == before
        other.execute("ROLLBACK")
        other.close()
        assert client.observe("b2", [1.0, 0.0], [0, 0]).revision == 2
