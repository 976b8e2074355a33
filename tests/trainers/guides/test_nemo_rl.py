"""docs/trainers/nemo-rl.md against stand-ins with the signatures of NeMo-RL 0.6."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fade_client.shim
from fade_client import TrainerError


class CheckpointManager:
    """The two methods that the guide derives from, as NeMo-RL's."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Path(config["checkpoint_dir"])

    def init_tmp_checkpoint(self, step: int, training_info: dict[str, Any], run_config: Any = None) -> Path:
        folder = self.folder / f"tmp_step_{step}"
        folder.mkdir(parents=True)
        (folder / "training_info.json").write_text(json.dumps(training_info))
        return folder

    def load_training_info(self, checkpoint_path: Any = None) -> dict[str, Any] | None:
        if checkpoint_path is None:
            return None
        info: dict[str, Any] = json.loads((Path(checkpoint_path) / "training_info.json").read_text())
        return info


@pytest.fixture
def grpo(stand_in: Any, server: str, run_snippet: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `nemo_rl.algorithms.grpo` after the guide's import."""
    module = stand_in("nemo_rl.algorithms.grpo")
    stand_in("nemo_rl.utils.checkpoint", CheckpointManager=CheckpointManager)
    monkeypatch.setattr(fade_client.shim, "_shared", None)
    run_snippet("nemo-rl")
    yield module
    restart(monkeypatch)


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver ended, and its next attempt has a client of its own."""
    if fade_client.shim._shared is not None:
        fade_client.shim._shared.close()
    monkeypatch.setattr(fade_client.shim, "_shared", None)


def config(**changed: Any) -> Any:
    values = {
        "advantage_clip_low": None,
        "advantage_clip_high": None,
        "invalid_tool_call_advantage": None,
        "malformed_thinking_advantage": None,
        "use_dynamic_sampling": False,
    }
    return SimpleNamespace(grpo=SimpleNamespace(**{**values, **changed}))


GROUPS = [[1, 0, 0, 0, 0], [1, 1, 0], [0, 0], [1, 1, 1, 1]]


def batch(groups: list[list[float]], seed: int) -> dict[str, Any]:
    """Rows of uneven groups in shuffled order, with the prompt's tokens as the group's identity."""
    dice = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    order = dice.permutation(len(owner))
    prompts = torch.tensor([[7, 0, 0], [7, 3, 0], [2, 3, 4], [9, 9, 9]])
    mask = torch.from_numpy(dice.integers(0, 2, (len(owner), 6))).float()
    return {
        "prompt_ids": prompts[owner[order]],
        "rewards": torch.tensor(np.concatenate(groups)[order], dtype=torch.float32),
        "mask": mask,
        "repeated_batch": {},
        "logprobs_policy": torch.from_numpy(-dice.random((len(owner), 6))).float(),
        "logprobs_reference": None,
        "owner": owner[order],
    }


def compute(estimator: Any, rows: dict[str, Any]) -> Any:
    return estimator.compute_advantage(**{name: value for name, value in rows.items() if name != "owner"})


def check(advantages: Any, rows: dict[str, Any], reference: Any) -> None:
    assert advantages.shape == rows["mask"].shape and advantages.dtype == torch.float32
    for number in range(len(GROUPS)):
        inside = np.flatnonzero(rows["owner"] == number)
        expected = reference.advantages(rows["rewards"][inside].tolist(), *reference.schedule())
        np.testing.assert_allclose(advantages[inside], np.repeat(expected[:, None], 6, 1), rtol=1e-5, atol=1e-7)


def nats_per_token(rows: dict[str, Any]) -> float:
    return float(-(rows["logprobs_policy"].double() * rows["mask"]).sum() / rows["mask"].sum())


def test_every_token_gets_its_rollouts_fade_advantage_in_uneven_groups(grpo: Any, fade: Any, history: Any) -> None:
    estimator, reference = grpo._create_advantage_estimator(config()), fade()
    for seed in range(3):
        rows = batch(GROUPS, seed)
        reference.observe(GROUPS, nats_per_token(rows))
        check(compute(estimator, rows), rows, reference)
    told = history()
    assert len(told) == 3 and sorted(told[0].groups.scored) == [2, 3, 4, 5]
    np.testing.assert_allclose(estimator.last_metrics["fade/h_hat"], reference.entropy, rtol=1e-6)


def test_a_skipped_forward_pass_is_no_entropy_of_zero(grpo: Any) -> None:
    estimator = grpo._create_advantage_estimator(config())
    rows = batch(GROUPS, 0)
    compute(estimator, {**rows, "logprobs_policy": torch.zeros_like(rows["mask"])})
    assert "fade/h_hat" not in estimator.last_metrics
    assert estimator.last_metrics["fade/delta"] == 1


def test_dynamic_sampling_holds_the_solve_rate(grpo: Any) -> None:
    estimator = grpo._create_advantage_estimator(config(use_dynamic_sampling=True))
    compute(estimator, batch(GROUPS, 0))
    assert estimator.last_metrics["fade/p_hat"] == 0.5


@pytest.mark.parametrize("wrong", ["advantage_clip_low", "advantage_clip_high", "invalid_tool_call_advantage"])
def test_settings_that_would_change_the_advantages_are_refused(grpo: Any, wrong: str) -> None:
    with pytest.raises(TrainerError, match=wrong):
        grpo._create_advantage_estimator(config(**{wrong: -5.0}))


def test_the_state_lies_in_the_checkpoints_folder_and_survives_its_renaming(
    grpo: Any, fade: Any, history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator, reference = grpo._create_advantage_estimator(config()), fade()
    manager = grpo.CheckpointManager({"checkpoint_dir": tmp_path / "checkpoints"})
    assert manager.load_training_info(None) is None
    rows = batch(GROUPS, 0)
    compute(estimator, rows)
    reference.observe(GROUPS, nats_per_token(rows))
    folder = manager.init_tmp_checkpoint(1, {"total_steps": 1}).rename(tmp_path / "checkpoints" / "step_1")
    compute(estimator, batch(GROUPS, 5))  # the step that the crash loses
    restart(monkeypatch)
    assert grpo.CheckpointManager({"checkpoint_dir": tmp_path}).load_training_info(str(folder)) == {"total_steps": 1}
    rows = batch(GROUPS, 6)
    reference.observe(GROUPS, nats_per_token(rows))
    check(compute(grpo._create_advantage_estimator(config()), rows), rows, reference)
    assert [item.revision for item in history()] == [1, 2]
