"""docs/trainers/prime-rl.md against stand-ins with the signatures of prime-rl 0.8."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fade_client import TrainerError


def node(tokens: int, logprob: float, trained: bool) -> Any:
    return SimpleNamespace(logprobs=[logprob] * tokens, mask=[trained] * tokens, advantages=None)


def episode(reward: float, tokens: int, *, group: str, environment: str, error: bool = False) -> Any:
    nodes = [node(3, 0.0, False), node(tokens, -0.5, True), node(2, 0.0, False), node(1, -1.5, True)]
    trace = SimpleNamespace(reward=reward, nodes=nodes, has_error=error, agent=SimpleNamespace(trainable=True))
    return SimpleNamespace(traces=[trace], env=SimpleNamespace(name=environment), group=SimpleNamespace(id=group))


def episodes(rewards: list[float], group: str, environment: str = "math") -> list[Any]:
    return [episode(reward, 2 + place, group=group, environment=environment) for place, reward in enumerate(rewards)]


def nats_per_token(groups: list[list[float]]) -> float:
    counts = [2 + place for group in groups for place in range(len(group))]
    return sum(0.5 * tokens + 1.5 for tokens in counts) / sum(tokens + 1 for tokens in counts)


def iter_trainable_traces(group: list[Any]) -> Iterator[tuple[Any, Any]]:
    for item in group:
        for trace in item.traces:
            if not trace.has_error and trace.agent.trainable:
                yield item, trace


def assign_advantages(trace: Any, values: float) -> None:
    for item in trace.nodes:
        if any(item.mask):
            item.advantages = [float(values)] * sum(item.mask)


class GRPOAlgorithm:
    def __init__(self, config: Any, policy_pool: Any) -> None:
        self.length_penalty = config.length_penalty


class CheckpointManager:
    def __init__(self, output_dir: Path, config: Any) -> None:
        self.output_dir, self.config = output_dir, config

    def get_ckpt_path(self, step: int) -> Path:
        return self.output_dir / f"step_{step}" / "orchestrator"

    def save(self, progress: Any, train_source: Any, step: int) -> None:
        self.get_ckpt_path(step).mkdir(parents=True)
        (self.get_ckpt_path(step) / "progress.pt").write_text(str(progress.step))

    def load(self, progress: Any, train_source: Any, step: int, path: Path | None = None) -> None:
        progress.step = int(((path or self.get_ckpt_path(step)) / "progress.pt").read_text())


class Orchestrator:
    """Resumes in `setup`, ships a batch in `finalize_train_batch` and saves there, as prime-rl's."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.progress = SimpleNamespace(step=1)
        self.ckpt_manager = CheckpointManager(config.output_dir, config.ckpt)
        self.stopped = False

    async def setup(self) -> None:
        if self.config.resume_step is not None:
            self.ckpt_manager.load(self.progress, None, step=self.config.resume_step, path=None)
            self.progress.step = self.config.resume_step + 1

    async def finalize_train_batch(self, batch: Any) -> None:
        if not batch.samples:
            return
        self.progress.step += 1
        self.ckpt_manager.save(self.progress, None, self.progress.step - 1)

    async def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def load(stand_in: Any, server: str, run_snippet: Any) -> Any:
    """Runs the guide's file as a fresh process would, and returns its names."""

    def run() -> dict[str, Any]:
        async def run_orchestrator(config: Any) -> None: ...

        stand_in("prime_rl.orchestrator.orchestrator", Orchestrator=Orchestrator, run_orchestrator=run_orchestrator)
        algo = {"ALGORITHM_CLASSES": {"grpo": GRPOAlgorithm}, "GRPOAlgorithm": GRPOAlgorithm}
        stand_in("prime_rl.orchestrator.algo", **algo, assign_advantages=assign_advantages)
        stand_in("prime_rl.orchestrator.algo.base", iter_trainable_traces=iter_trainable_traces)
        stand_in("prime_rl.orchestrator.ckpt", CheckpointManager=CheckpointManager)
        utils = {"episode_env_name": lambda item: item.env.name, "episode_group_id": lambda item: item.group.id}
        stand_in("prime_rl.orchestrator.utils", **utils)
        names: dict[str, Any] = run_snippet("prime-rl")
        assert names["ALGORITHM_CLASSES"]["grpo"] is names["FadeAlgorithm"]
        return names

    return run


