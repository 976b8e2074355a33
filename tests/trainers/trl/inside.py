"""The shim in real TRL on a CPU, against a real server. Run in an environment with TRL: see test_trl.py."""

from __future__ import annotations

import json
import logging
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tiny
import torch
from tiny import trainer
from transformers import TrainerCallback
from trl import GRPOTrainer, RLOOTrainer

from fade_client import CheckpointError, FadeClient, RowStatus, RunConfig, TrainerError
from fade_client.shim import say_undivided
from fade_client.trl import FadeGRPOMixin, FadeGRPOTrainer
from fade_proto.v1.scheduler_pb2 import GetRunRequest, ListObservationsRequest
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

GUIDE = Path(__file__).parents[3] / "docs/trainers/trl.md"
FIXED = RunConfig(alpha_rule="fixed", delta_rule="fixed", alpha=1, delta=1)
MOVING = RunConfig(ema_weight=0.5, target_entropy_nats=3.4)


class Recording(FadeGRPOTrainer):
    """Keeps what it trains on."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.batches: list[dict[str, Any]] = []
        super().__init__(*arguments, **options)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        if self.model.training:
            logged = list(self._logs["advantages"])[-len(inputs) :]
            self.batches.append({"advantages": output["advantages"].clone(), "logged": logged, "step": self.state.global_step})
        return output


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FadeServer]:
    with FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as running:
        yield running


@pytest.fixture
def client(server: FadeServer) -> Iterator[Callable[..., FadeClient]]:
    made: list[FadeClient] = []

    def make(run: str = "r", **more: Any) -> FadeClient:
        values = {"config": MOVING, "timeout_seconds": 20.0, "advantage_units": "declared", **more}
        made.append(FadeClient(f"127.0.0.1:{server.grpc_port}", run=run, **values))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.fixture
def told(server: FadeServer) -> Iterator[Any]:
    """What the server knows of a run: its observations, and its branches."""
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = SchedulerServiceStub(channel)

        def read(run: str = "r", branch: str = "") -> tuple[list[Any], list[Any]]:
            name = f"projects/default/runs/{run}"
            page = stub.ListObservations(ListObservationsRequest(parent=name, branch=branch, page_size=1000), timeout=10)
            return list(page.observations), list(stub.GetRun(GetRunRequest(name=name), timeout=10).branches)

        yield read


def weigh(rewards: list[float], size: int, alpha: float, delta: float) -> list[float]:
    """FADE.md, section 2, over groups of that size; NaN is missing."""
    result = []
    for start in range(0, len(rewards), size):
        group = np.array(rewards[start : start + size])
        scored = group[~np.isnan(group)]
        mean = scored.mean() if len(scored) else 0.0
        for value in group:
            if np.isnan(value) or len(scored) < 2 or scored.min() == scored.max():
                result.append(0.0)
            else:
                result.append((1 - mean) ** (alpha - 1) * (value - mean) / (delta if value < mean else 1))
    return result


def keep(rewards: Callable[..., Any], given: list[list[Any]]) -> Callable[..., Any]:
    """The reward function, with what it gave kept."""

    def reward(completions: list[str], **more: Any) -> Any:
        given.append(rewards(completions, **more))
        return given[-1]

    return reward


def test_with_alpha_and_delta_1_it_trains_bit_equal_to_trl_without(tmp_path: Path, client: Any) -> None:
    plain = trainer(GRPOTrainer, tmp_path / "plain", max_steps=6)
    plain.train()
    ours = trainer(FadeGRPOTrainer, tmp_path / "ours", max_steps=6, fade=client(config=FIXED))
    ours.train()
    start = tiny.model()
    assert any(not torch.equal(a, b) for a, b in zip(start.parameters(), plain.model.parameters(), strict=True)), "it trained"
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), ours.model.parameters(), strict=True))


def test_the_learning_rate_is_scaled_where_that_is_asked_for_and_trls_own_schedule_goes_on(tmp_path: Path, client: Any) -> None:
    half = trainer(GRPOTrainer, tmp_path / "half", max_steps=6, learning_rate=0.5e-3)
    half.train()
    config = RunConfig(alpha_rule="fixed", delta_rule="fixed", lr_rule="linear", lr_observations=1, lr_min=0.5)
    for kind in (partial(FadeGRPOTrainer, apply_lr_scale=True), FadeGRPOTrainer):
        asked = kind is not FadeGRPOTrainer
        fade = client("scaled" if asked else "plain", config=config)
        ours = trainer(kind, tmp_path / f"ours-{asked}", max_steps=6, learning_rate=1e-3, fade=fade)
        ours.train()
        equal = all(torch.equal(a, b) for a, b in zip(half.model.parameters(), ours.model.parameters(), strict=True))
        assert equal == asked
        told = [line["learning_rate"] for line in ours.state.log_history if "learning_rate" in line]
        assert told == [2 * line["learning_rate"] for line in half.state.log_history if "learning_rate" in line]
        assert {line["fade/lr_scale"] for line in ours.state.log_history if "fade/lr_scale" in line} == {0.5}


def test_case_36_what_is_logged_is_what_is_trained_on_and_both_are_the_schedules(tmp_path: Path, client: Any, told: Any) -> None:
    given: list[list[float]] = []
    ours = trainer(Recording, tmp_path / "out", rewards=keep(tiny.reward, given), fade=client())
    ours.train()
    observations, _ = told()
    assert len(observations) == len(ours.batches) == len(given) == 4
    assert len({item.schedules[0].schedule.alpha for item in observations}) > 2, "alpha moved"
    assert observations[-1].schedules[0].schedule.delta < 1, "so did delta"
    for batch, rewards, observation in zip(ours.batches, given, observations, strict=True):
        schedule = observation.schedules[0].schedule
        expected = weigh(rewards, 8, schedule.alpha, schedule.delta)
        assert batch["advantages"].tolist() == pytest.approx(expected, abs=1e-6)
        assert batch["logged"] == batch["advantages"].tolist()


def test_the_reported_entropy_is_that_of_the_tokens_of_the_batch_before(tmp_path: Path, client: Any, told: Any) -> None:
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client())
    ours.train()
    observations, _ = told()
    steps = [row["entropy"] for row in ours.state.log_history if "entropy" in row]
    seen = [item.schedules[0].diagnostics for item in observations]
    assert not seen[0].HasField("entropy_nats"), "nothing was trained on before"
    assert [item.entropy_nats for item in seen[1:]] == pytest.approx(steps[:-1], rel=1e-5)


def test_case_24_a_fully_masked_batch_is_no_entropy_of_0(tmp_path: Path, client: Any, told: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tiny.LETTERS", [letter for letter in tiny.LETTERS if letter != "<eos>"] + ["<eos>"])
    ours = trainer(
        FadeGRPOTrainer,
        tmp_path / "out",
        fade=client(),
        mask_truncated_completions=True,
        max_completion_length=1,
        temperature=1e-4,  # one and the same first letter, which does not end the completion
        max_steps=3,
    )
    ours.train()
    assert any(row.get("entropy") == 0.0 for row in ours.state.log_history), "TRL itself logs 0"
    observations, _ = told()
    assert len(observations) == 3
    assert not any(item.schedules[0].diagnostics.HasField("entropy_nats") for item in observations)


def test_case_1_rows_without_a_reward_are_missing_and_truncated_ones_stay_in_the_baseline(
    tmp_path: Path, client: Any, told: Any
) -> None:
    given: list[list[float | None]] = []

    def some(completions: list[str], **_: Any) -> list[float | None]:
        return [None if place % 5 == 0 else value for place, value in enumerate(tiny.reward(completions))]

    ours = trainer(
        Recording, tmp_path / "out", rewards=keep(some, given), fade=client(), mask_truncated_completions=True, max_steps=2
    )
    ours.train()
    observations, _ = told()
    for batch, rewards, observation in zip(ours.batches, given, observations, strict=True):
        schedule = observation.schedules[0].schedule
        rows = [math.nan if value is None else value for value in rewards]
        assert batch["advantages"].tolist() == pytest.approx(weigh(rows, 8, schedule.alpha, schedule.delta), abs=1e-6)
        assert observation.schedules[0].diagnostics.missing_count == sum(value is None for value in rewards)


@pytest.mark.parametrize("masked", [True, False])
def test_rows_that_are_truncated_and_masked_for_it_are_reported_as_truncated(tmp_path: Path, server: Any, masked: bool) -> None:
    reported: list[list[int]] = []
    ended: list[bool] = []

    class Listening(FadeClient):
        def observe(self, *arguments: Any, **options: Any) -> Any:
            reported.append([int(status) for status in options["statuses"]])
            return super().observe(*arguments, **options)

    def watch(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        ended.extend(ids[-1] in (0, 1) for ids in completion_ids)  # <pad>, <eos>
        return tiny.reward(completions)

    with Listening(f"127.0.0.1:{server.grpc_port}", run="r", timeout_seconds=20) as fade:
        options = {"mask_truncated_completions": masked, "max_steps": 1, "max_completion_length": 16}
        trainer(FadeGRPOTrainer, tmp_path / "out", rewards=watch, fade=fade, **options).train()
    assert 0 < sum(ended) < 16
    assert reported == [[int(RowStatus.TRUNCATED if masked and not done else RowStatus.SCORED) for done in ended]]


def test_case_9_only_the_sum_of_the_reward_functions_counts(tmp_path: Path, client: Any) -> None:
    def first(completions: list[str], **_: Any) -> list[float]:
        return [-8.0 if place % 2 else 2.0 for place, _ in enumerate(completions)]

    def second(completions: list[str], **_: Any) -> list[float]:
        return [5.0 if place % 2 else -5.0 for place, _ in enumerate(completions)]

    ours = trainer(
        Recording,
        tmp_path / "out",
        rewards=[first, second],
        fade=client(config=RunConfig(reward_min=-10, reward_max=10)),
        max_steps=1,
    )
    ours.train()
    assert ours.batches[0]["advantages"].abs().max() == 0


def test_case_31_one_observation_per_generation_whatever_the_optimiser_steps(tmp_path: Path, client: Any, told: Any) -> None:
    options = {"num_iterations": 2, "steps_per_generation": 2, "per_device_train_batch_size": 8, "max_steps": 8}
    ours = trainer(Recording, tmp_path / "out", fade=client(), **options)
    ours.train()
    observations, _ = told()
    assert [batch["step"] for batch in ours.batches] == [item.trainer_step for item in observations] == [0, 4]
    ours = trainer(
        Recording,
        tmp_path / "more",
        fade=client("accumulated"),
        steps_per_generation=1,
        gradient_accumulation_steps=2,
        max_steps=3,
    )
    ours.train()
    assert [item.trainer_step for item in told("accumulated")[0]] == [0, 0, 1, 1, 2, 2]


def test_case_31_and_32_a_resumed_run_goes_on_from_the_checkpoints_state_on_a_new_branch(
    tmp_path: Path, client: Any, told: Any
) -> None:
    options = {"num_iterations": 3, "save_strategy": "steps", "save_steps": 2, "max_steps": 6}
    first = trainer(Recording, tmp_path / "out", fade=client(), **options)
    first.train()
    assert [batch["step"] for batch in first.batches] == [0, 3]
    checkpoint = tmp_path / "out/checkpoint-2"
    kept = json.loads((checkpoint / "fade.json").read_text())
    assert kept["state"]["revision"] == 1 and kept["entropy"][1] > 0
    second = trainer(Recording, tmp_path / "out", fade=client(), **options)
    second.train(resume_from_checkpoint=str(checkpoint))
    assert [batch["step"] for batch in second.batches] == [2, 5], "TRL does not save its buffer"
    observations, branches = told()
    assert [(item.trainer_step, item.revision) for item in observations] == [(0, 1), (2, 2), (5, 3)]
    assert (branches[1].parent, branches[1].parent_revision) == ("main", 1)
    entropy = observations[1].schedules[0].diagnostics.entropy_nats
    assert entropy == pytest.approx(kept["entropy"][0] / kept["entropy"][1], rel=1e-12), "of the steps before the checkpoint"


def test_the_first_report_after_a_resume_moves_the_averages_as_if_nothing_had_happened(
    tmp_path: Path, client: Any, told: Any
) -> None:
    options = {"save_strategy": "steps", "save_steps": 2, "max_steps": 3, "lr_scheduler_type": "constant"}
    trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options).train()
    resumed = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-2"))
    before, after = (told("r", branch)[0][-1].schedules[0] for branch in ("main", ""))
    assert after.schedule.delta == before.schedule.delta < 1
    assert after.state.entropy_nats == before.state.entropy_nats
    earlier = told()[0][1].schedules[0].state.solve_rate
    assert after.state.solve_rate == pytest.approx((earlier + after.diagnostics.solve_rate) / 2, rel=1e-12)


def test_a_second_training_with_one_trainer_goes_on_with_the_schedule(tmp_path: Path, client: Any, told: Any) -> None:
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), max_steps=2)
    ours.train()
    ours.train()
    assert [row["fade/source/server"] for row in ours.state.log_history if "fade/alpha" in row] == [1, 1]
    assert len(told()[0]) == 4


def test_another_trainer_with_the_same_client_goes_on_with_the_schedule(tmp_path: Path, client: Any, told: Any) -> None:
    def other(completions: list[str], **_: Any) -> list[float]:
        return [1 - value for value in tiny.reward(completions)]

    fade = client()
    for rewards in (tiny.reward, tiny.reward, other):
        ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=rewards, fade=fade, max_steps=2)
        ours.train()
        rows = [row for row in ours.state.log_history if "fade/alpha" in row]
        assert [(row["fade/source/server"], row["fade/rejected"]) for row in rows] == [(1, 0)] * 2
    observations, _ = told()
    assert [item.revision for item in observations] == [1, 2, 3, 4, 5, 6], "none is a repetition"
    assert len({item.observation_id for item in observations}) == 6


def test_a_trainer_that_is_resumed_names_its_reports_as_before(tmp_path: Path, client: Any, told: Any) -> None:
    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options).train()
    resumed = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-1"))
    before, after = ([item.observation_id for item in told("r", branch)[0]] for branch in ("main", ""))
    assert before == after and len(before) == 2


def test_a_state_that_cannot_be_written_is_said_and_stops_no_training(tmp_path: Path, client: Any, caplog: Any) -> None:
    def block(completions: list[str], **_: Any) -> list[float]:
        (tmp_path / "out/checkpoint-1/fade.json.part").mkdir(parents=True, exist_ok=True)
        return tiny.reward(completions)

    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=block, fade=client(), **options)
    ours.train()
    assert ours.state.global_step == 2
    assert "checkpoint-1/fade.json was not written" in caplog.text
    assert (tmp_path / "out/checkpoint-2/fade.json").exists()


@pytest.mark.parametrize("entry", ["state", "entropy", "name", "reports"])
def test_a_state_with_a_wrong_entry_is_said_with_its_path(tmp_path: Path, client: Any, entry: str) -> None:
    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options).train()
    path = tmp_path / "out/checkpoint-1/fade.json"
    kept = json.loads(path.read_text())
    del kept[entry]
    path.write_text(json.dumps(kept))
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options)
    with pytest.raises(CheckpointError, match="checkpoint-1/fade.json"):
        ours.train(resume_from_checkpoint=str(path.parent))


def test_a_damaged_state_in_a_checkpoint_is_said_with_its_path(tmp_path: Path, client: Any) -> None:
    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options).train()
    path = tmp_path / "out/checkpoint-1/fade.json"
    path.write_text(path.read_text()[:-20])
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options)
    with pytest.raises(CheckpointError, match="checkpoint-1/fade.json"):
        ours.train(resume_from_checkpoint=str(path.parent))


def test_a_checkpoint_from_before_the_shim_starts_the_run(tmp_path: Path, client: Any, told: Any, caplog: Any) -> None:
    options = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
    trainer(GRPOTrainer, tmp_path / "out", **options).train()
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), **options)
    ours.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-1"))
    assert [item.trainer_step for item in told()[0]] == [1]
    assert "from before FADE" in caplog.text


@pytest.mark.timeout(300)
def test_case_23_and_34_two_processes_make_one_observation_and_train_on_one_schedule(
    tmp_path: Path, server: FadeServer, told: Any
) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    script = Path(__file__).with_name("two_ranks.py")
    subprocess.run([*command, script, f"127.0.0.1:{server.grpc_port}", str(tmp_path)], check=True, timeout=280)
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    first, resumed = ([rank[part] for rank in ranks] for part in ("first", "resumed"))
    main, (observations, branches) = told("two-ranks", "main")[0], told("two-ranks")
    assert (len(main), len(observations)) == (3, 3)
    assert [(item.parent, item.parent_revision) for item in branches] == [("", 0), ("main", 2)]
    for halves, part in ((first, main), (resumed, observations[2:])):
        assert halves[0]["weights"] == halves[1]["weights"]
        for left, right, observation in zip(halves[0]["batches"], halves[1]["batches"], part, strict=True):
            assert left["rewards"] == right["rewards"] and len(left["rewards"]) == 16
            schedule = observation.schedules[0].schedule
            expected = weigh(left["rewards"], 8, schedule.alpha, schedule.delta)
            assert left["advantages"] + right["advantages"] == pytest.approx(expected, abs=1e-6)
    steps = [row["entropy"] for row in first[0]["history"] if "entropy" in row]
    seen = [item.schedules[0].diagnostics.entropy_nats for item in [*main[1:], observations[2]]]
    assert seen == pytest.approx([*steps[:-1], steps[1]], rel=1e-5), "over the tokens of both, also after a checkpoint"
    assert all("reward_max" in rank["refusal"] for rank in ranks), "the first rank's error ends both"


def test_a_server_that_goes_away_in_mid_run_stops_no_training(tmp_path: Path, server: FadeServer, client: Any) -> None:
    def until(completions: list[str], trainer_state: Any, **_: Any) -> list[float | None]:
        if trainer_state.global_step == 2:
            server.stop()
        return tiny.reward(completions)

    ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=until, fade=client(timeout_seconds=1.0), max_steps=5)
    ours.train()
    rows = [row for row in ours.state.log_history if "fade/source/server" in row]
    assert [row["fade/source/server"] for row in rows] == [1, 1, 0, 0, 0]
    assert [row["fade/source/local"] for row in rows] == [0, 0, 1, 1, 1]


def test_reports_that_are_not_sent_when_the_training_ends_are_said(
    tmp_path: Path, server: FadeServer, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def until(completions: list[str], trainer_state: Any, **_: Any) -> list[float | None]:
        if trainer_state.global_step == 1:
            server.stop()
        return tiny.reward(completions)

    trainer(FadeGRPOTrainer, tmp_path / "out", rewards=until, fade=client(timeout_seconds=1.0), max_steps=3).train()
    assert "2 reports are not sent yet" in caplog.text


def test_a_server_that_comes_late_with_another_jobs_run_stops_no_training(
    tmp_path: Path, server: FadeServer, client: Any
) -> None:
    with client("taken") as first:
        first.observe("theirs", rewards=[1.0, 0.0], groups=[0, 0])
    server.stop()
    again = FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=server.grpc_port, http_port=0)

    def late(completions: list[str], trainer_state: Any, **_: Any) -> list[float | None]:
        if trainer_state.global_step == 2:
            again.start()
        return tiny.reward(completions)

    try:
        ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=late, fade=client("taken", timeout_seconds=3.0), max_steps=4)
        ours.train()
    finally:
        again.stop()
    rows = [row for row in ours.state.log_history if "fade/source/neutral" in row]
    assert [row["fade/source/neutral"] for row in rows] == [1, 1, 1, 1]
    assert [row.get("fade/rejection/writer_fenced", 0) for row in rows] == [0, 0, 1, 1]


def test_the_share_of_refused_batches_is_logged_by_reason_and_their_entropy_is_reported_by_the_next(
    tmp_path: Path, client: Any, told: Any
) -> None:
    def off(completions: list[str], trainer_state: Any, **_: Any) -> list[float | None]:
        wrong = 9.0 if trainer_state.global_step in (1, 2) else 0.0
        return [value + wrong for value in tiny.reward(completions)]

    fade = client()
    carried: list[Any] = []
    observe = fade.observe
    fade.observe = lambda *names, **report: (carried.append(report["entropy"]), observe(*names, **report))[1]
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=off, fade=fade, max_steps=6, logging_steps=2)
    ours.train()
    rows = [row for row in ours.state.log_history if "fade/source/neutral" in row]
    assert [row["fade/source/neutral"] for row in rows] == [0.5, 0.5, 0]
    assert [row["fade/rejection/invalid_field"] for row in rows] == [0.5, 0.5, 0]
    seen = {item.trainer_step: item.schedules[0].diagnostics for item in told()[0]}
    assert sorted(seen) == [0, 3, 4, 5] and not seen[0].HasField("entropy_nats")
    first, second, third, fourth = (item.token_count for item in carried[1:5])
    assert first < second < third > fourth, "of one step, of two, of three, of one"
    assert seen[3].entropy_nats == pytest.approx(carried[3].sum_nats / third, rel=1e-12)


def test_reports_that_wait_are_sent_before_the_training_returns(tmp_path: Path, client: Any, server: FadeServer) -> None:
    class Back(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 1:
                server.stop()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            again.start()

    fade = client()
    again = FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=server.grpc_port, http_port=0)
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=fade, max_steps=3)
    ours.add_callback(Back())
    try:
        ours.train()
        assert fade.state_dict()["unsent"] == [] and fade.state_dict()["revision"] == 3
    finally:
        again.stop()


def test_a_service_that_is_never_there_stops_no_training(tmp_path: Path) -> None:
    fade = FadeClient("127.0.0.1:1", run="r", timeout_seconds=0.3)
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=fade)
    ours.train()
    rows = [row for row in ours.state.log_history if "fade/source/server" in row]
    assert [(row["fade/source/neutral"], row["fade/applied_alpha"]) for row in rows] == [(1, 1)] * 4
    fade.close()


def test_evaluation_moves_nothing_and_keeps_trls_advantages(tmp_path: Path, client: Any, told: Any) -> None:
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), max_steps=1)
    ours.train()
    (trained,) = [row["entropy"] for row in ours.state.log_history if "entropy" in row]
    given: list[list[float]] = []
    ours.reward_funcs = [keep(tiny.reward, given)]
    ours.evaluate(ours.train_dataset)
    assert len(told()[0]) == 1
    assert list(ours._logs["advantages"]) == pytest.approx(weigh(sum(given, []), 8, 1, 1)[-16:])
    ours.train()
    second = told()[0][1].schedules[0].diagnostics
    assert second.entropy_nats == pytest.approx(trained, rel=1e-5), "of the tokens trained on, none of the evaluation's"


def test_the_mixin_goes_over_a_trainer_of_ones_own(tmp_path: Path, client: Any, told: Any) -> None:
    class Own(GRPOTrainer):
        calls = 0

        def _calculate_rewards(self, *arguments: Any, **options: Any) -> Any:
            Own.calls += 1
            return super()._calculate_rewards(*arguments, **options)

    class Both(FadeGRPOMixin, Own):
        pass

    trainer(Both, tmp_path / "out", fade=client(), max_steps=2).train()
    assert Own.calls == len(told()[0]) == 2


def test_rewards_off_the_declared_scale_stop_the_first_batch_and_say_why(tmp_path: Path, client: Any) -> None:
    ours = trainer(FadeGRPOTrainer, tmp_path / "out", rewards=lambda completions, **_: [7.0] * len(completions), fade=client())
    with pytest.raises(Exception, match="reward_max"):
        ours.train()


def test_rewards_that_are_normalised_one_by_one_are_refused(tmp_path: Path, client: Any) -> None:
    with pytest.raises(TrainerError, match="multi_objective_aggregation"):
        trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), multi_objective_aggregation="normalize_then_sum")


def test_a_trainer_that_is_no_grpo_trainer_is_refused(tmp_path: Path, client: Any) -> None:
    class Leave(FadeGRPOMixin, RLOOTrainer):  # type: ignore[misc]
        pass

    with pytest.raises(TrainerError, match="build on that one"):
        trainer(Leave, tmp_path / "out", fade=client())


def test_a_mixin_behind_the_trainer_is_refused() -> None:
    with pytest.raises(TrainerError, match="name FadeGRPOMixin before"):
        type("Behind", (GRPOTrainer, FadeGRPOMixin), {})


def test_a_trainer_of_ones_own_in_front_of_the_mixin_is_refused() -> None:
    class Own(GRPOTrainer):  # type: ignore[misc]
        pass

    for behind in (FadeGRPOTrainer, FadeGRPOMixin):
        with pytest.raises(TrainerError, match=r"Own's advantages.*\(FadeGRPOMixin, Own\)"):
            type("Mine", (Own, behind), {})
    between = type("Between", (FadeGRPOMixin, Own), {})
    type("Mine", (between,), {})


def test_a_trainer_with_advantages_for_each_token_is_refused(tmp_path: Path, client: Any) -> None:
    class Tokens(GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            return {**output, "advantages": output["advantages"].unsqueeze(1) * output["completion_mask"]}

    class Both(FadeGRPOMixin, Tokens):
        pass

    with pytest.raises(TrainerError, match="one for each completion"):
        trainer(Both, tmp_path / "out", fade=client()).train()


def test_a_mask_that_drops_failures_only_is_said(tmp_path: Path, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), off_policy_mask_threshold=0.5)
    assert "off_policy_mask_threshold=0.5 drops failures" in caplog.text


@pytest.mark.parametrize("scale", ["group", "batch"])
def test_division_by_a_standard_deviation_is_said_to_have_no_effect(
    tmp_path: Path, client: Any, scale: str, caplog: pytest.LogCaptureFixture
) -> None:
    say_undivided.cache_clear()
    with caplog.at_level(logging.WARNING):
        trainer(FadeGRPOTrainer, tmp_path / "out", fade=client(), scale_rewards=scale)
    assert f"scale_rewards='{scale}' has no effect" in caplog.text


def test_the_guides_lines_run_and_are_three_at_most(tmp_path: Path, server: FadeServer, told: Any) -> None:
    (block,) = re.findall(r"```diff\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = block.splitlines()
    assert len([line for line in lines if line.startswith("+")]) <= 3
    code = "\n".join(line[1:] for line in lines if not line.startswith("-")).replace(
        "localhost:50051", f"127.0.0.1:{server.grpc_port}"
    )
    names = {
        "model": tiny.model(),
        "reward": tiny.reward,
        "args": tiny.arguments(tmp_path / "out"),
        "dataset": tiny.trainer(GRPOTrainer, tmp_path / "plain").train_dataset,
        "tokenizer": tiny.tokenizer(),
    }
    exec(compile(code, str(GUIDE), "exec"), names)
    assert len(told("qwen-math")[0]) == 4
