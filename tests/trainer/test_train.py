"""The loop: what it learns from, what it leaves, and that nothing but the configuration decides its bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fade_trainer import TrainConfig
from fade_trainer.model import PrefixLM
from fade_trainer.randomness import numpy_stream, torch_stream
from fade_trainer.rules import TASKS
from fade_trainer.task import make_countdown, solved
from fade_trainer.train import train

Configure = Callable[..., TrainConfig]

DECIDED = ("step", "prompts_seen", "model", "optimizer", "generators", "before")
"""What a checkpoint holds apart from the scheduler's part."""


def decided(read: Any, folder: Path) -> Any:
    content = read.held(folder)
    return read.bits({name: content[name] for name in DECIDED})


def test_a_run_leaves_metrics_and_a_checkpoint(configure: Configure, read: Any, capsys: pytest.CaptureFixture[str]) -> None:
    config = configure()
    result = train(config)
    assert sorted(path.name for path in config.out.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
    steps = read.lines(config.out, "step")
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    named = {"solve_rate", "entropy_nats", "loss", "fade/alpha", "fade/delta", "fade/p_hat", "fade/h_hat", "fade/source"}
    assert all(named <= line.keys() for line in steps)
    assert any(0 < line["solve_rate"] < 1 for line in steps)
    measured = [(line["split"], line["step"]) for line in read.lines(config.out, "evaluation")]
    assert measured == [("held_out", 0), ("validation", 0), ("validation", 3), ("validation", 6), ("held_out", 6)]
    held = read.held(config.out)
    assert held["step"] == 6 and held["fade"]["revision"] == 6 and held["fade"]["unsent"] == []
    assert (result.steps, result.interrupted, result.observations) == (6, False, 6)
    assert (result.server_schedules, result.fallback_schedules, result.schedules) == (0, 0, {"LOCAL": 6})
    bar = capsys.readouterr().err.rpartition("\r")[2]
    assert all(word in bar for word in ("6/6", "pass@1=", "entropy=", "alpha=", "delta="))


def test_timings_say_what_the_scheduler_costs(configure: Configure) -> None:
    config = configure(steps=2)
    train(config)
    read = [json.loads(line) for line in (config.out / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in read if line["kind"] == "step"]
    assert len(steps) == 2 and all(0 < line["client_seconds"] < line["seconds"] for line in steps)


def test_the_schedule_is_that_of_the_paper(configure: Configure, read: Any) -> None:
    config = configure()
    train(config)
    p_hat, h_hat, target = 0.5, None, None
    for line in read.lines(config.out, "step"):
        p_hat += 0.02 * (line["solve_rate"] - p_hat)
        if h_hat is None or target is None:
            h_hat, target = line["entropy_nats"], 0.5 * line["entropy_nats"]
        h_hat += 0.02 * (line["entropy_nats"] - h_hat)
        assert line["fade/p_hat"] == pytest.approx(p_hat, rel=1e-12)
        assert line["fade/h_hat"] == pytest.approx(h_hat, rel=1e-12)
        assert line["fade/alpha"] == pytest.approx(min(max(1.5 * (1 - p_hat) / p_hat, 1), 3), rel=1e-12)
        assert line["fade/delta"] == pytest.approx(min(max(1 + h_hat - target, 0.3), 1), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({"advantage": "grpo"}, (1.0, 1.0)),
        ({"advantage": "power"}, (2.0, 1.0)),
        ({"advantage": "power", "alpha": 3.0}, (3.0, 1.0)),
        ({"advantage": "asym"}, (1.0, 2.0)),
        ({"advantage": "asym", "delta": 0.5}, (1.0, 0.5)),
    ],
)
def test_the_static_methods_keep_their_weights(
    configure: Configure, read: Any, changes: dict[str, Any], weights: tuple[float, float]
) -> None:
    config = configure(steps=2, **changes)
    train(config)
    assert [(line["fade/alpha"], line["fade/delta"]) for line in read.lines(config.out, "step")] == [weights] * 2


def test_one_step_is_the_plain_formula_over_all_tokens_of_all_rows(configure: Configure, read: Any) -> None:
    config = configure(advantage="asym", delta=0.5, minibatches=1, steps=1, prompts=24)
    start = configure("start", advantage="asym", delta=0.5, minibatches=1, steps=0, prompts=24)
    train(start)
    train(config)
    (line,) = read.lines(config.out, "step")

    model = PrefixLM(TASKS["countdown"])
    model.load_state_dict(read.held(start.out)["model"])
    order = numpy_stream(0, "prompt order").permutation(config.training_prompts)
    training = make_countdown("countdown", 0, config.training_prompts, config.evaluation_prompts).training
    prompts = torch.from_numpy(training[order[: config.prompts]])
    rollouts = model.sample(prompts, config.rollouts, torch_stream(0, "sampling"))
    rows = prompts.repeat_interleave(config.rollouts, dim=0)
    rewards = torch.from_numpy(solved(TASKS["countdown"], rows.numpy(), rollouts.answers.flatten(0, 1).numpy())).float()
    assert float(rewards.double().mean()) == line["solve_rate"] and 0 < line["solve_rate"] < 1
    centred = rewards.view(config.prompts, config.rollouts)
    centred = centred - centred.mean(dim=1, keepdim=True)
    advantages = torch.where(centred < 0, centred / 0.5, centred)
    logprobs = torch.log_softmax(model(prompts, rollouts.answers), dim=-1).gather(-1, rollouts.answers.unsqueeze(-1)).squeeze(-1)
    ratio = torch.exp(logprobs - logprobs.detach())
    loss = -(ratio * advantages.unsqueeze(-1))[rollouts.mask].mean()  # on policy nothing is clipped
    assert line["loss"] == pytest.approx(float(loss.detach()), abs=1e-6)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]))
    factor = torch.clamp(1.0 / norm, max=1.0)
    updated = read.held(config.out)["optimizer"]["state"]
    for index, gradient in enumerate(gradients):  # Adam's first average is a tenth of the first gradient
        torch.testing.assert_close(updated[index]["exp_avg"] * 10, gradient * factor, atol=2e-6, rtol=1e-3)


