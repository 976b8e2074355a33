"""The shim inside verl: its configuration, its compute_advantage, and its trainer's loop with the real TransferQueue, on
stand-ins for GPU workers and generation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
import ray

sys.path.insert(0, str(Path(__file__).parent))

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from training import ENTROPIES, WEIGHT, Fade, Training, settings
from verl import DataProto
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1 import PPOTrainerSync, trainer_base

import fade_client.shim
import fade_client.verl
from fade_client import CheckpointError, FadeClient, SettingsError, TrainerError
from fade_proto.v1 import observation_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer


class Service:
    """A server, and what a process that trains starts with."""

    def __init__(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address = address
        self.stub = SchedulerServiceStub(grpc.insecure_channel(address))
        self._patch = monkeypatch
        self.new_process("r")

    def new_process(self, run: str, **config: Any) -> None:
        """The environment variables of a run, and no client yet."""
        self._patch.setenv("FADE_ADDRESS", self.address)
        self._patch.setenv("FADE_RUN", run)
        self._patch.setenv("FADE_CONFIG", json.dumps({"ema_weight": WEIGHT, **config}))
        self._patch.setattr("fade_client.shim._shared", None)
        self._patch.setattr("fade_client.verl._trainer", fade_client.verl._Trainer())

    def observations(self, run: str) -> list[Any]:
        """Along the run's current line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return list(self.stub.ListObservations(request, timeout=10).observations)

    def digest(self, run: str) -> str:
        """Of the run's newest state."""
        request = scheduler_pb2.GetScheduleRequest(name=f"projects/default/runs/{run}")
        return str(self.stub.GetSchedule(request, timeout=10).state_digest)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server on its own file, and this process as that of a run named r."""
    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as server:
        yield Service(f"127.0.0.1:{server.grpc_port}", monkeypatch)


# The estimator in verl's compute_advantage.


def advantages(rewards: list[float], uids: str | list[str], estimator: str = "fade", **more: Any) -> torch.Tensor:
    """(N, 3) of a batch as verl computes them: the reward on the last token; rows have 3, 2, 1, 3, ... tokens; "pad..." none."""
    lengths = torch.tensor([0 if uid.startswith("pad") else 3 - row % 3 for row, uid in enumerate(uids)])
    mask = (torch.arange(3) < lengths.unsqueeze(-1)).long()
    values = torch.zeros(len(rewards), 3)
    values[range(len(rewards)), (lengths - 1).clamp(min=0)] = torch.tensor(rewards)
    data = DataProto.from_dict(
        tensors={"token_level_rewards": values, "response_mask": mask}, non_tensors={"uid": np.array(list(uids), dtype=object)}
    )
    data = compute_advantage(data, adv_estimator=estimator, **more)
    result = data.batch["advantages"]
    assert result.shape == data.batch["returns"].shape == mask.shape and result.dtype == torch.float32
    assert (result[mask == 0] == 0).all()
    assert (result == result[:, :1] * mask).all()  # one value on all tokens of a row
    return result[:, 0]


def by_hand(rewards: list[float], uids: str, fade: Fade) -> np.ndarray:
    """Advantages of FADE.md; a group of one has none."""
    values = fade.observe(np.array(rewards), np.array(list(uids)))
    return np.array([0.0 if uids.count(uid) == 1 else value for uid, value in zip(uids, values, strict=True)])


def test_compute_advantage_gives_the_values_of_fade_for_uneven_groups_in_any_order(service: Service) -> None:
    rewards, uids, fade = [1.0, 0, 0, 1, 1, 0, 0, 0, 0], "aababbbcc", Fade()
    np.testing.assert_allclose(advantages(rewards, uids), by_hand(rewards, uids, fade), atol=1e-6)
    np.testing.assert_allclose(advantages(rewards[::-1], uids[::-1]), by_hand(rewards[::-1], uids[::-1], fade), atol=1e-6)
    assert [item.observation_id for item in service.observations("r")] == ["batch-0", "batch-1"]


def test_equal_batches_of_two_steps_count_twice(service: Service) -> None:
    fade = Fade()
    first, second = [advantages([1.0, 0, 0, 0], "aabb") for _ in range(2)]
    np.testing.assert_allclose(first, by_hand([1.0, 0, 0, 0], "aabb", fade), atol=1e-6)
    np.testing.assert_allclose(second, by_hand([1.0, 0, 0, 0], "aabb", fade), atol=1e-6)
    assert first.tolist() != second.tolist()
    assert len(service.observations("r")) == 2


def test_with_alpha_and_delta_of_one_the_advantages_are_those_of_grpo_without_std(service: Service) -> None:
    service.new_process("static", alpha_min=1.0, alpha_max=1.0, delta_min=1.0, delta_max=1.0)
    rewards, uids = [1.0, 0, 0, 1, 1, 0, 0, 0], "aaabbbbb"
    theirs = advantages(rewards, uids, "grpo", norm_adv_by_std_in_grpo=False)
    np.testing.assert_allclose(advantages(rewards, uids), theirs, atol=1e-6)
    service.new_process("shadow", mode="shadow")
    np.testing.assert_allclose(advantages(rewards, uids), theirs, atol=1e-6)


def test_a_group_of_one_has_no_advantage(service: Service) -> None:
    assert advantages([1.0, 0, 1], "aab")[2] == 0


def test_case_21_padding_rows_move_nothing(service: Service) -> None:
    plain = advantages([1.0, 1, 0, 1, 0, 0], "aaabbb")
    service.new_process("padded")
    padding = ["pad0123456789abcdef0123456789abcdef"] * 2
    padded = advantages([1.0, 1, 0, 1, 0, 0, 0, 0], [*"aaabbb", *padding])
    assert padded.tolist() == [*plain.tolist(), 0, 0]
    assert service.digest("r") == service.digest("padded")
    assert service.observations("padded")[0].schedules[0].diagnostics.rollout_count == 6


def test_a_row_whose_loss_is_masked_stays_in_its_groups_baseline(service: Service) -> None:
    values, mask = torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([[1], [1], [0]])
    result, _ = ADV_ESTIMATOR_REGISTRY["fade"](token_level_rewards=values, response_mask=mask, index=list("aaa"))
    np.testing.assert_allclose(result[:2, 0], Fade().observe(np.array([1.0, 0, 0]), np.array(list("aaa")))[:2], atol=1e-6)
    assert result[2, 0] == 0


def test_groups_that_were_dropped_before_the_estimator_hold_the_solve_rate(service: Service) -> None:
    advantages([0.0, 1, 1, 1], "aaaa", config=settings(service.address, "algorithm.filter_groups.enable=true").algorithm)
    (observation,) = service.observations("qwen-math")
    assert observation.outcome == observation_pb2.OUTCOME_FROZEN
    assert observation.schedules[0].state.solve_rate == 0.5


def test_while_the_server_is_away_the_advantages_are_neutral_and_say_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADE_ADDRESS", "127.0.0.1:1")
    theirs = advantages([1.0, 0, 0, 0], "aabb", "grpo", norm_adv_by_std_in_grpo=False)
    assert advantages([1.0, 0, 0, 0], "aabb").tolist() == theirs.tolist()
    schedule = fade_client.verl._trainer.schedule
    assert schedule is not None and schedule.metrics()["fade/source"] == "NEUTRAL"


def test_rewards_with_a_kl_penalty_are_refused(service: Service) -> None:
    config = settings(service.address, "algorithm.use_kl_in_reward=true")
    with pytest.raises(TrainerError, match="use_kl_in_reward"):
        advantages([1.0, 0], "aa", config=config.algorithm)
    with pytest.raises(TrainerError, match="use_kl_in_reward"):
        PPOTrainerSync(config)


def test_rows_without_a_uid_are_refused() -> None:
    with pytest.raises(TrainerError, match="uid"):
        ADV_ESTIMATOR_REGISTRY["fade"](token_level_rewards=torch.ones(2, 1), response_mask=torch.ones(2, 1))


def test_a_setting_of_algorithm_fade_that_is_none_is_named(service: Service) -> None:
    with pytest.raises(TrainerError, match="algorithm.fade.adress"):
        PPOTrainerSync(settings(service.address, "+algorithm.fade.adress=host:1"))


def test_a_setting_of_algorithm_fade_that_is_null_is_left_to_the_environment(service: Service) -> None:
    config = settings(service.address, "algorithm.fade.address=null", "algorithm.fade.config=null")
    advantages([1.0, 0], "aa", config=config.algorithm)
    assert len(service.observations("qwen-math")) == 1
    assert os.environ["FADE_RUN"] == "r", "the environment is as it was"


def test_a_run_may_be_a_number(service: Service) -> None:
    advantages([1.0, 0], "aa", config=settings(service.address, "algorithm.fade.run=2024").algorithm)
    assert len(service.observations("2024")) == 1


@pytest.mark.parametrize("config", [{"alpha_maximum": 2}, [1], "shadow"], ids=str)
def test_a_configuration_of_algorithm_fade_that_is_none_is_named(service: Service, config: Any) -> None:
    wrong = settings(service.address, "algorithm.fade.config=null")
    OmegaConf.update(wrong, "algorithm.fade.config", config)
    with pytest.raises(SettingsError, match="algorithm.fade.config"):
        advantages([1.0, 0], "aa", config=wrong.algorithm)


def test_division_by_the_standard_deviation_is_said_to_have_no_effect(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    for value, said in (("true", 1), ("false", 0)):
        fade_client.shim.say_undivided.cache_clear()
        caplog.clear()
        config = settings(service.address, f"algorithm.norm_adv_by_std_in_grpo={value}").algorithm
        for _ in range(2):
            advantages([1.0, 0], "aa", config=config)
        assert caplog.text.count("norm_adv_by_std_in_grpo") == said


def test_the_callback_with_another_estimator_is_refused(service: Service) -> None:
    with pytest.raises(TrainerError, match="adv_estimator is grpo"):
        PPOTrainerSync(settings(service.address, "algorithm.adv_estimator=grpo"))


# The trainer's loop.


@pytest.fixture(scope="module")
def queue() -> Iterator[None]:
    """verl's TransferQueue in a Ray of its own."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    yield
    tq.close()
    ray.shutdown()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What verl logs, by step."""
    steps: list[dict[str, Any]] = []
    recorder = SimpleNamespace(log=lambda data, step: steps.append(data))
    monkeypatch.setattr(trainer_base, "Tracking", lambda **_: recorder)
    return steps


@pytest.mark.parametrize(
    ("outputs", "batches"), [(1, 1), (2, 1), (1, 2)], ids=["one output", "several outputs", "two batches per step"]
)
def test_training_takes_the_advantages_of_fade(
    service: Service, queue: None, logged: list[dict[str, Any]], tmp_path: Path, outputs: int, batches: int
) -> None:
    more = f"+trainer.v1.sync.parameter_sync_step={batches}"
    training = Training(service.address, tmp_path / "checkpoints", 4, more, outputs=outputs)
    assert len(training.workers.trained) == 4 * batches
    for trained, expected in zip(training.workers.trained, training.expected(), strict=True):
        assert trained.keys() == expected.keys()
        for key, values in expected.items():
            np.testing.assert_allclose(trained[key], values, atol=1e-6, err_msg=key)
    observations = service.observations("qwen-math")
    assert [item.trainer_step for item in observations] == [step for step in [1, 2, 3, 4] for _ in range(batches)]
    seen = [item.schedules[0].diagnostics for item in observations]
    assert [diagnostics.entropy_nats for diagnostics in seen] == pytest.approx(ENTROPIES[: 4 * batches])
    assert {diagnostics.rollout_count for diagnostics in seen} == {16 // batches}
    padding = [key for batch in training.workers.trained for key in batch if key.startswith("pad")]
    assert bool(padding) == (outputs + batches > 2)
    assert {diagnostics.all_failed_group_count for diagnostics in seen} == {0}
    assert min(values["fade/delta"] for values in logged) < 1


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(service: Service, queue: None, tmp_path: Path) -> None:
    Training(service.address, tmp_path / "whole", 4)
    whole = service.digest("qwen-math")
    service.new_process("cut")
    Training(service.address, tmp_path / "cut", 3, "algorithm.fade.run=cut")  # the third step is lost
    service.new_process("cut")
    Training(
        service.address,
        tmp_path / "cut",
        4,
        "algorithm.fade.run=cut",
        f"trainer.resume_from_path={tmp_path}/cut/global_step_2",
        "trainer.resume_mode=resume_path",
        passes=2,
    )
    assert service.digest("cut") == whole
    assert [item.trainer_step for item in service.observations("cut")] == [1, 2, 3, 4]


def test_in_bypass_mode_no_entropy_is_reported(
    service: Service, queue: None, logged: list[dict[str, Any]], tmp_path: Path
) -> None:
    Training(service.address, tmp_path, 1, "algorithm.rollout_correction.bypass_mode=true")
    assert [("fade/h_step" in values, values["fade/delta"]) for values in logged] == [(False, 1.0)]


def test_a_checkpoint_is_written_while_the_server_is_away_and_resumed_when_it_is_back(
    service: Service, queue: None, logged: list[dict[str, Any]], tmp_path: Path
) -> None:
    Training(service.address, tmp_path, 2, "algorithm.fade.address=127.0.0.1:1")
    assert [(values["fade/source/neutral"], values["fade/source/server"]) for values in logged] == [(1, 0), (1, 0)]
    service.new_process("qwen-math")
    Training(service.address, tmp_path, 3, passes=2)
    assert logged[-1]["fade/source/server"] == 1


def test_a_checkpoint_without_a_state_is_said(service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fade_client.verl.load_state(tmp_path)
    assert "fade.json is missing" in caplog.text


@pytest.mark.parametrize("damage", ["cut off", "empty", "null", "no entry", "no number"])
def test_a_damaged_file_is_refused_by_its_name(service: Service, tmp_path: Path, damage: str) -> None:
    advantages([1.0, 0], "aa")
    fade_client.verl.save_state(tmp_path)
    path = tmp_path / "fade.json"
    text = path.read_text()
    kept = json.loads(text)
    changed = {"no entry": json.dumps({"state": kept["state"]}), "no number": json.dumps({**kept, "reported": "many"})}
    path.write_text({"cut off": text[:-20], "empty": "", "null": "null", **changed}[damage])
    with pytest.raises(CheckpointError, match="fade.json.*resume from another checkpoint"):
        fade_client.verl.load_state(tmp_path)


def test_a_state_that_cannot_be_written_is_said(service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    fade_client.verl.save_state(tmp_path / "file")
    assert "fade.json was not written" in caplog.text


def test_the_reason_of_a_refusal_is_logged_as_a_number(
    service: Service, queue: None, logged: list[dict[str, Any]], tmp_path: Path
) -> None:
    Training(service.address, tmp_path / "first", 1)
    assert "fade/rejection/writer_fenced" not in logged[-1] and logged[-1]["fade/phase/exploring"] == 1
    with FadeClient(service.address, run="qwen-math", timeout_seconds=20) as other:
        other.restore()  # another job takes the run over
    Training(service.address, tmp_path / "second", 2)
    assert [(values["fade/rejection/writer_fenced"], values["fade/source/neutral"]) for values in logged[-2:]] == [(1, 1)] * 2


def test_a_damaged_state_stops_the_resume(service: Service, queue: None, tmp_path: Path) -> None:
    Training(service.address, tmp_path, 2)
    kept = json.loads((tmp_path / "global_step_2/fade.json").read_text())
    kept["state"]["state_digest"] = "0" * 64
    (tmp_path / "global_step_2/fade.json").write_text(json.dumps(kept))
    service.new_process("qwen-math")
    with pytest.raises(CheckpointError, match="global_step_2/fade.json"):
        Training(service.address, tmp_path, 3)


# Registration in other processes.

IMPORT = """
import torch, verl
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
estimator = get_adv_estimator_fn("fade")
print(estimator(token_level_rewards=torch.tensor([[1.0], [0.0]]), response_mask=torch.ones(2, 1), index=["a", "a"])[0].tolist())
"""

RAY = """
import fade_client.verl, importlib, ray
importlib.reload(fade_client.verl)  # imported twice
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
def task(program):
    import contextlib, io, fade_client.verl
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, {})
    return printed.getvalue()