def settings(folder: Path, resume_step: int | None = None) -> Any:
    return SimpleNamespace(output_dir=folder, ckpt=SimpleNamespace(), resume_step=resume_step)


def algorithm(names: dict[str, Any]) -> Any:
    return names["FadeAlgorithm"](SimpleNamespace(length_penalty=None), None)


def check(group: list[Any], rewards: list[float], reference: Any) -> None:
    for item, expected in zip(group, reference.advantages(rewards, *reference.schedule()), strict=True):
        nodes = item.traces[0].nodes
        assert nodes[0].advantages is None and nodes[2].advantages is None
        assert len(nodes[1].advantages) == len(nodes[1].mask)
        np.testing.assert_allclose(nodes[1].advantages + nodes[3].advantages, expected, rtol=1e-12, atol=1e-12)


SHIPPED = SimpleNamespace(samples=["a sample"])
EMPTY = SimpleNamespace(samples=[])
STEPS = [[[1.0, 0, 0, 0], [0.0, 0, 0]], [[1.0, 0], [1.0, 1, 1], [0.0, 1, 0, 0, 0]], [[0.0, 0, 1, 0]]]


def test_groups_are_weighed_at_once_and_all_of_a_step_are_reported_together(
    load: Any, fade: Any, history: Any, tmp_path: Path
) -> None:
    async def test() -> None:
        names, reference = load(), fade()
        scorer, orchestrator = algorithm(names), names["FadeOrchestrator"](settings(tmp_path))
        await orchestrator.setup()
        for step, groups in enumerate(STEPS):
            for number, rewards in enumerate(groups):
                group = episodes(rewards, f"{step}-{number}")
                await scorer.score_group(group)
                if step:  # before the first report the weights are neutral
                    check(group, rewards, reference)
                await orchestrator.finalize_train_batch(EMPTY)  # a batch without samples is no step
            await orchestrator.finalize_train_batch(SHIPPED)
            reference.observe(groups, nats_per_token(groups))
        np.testing.assert_allclose(names["fade"].schedule.alpha, reference.schedule()[0], rtol=1e-12)
        await orchestrator.stop()
        assert orchestrator.stopped

    asyncio.run(test())
    told = history()
    assert [(item.observation_id, item.trainer_step) for item in told] == [("step-1", 1), ("step-2", 2), ("step-3", 3)]
    assert [list(item.groups.scored) for item in told] == [[4, 3], [2, 3, 5], [4]]


def test_the_first_groups_are_weighed_neutrally_and_errored_traces_are_left_out(load: Any, fade: Any) -> None:
    async def test() -> None:
        names = load()
        group = [*episodes([1.0, 0, 0], "g"), episode(0.0, 4, group="g", environment="math", error=True)]
        await algorithm(names).score_group(group)
        neutral = fade()
        assert neutral.schedule()[0] == 1.5  # what it is from the first report on
        for item, expected in zip(group, neutral.advantages([1.0, 0, 0], 1, 1), strict=False):
            np.testing.assert_allclose(item.traces[0].nodes[1].advantages, expected, rtol=1e-12)
        assert group[3].traces[0].nodes[1].advantages is None
        await names["fade"].aclose()

    asyncio.run(test())