def test_alpha_and_delta_of_one_train_to_the_bits_of_reward_minus_mean(configure: Configure, read: Any) -> None:
    without, scheduled = configure("none", advantage="grpo", server="none"), configure("local", advantage="grpo")
    first, second = train(without), train(scheduled)
    assert decided(read, without.out) == decided(read, scheduled.out)
    assert (first.observations, first.fallback_schedules, second.observations) == (0, 0, 6)
    warmed_up = configure("start", advantage="grpo", server="none", steps=0)
    train(warmed_up)
    assert decided(read, warmed_up.out)["model"] != decided(read, without.out)["model"]


def test_the_schedule_moves_the_policy(configure: Configure, read: Any) -> None:
    fade, grpo = configure("fade"), configure("grpo", advantage="grpo")
    train(fade)
    train(grpo)
    assert decided(read, fade.out)["model"] != decided(read, grpo.out)["model"]


def test_evaluations_and_checkpoints_move_no_bit_of_training(configure: Configure, read: Any) -> None:
    often, never = configure("often", eval_every=1, checkpoint_every=1), configure("never", eval_every=99, checkpoint_every=99)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002 - that it stays as it is
    train(often)
    train(never)
    assert decided(read, often.out) == decided(read, never.out)
    assert torch.equal(torch.get_rng_state(), torch_state) and (np.random.get_state()[1] == numpy_state).all()


def test_another_seed_is_another_run(configure: Configure, read: Any) -> None:
    first, other = configure("first", steps=1, warmup_steps=1), configure("other", steps=1, warmup_steps=1, seed=1)
    train(first)
    train(other)
    assert read.lines(first.out, "step") != read.lines(other.out, "step")


def test_a_warmed_up_policy_from_the_cache_has_the_bits_of_a_fresh_one(configure: Configure, read: Any, tmp_path: Path) -> None:
    fresh, cached, other = (
        configure(name, steps=0, warmup_steps=steps, cache_dir=tmp_path / "cache")
        for name, steps in (("fresh", 3), ("cached", 3), ("other", 4))
    )
    for config, files in ((fresh, 1), (cached, 1), (other, 2)):
        train(config)
        assert len(list((tmp_path / "cache").iterdir())) == files
    assert decided(read, fresh.out) == decided(read, cached.out)
    assert decided(read, fresh.out)["model"] != decided(read, other.out)["model"]