print(ray.get(task.remote(PROGRAM)), end="")
"""


def in_a_process(program: str, **variables: str) -> list[list[float]]:
    """What its last line says."""
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# both averages are at their start after one group of one half: alpha = 1.5, w = 0.5 ** 0.5
ONE_GROUP = [[0.5**1.5], [-(0.5**1.5)]]


def test_the_external_module_registers_the_estimator_when_verl_is_imported(service: Service) -> None:
    result = in_a_process(IMPORT, VERL_USE_EXTERNAL_MODULES="fade_client.verl", VERL_USE_EXTERNAL_PLUGINS="none")
    np.testing.assert_allclose(result, ONE_GROUP, rtol=1e-6)


def test_the_plugin_registers_the_estimator_when_verl_is_imported(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "site" / "plugin-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[verl.plugins]\nfade = fade_client.verl\n")
    result = in_a_process(IMPORT, PYTHONPATH=str(folder.parent), VERL_USE_EXTERNAL_PLUGINS="fade")
    np.testing.assert_allclose(result, ONE_GROUP, rtol=1e-6)


def test_case_40_a_ray_task_that_imports_the_shim_has_the_estimator_and_so_has_the_driver(service: Service) -> None:
    result = in_a_process(f"PROGRAM = {IMPORT!r}\n" + RAY, VERL_USE_EXTERNAL_PLUGINS="none")
    np.testing.assert_allclose(result, ONE_GROUP, rtol=1e-6)
    assert [item.observation_id for item in service.observations("r")] == ["batch-0"]
