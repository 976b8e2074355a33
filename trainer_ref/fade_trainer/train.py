"""The RL loop: sample, score, report, weight, update. Read it from `train` downwards.

fade serve &
fade train --advantage fade --server localhost:50051 --seed 0
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from tqdm import tqdm

from fade_client import FadeClient
from fade_trainer.checkpoint import Checkpoint
from fade_trainer.config import TrainConfig, TrainConfigError, TrainResult
from fade_trainer.evaluation import evaluate
from fade_trainer.interruption import stop_requested
from fade_trainer.metrics import MetricsLog
from fade_trainer.model import PrefixLM, Rollouts
from fade_trainer.randomness import numpy_stream, torch_stream
from fade_trainer.scheduler import RegisteredAdvantage, open_scheduler, registered_advantage
from fade_trainer.task import Countdown, IntArray, make_countdown, solved
from fade_trainer.warmup import warmed_up_model

ADAM_BETAS = (0.9, 0.95)
CHECKPOINT_NAME = "checkpoint.pt"
SAMPLES = 64
"""Answers to each held-out prompt."""


@dataclass(kw_only=True)
class _Progress:
    """All that changes while a run goes on."""

    model: PrefixLM
    optimizer: torch.optim.Adam
    sampling: torch.Generator
    order: torch.Generator
    step: int = 0
    prompts_seen: int = 0
    schedules: Counter[str] = field(default_factory=Counter)
    before: dict[int, float] = field(default_factory=dict)
    """pass@k of the warmed-up policy on the held-out prompts."""
    shown: dict[str, str] = field(default_factory=dict)
    """What the progress bar says."""


def train(config: TrainConfig) -> TrainResult:
    """Warms a policy up, trains it by RL, and leaves metrics.jsonl and checkpoint.pt in `config.out`.

    The first SIGINT or SIGTERM ends it after the step under way, with a checkpoint.

    Raises:
        TrainConfigError: `config.out` holds a run already and `resume` is not set, or holds another run than this one.
        FadeClientError: The scheduler refused the run.
    """
    torch.set_num_threads(1)  # The matrices are too small to share, and sums split over threads would cost equal bits.
    started = time.perf_counter()
    metrics_path = config.out / "metrics.jsonl"
    checkpoint = _find_checkpoint(config)
    task = make_countdown(config.task, config.seed, config.training_prompts, config.evaluation_prompts)
    warming = time.perf_counter()
    if checkpoint is None:
        model = warmed_up_model(task, config.seed, config.warmup_steps, config.cache_dir)
    else:
        model = PrefixLM(task.rules)
    warmup_seconds = time.perf_counter() - warming
    run = _Progress(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=config.learning_rate, betas=ADAM_BETAS, fused=True),
        sampling=torch_stream(config.seed, "sampling"),
        order=torch_stream(config.seed, "minibatch order"),
    )
    if checkpoint is not None:
        _restore(run, checkpoint)

    with stop_requested() as stop, MetricsLog(metrics_path, checkpoint.metrics_bytes if checkpoint else 0) as log:
        if checkpoint is None:
            run.before = _evaluate(run, config, log, "held_out", task.held_out)
            _validate(run, config, task, log)
        with _scheduler(config, checkpoint) as (fade, registered):
            if checkpoint is None:
                _checkpoint(run, config, fade, log)
            _train_steps(run, config, task, fade, registered, log, stop)
        after = _evaluate(run, config, log, "held_out", task.held_out)
        observations = sum(run.schedules.values())
        answered = run.schedules["SERVER"] + run.schedules["PINNED"]
        fallbacks = observations - answered - (run.schedules["LOCAL"] if config.server == "local" else 0)
        result = TrainResult(
            run=config.run,
            steps=run.step,
            interrupted=run.step < config.steps,
            observations=observations,
            server_schedules=answered,
            fallback_schedules=fallbacks,
            schedules=dict(run.schedules),
            pass_at_1_before=run.before[1],
            pass_at_1_after=after[1],
            pass_at_16_before=run.before[16],
            pass_at_16_after=after[16],
            seconds=time.perf_counter() - started,
            warmup_seconds=warmup_seconds,
        )
        log.write("summary", asdict(result))
    return result


def _train_steps(
    run: _Progress,
    config: TrainConfig,
    task: Countdown,
    fade: FadeClient | None,
    registered: RegisteredAdvantage | None,
    log: MetricsLog,
    stop: threading.Event,
) -> None:
    """Steps up to the last one or to the wish to stop, with evaluations and checkpoints in between."""
    with tqdm(desc=config.run, total=config.steps, initial=run.step, unit="step", mininterval=0.5) as bar:
        while run.step < config.steps and not stop.is_set():
            record = _train_step(run, config, task, fade, registered)
            log.write("step", record)
            at_end = run.step == config.steps
            if at_end or run.step % config.eval_every == 0:
                _validate(run, config, task, log)
            if at_end or run.step % config.checkpoint_every == 0:
                _checkpoint(run, config, fade, log)
            run.shown["entropy"] = f"{record['entropy_nats']:.3f}"
            run.shown["alpha"] = f"{record.get('fade/alpha', 1.0):.2f}"
            run.shown["delta"] = f"{record.get('fade/delta', 1.0):.2f}"
            bar.set_postfix(run.shown, refresh=False)
            bar.update()
    if run.step < config.steps:
        _checkpoint(run, config, fade, log)


def _train_step(
    run: _Progress, config: TrainConfig, task: Countdown, fade: FadeClient | None, registered: RegisteredAdvantage | None
) -> dict[str, Any]:
    """One generation batch: sampled, scored, reported, weighted by the schedule that comes back for it, learned from.

    Returns:
        The step's line of metrics; `seconds` is the whole step, `client_seconds` the part spent on the scheduler.
    """
    started = time.perf_counter()
    run.step += 1
    prompts = torch.from_numpy(_prompt_batch(task.training, config.seed, run.prompts_seen, config.prompts))
    run.prompts_seen += config.prompts
    rollouts = run.model.sample(prompts, config.rollouts, run.sampling)
    rewards = _rewards(task, prompts, rollouts)
    entropy_nats, tokens = float(rollouts.entropy.sum(dtype=torch.float64)), int(rollouts.mask.sum())

    reporting = time.perf_counter()
    if fade is None:
        advantages = rewards - rewards.mean(dim=1, keepdim=True)
        scheduled: dict[str, float | str] = {}
    else:
        rows = rewards.flatten()
        groups = torch.arange(config.prompts).repeat_interleave(config.rollouts)
        schedule = fade.observe(
            f"step-{run.step}", rewards=rows, groups=groups, entropy=(entropy_nats, tokens), trainer_step=run.step
        )
        advantages = (registered or schedule.advantages)(rows, groups).view_as(rewards)
        if config.apply_lr_scale:
            for parameters in run.optimizer.param_groups:
                parameters["lr"] = config.learning_rate * schedule.lr_scale
        scheduled = schedule.metrics()
        run.schedules[str(schedule.source)] += 1
    client_seconds = time.perf_counter() - reporting

    loss = _update(run, config, prompts, rollouts, advantages)
    return {
        "step": run.step,
        "solve_rate": float(rewards.mean(dtype=torch.float64)),
        "entropy_nats": entropy_nats / tokens,
        "loss": loss,
        "success_mass": float(advantages.clamp(min=0).mean(dtype=torch.float64)),
        "failure_mass": float(-advantages.clamp(max=0).mean(dtype=torch.float64)),
        "informative_groups": float((advantages != 0).any(dim=1).double().mean()),
        "seconds": time.perf_counter() - started,
        "client_seconds": client_seconds,
        **scheduled,
    }


def _update(run: _Progress, config: TrainConfig, prompts: Tensor, rollouts: Rollouts, advantages: Tensor) -> float:
    """One epoch of PPO-clipped updates, each the mean over all tokens of its rollouts.

    Args:
        prompts: [P, 5].
        rollouts: of these prompts.
        advantages: [P, R], one per rollout, used for each of its tokens.

    Returns:
        The mean of the updates' losses.
    """
    losses = []
    for chosen in torch.randperm(len(prompts), generator=run.order).tensor_split(config.minibatches):
        tokens = rollouts.mask[chosen].sum()
        # Groups without an advantage have no gradient: they are left out of the work, but not of the mean.
        active = chosen[(advantages[chosen] != 0).any(dim=1)]
        weights = advantages[active].unsqueeze(-1)
        logprobs = run.model.logprobs(prompts[active], rollouts.answers[active])
        ratio = (logprobs - rollouts.logprobs[active]).exp()
        clipped = ratio.clamp(1 - config.clip_range, 1 + config.clip_range)
        objective = torch.minimum(ratio * weights, clipped * weights)
        loss = -(objective * rollouts.mask[active]).sum() / tokens
        run.optimizer.zero_grad()
        torch.autograd.backward(loss)
        clip_grad_norm_(run.model.parameters(), config.gradient_norm_max)
        run.optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def _prompt_batch(training: IntArray, seed: int, seen: int, count: int) -> IntArray:
    """The next prompts [count, 5] after `seen`, in an order drawn anew for each pass over `training` [prompts, 5]."""
    passes, places = np.divmod(np.arange(seen, seen + count), len(training))
    touched = range(passes[0], passes[-1] + 1)
    orders = np.array([numpy_stream(seed, "prompt order", index).permutation(len(training)) for index in touched])
    batch: IntArray = training[orders[passes - passes[0], places]]
    return batch


def _rewards(task: Countdown, prompts: Tensor, rollouts: Rollouts) -> Tensor:
    """[P, R] float32: 1 for a right answer, 0 for any other."""
    per_prompt = rollouts.answers.shape[1]
    rows = prompts.repeat_interleave(per_prompt, dim=0)
    right = solved(task.rules, rows.numpy(), rollouts.answers.flatten(0, 1).numpy())
    return torch.from_numpy(right).view(-1, per_prompt).float()


def _evaluate(
    run: _Progress, config: TrainConfig, log: MetricsLog, split: str, prompts: IntArray, samples: int = SAMPLES
) -> dict[int, float]:
    """Measures the policy as it stands on a split, logs it, and returns pass@k by k."""
    started = time.perf_counter()
    measured = evaluate(run.model, prompts, samples, config.seed, run.step)
    pass_at = {f"pass@{k}": value for k, value in measured.pass_at.items()}
    seconds = time.perf_counter() - started
    line = {"step": run.step, "split": split, **pass_at, "entropy_nats": measured.entropy_nats, "seconds": seconds}
    log.write("evaluation", line)
    return measured.pass_at


def _validate(run: _Progress, config: TrainConfig, task: Countdown, log: MetricsLog) -> None:
    """A point of the curve."""
    measured = _evaluate(run, config, log, "validation", task.validation, config.curve_samples)
    run.shown["pass@1"] = f"{measured[1]:.3f}"


@contextmanager
def _scheduler(
    config: TrainConfig, checkpoint: Checkpoint | None
) -> Iterator[tuple[FadeClient | None, RegisteredAdvantage | None]]:
    """The client, put back to the checkpoint's point of the run, and the advantage in its schedule's place; closed in the end."""
    with ExitStack() as stack:
        fade, registered = open_scheduler(config), registered_advantage(config)
        if fade is not None:
            stack.callback(fade.close)
        if registered is not None:
            stack.callback(registered.close)
        if fade is not None and checkpoint is not None and checkpoint.fade is not None:
            fade.load_state_dict(checkpoint.fade)
        yield fade, registered


def _find_checkpoint(config: TrainConfig) -> Checkpoint | None:
    """The checkpoint to go on from, if there is one; refuses to write over a run, or to go on from another one's."""
    path = config.out / CHECKPOINT_NAME
    if not path.exists():
        return None
    if not config.resume:
        raise TrainConfigError(f"{config.out} holds a run already: resume it, or choose another folder")
    checkpoint = Checkpoint.load(path)
    wanted = config.identity()
    differing = [name for name in wanted if wanted[name] != checkpoint.identity[name]]
    if (checkpoint.fade is None) != (config.server == "none"):
        differing.append("server")
    if differing:
        raise TrainConfigError(f"the checkpoint in {config.out} is of a run with other settings: {', '.join(differing)}")
    return checkpoint


def _checkpoint(run: _Progress, config: TrainConfig, fade: FadeClient | None, log: MetricsLog) -> None:
    """Writes the run as it stands to its folder."""
    Checkpoint(
        identity=config.identity(),
        step=run.step,
        prompts_seen=run.prompts_seen,
        model=run.model.state_dict(),
        optimizer=run.optimizer.state_dict(),
        generators={"sampling": run.sampling.get_state(), "order": run.order.get_state()},
        schedules=dict(run.schedules),
        before=run.before,
        fade=None if fade is None else fade.state_dict(),
        metrics_bytes=log.sync(),
    ).save(config.out / CHECKPOINT_NAME)


def _restore(run: _Progress, checkpoint: Checkpoint) -> None:
    """Puts a run back to where `_checkpoint` found it."""
    run.model.load_state_dict(checkpoint.model)
    run.optimizer.load_state_dict(checkpoint.optimizer)
    run.sampling.set_state(checkpoint.generators["sampling"])
    run.order.set_state(checkpoint.generators["order"])
    run.step, run.prompts_seen, run.before = checkpoint.step, checkpoint.prompts_seen, checkpoint.before
    run.schedules.update(checkpoint.schedules)