def test_a_step_whose_groups_all_errored_reports_nothing_and_stops_nothing(load: Any, history: Any, tmp_path: Path) -> None:
    async def test() -> None:
        names = load()
        orchestrator = names["FadeOrchestrator"](settings(tmp_path))
        await algorithm(names).score_group([episode(0.0, 4, group="g", environment="math", error=True) for _ in range(3)])
        await orchestrator.finalize_train_batch(SHIPPED)
        await algorithm(names).score_group(episodes([1.0, 0, 0], "h"))
        await orchestrator.finalize_train_batch(SHIPPED)
        await orchestrator.stop()

    asyncio.run(test())
    assert [(item.observation_id, list(item.groups.scored)) for item in history()] == [("step-2", [3])]


def test_each_environment_has_averages_of_its_own(load: Any, fade: Any, tmp_path: Path) -> None:
    async def test() -> None:
        names, math, code = load(), fade(), fade()
        orchestrator = names["FadeOrchestrator"](settings(tmp_path))
        for step in range(2):
            await algorithm(names).score_group(episodes([1.0, 1, 1, 0], f"{step}-m", "math"))
            await algorithm(names).score_group(episodes([1.0, 0, 0], f"{step}-c", "code"))
            await orchestrator.finalize_train_batch(SHIPPED)
            math.observe([[1.0, 1, 1, 0]], nats_per_token([[1, 1, 1, 0]]))
            code.observe([[1.0, 0, 0]], nats_per_token([[1, 0, 0]]))
        for environment, reference in (("math", math), ("code", code)):
            group = episodes([0.0, 1, 0], f"last-{environment}", environment)
            await algorithm(names).score_group(group)
            check(group, [0.0, 1, 0], reference)
        assert math.schedule() != code.schedule()
        await orchestrator.stop()

    asyncio.run(test())


def test_the_state_lies_beside_the_progress_and_is_gone_on_from(load: Any, fade: Any, history: Any, tmp_path: Path) -> None:
    async def train(names: dict[str, Any], orchestrator: Any, group: str, rewards: list[float]) -> list[Any]:
        scored = episodes(rewards, group)
        await algorithm(names).score_group(scored)
        await orchestrator.finalize_train_batch(SHIPPED)
        return scored

    async def test() -> None:
        names, reference = load(), fade()
        first = names["FadeOrchestrator"](settings(tmp_path))
        await train(names, first, "one", [1.0, 1, 1, 0])
        reference.observe([[1.0, 1, 1, 0]], nats_per_token([[1, 1, 1, 0]]))
        await train(names, first, "lost", [1.0, 1, 0, 0])  # the step that the crash loses
        await first.stop()
        assert json.loads((tmp_path / "step_1" / "orchestrator" / "fade.json").read_text())["state"]["revision"] == 1
        names = load()
        second = names["FadeOrchestrator"](settings(tmp_path, resume_step=1))
        await second.setup()
        assert second.progress.step == 2 and names["fade"].schedule.source == "HELD"
        (tmp_path / "step_2").rename(tmp_path / "crashed")
        check(await train(names, second, "two", [0.0, 1, 0, 0]), [0.0, 1, 0, 0], reference)
        await second.stop()

    asyncio.run(test())
    assert [(item.revision, item.trainer_step, list(item.groups.solved)) for item in history()] == [(1, 1, [3]), (2, 2, [1])]


def test_a_length_penalty_is_refused(load: Any) -> None:
    with pytest.raises(TrainerError, match="length_penalty"):
        load()["FadeAlgorithm"](SimpleNamespace(length_penalty=SimpleNamespace(type="linear")), None)


def test_the_changed_line_starts_the_guides_orchestrator(
    load: Any, added: Any, monkeypatch: pytest.MonkeyPatch, stand_in: Any
) -> None:
    names = load()
    stand_in("fade_prime_rl", **names)
    given: dict[str, Any] = {}
    exec(added("prime-rl")[0], given)
    assert given["run_orchestrator"] is names["orchestrator"].run_orchestrator
    assert names["orchestrator"].Orchestrator is names["FadeOrchestrator"]
