"""docs/trainers/openrlhf.md against stand-ins with the signatures of OpenRLHF 0.11."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fade_client import TrainerError

GROUP_SIZE = 4


@dataclass
class Experience:
    rewards: torch.Tensor
    index: list[int]
    action_mask: torch.Tensor
    action_log_probs: torch.Tensor
    kl: torch.Tensor | None
    advantages: torch.Tensor | None = None
    returns: torch.Tensor | None = None
    info: dict[str, Any] = field(default_factory=dict)


class RemoteExperienceMaker:
    """As __init__ of OpenRLHF's leaves it."""

    def __init__(
        self, actor: Any, critic: Any, reward: Any, initial: Any, kl_controller: Any, strategy: Any, tokenizer: Any
    ) -> None:
        self.strategy = strategy
        self.args = strategy.args
        self.advantage_estimator = strategy.args.algo.advantage.estimator
        self.kl_ctl = kl_controller


def apply_length_penalties(experiences: list[Experience], args: Any) -> None:
    for experience in experiences:
        experience.rewards[experience.rewards == args.penalise] -= 0.25


@pytest.fixture
def make(stand_in: Any, server: str, run_snippet: Any) -> Any:
    stand_in("openrlhf.trainer.ppo_utils.experience_maker", RemoteExperienceMaker=RemoteExperienceMaker)
    stand_in("openrlhf.trainer.ppo_utils.length_penalty", apply_length_penalties=apply_length_penalties)
    maker = run_snippet("openrlhf")["FadeExperienceMaker"]
    made = []

    def build(
        estimator: str = "dr_grpo", kl: float = 0.0, use_loss: bool = False, filtering: bool = False, penalise: float = 9.0
    ) -> Any:
        algo = SimpleNamespace(
            advantage=SimpleNamespace(estimator=estimator),
            kl=SimpleNamespace(use_loss=use_loss),
            dynamic_filtering_enable=filtering,
        )
        args = SimpleNamespace(algo=algo, rollout=SimpleNamespace(n_samples_per_prompt=GROUP_SIZE), penalise=penalise)
        made.append(maker(None, None, None, None, SimpleNamespace(value=kl), SimpleNamespace(args=args), None))
        return made[-1]

    yield build
    for item in made:
        item.fade.close()


def batch(groups: list[list[float]], seed: int) -> tuple[list[Experience], float]:
    """Micro-batches of three rows in shuffled order, with responses of different lengths, and the nats per token."""
    dice = np.random.default_rng(seed)
    rewards = np.array(groups).flatten()
    experiences = []
    for rows in np.split(dice.permutation(len(rewards)), range(3, len(rewards), 3)):
        lengths = dice.integers(1, 6, len(rows))
        mask = torch.arange(5) < torch.tensor(lengths)[:, None]
        log_probs = torch.from_numpy(-dice.random((len(rows), 5))).float()
        own = torch.tensor(rewards[rows], dtype=torch.float32)
        experiences.append(Experience(own, rows.tolist(), mask, log_probs, torch.zeros(len(rows), 5)))
    nats = -sum(float((item.action_log_probs.double() * item.action_mask).sum()) for item in experiences)
    return experiences, nats / sum(int(item.action_mask.sum()) for item in experiences)


BATCHES = [
    [[1, 0, 0, 0], [1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]],
    [[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [np.nan, 1, 0, 0]],
]


def check(experiences: list[Experience], groups: list[list[float]], fade: Any, weights: tuple[float, float]) -> None:
    for experience in experiences:
        for place, row in enumerate(experience.index):
            expected = fade.advantages(groups[row // GROUP_SIZE], *weights)[row % GROUP_SIZE]
            mask = experience.action_mask[place].numpy()
            assert experience.advantages is not None and experience.returns is not None
            np.testing.assert_allclose(experience.advantages[place], expected * mask, rtol=1e-5, atol=1e-7)
            np.testing.assert_array_equal(experience.returns[place], experience.advantages[place])
        assert experience.kl is None


def test_every_token_gets_its_rollouts_fade_advantage_in_whatever_order_rows_come(make: Any, fade: Any, history: Any) -> None:
    maker, reference = make(), fade()
    for number, groups in enumerate(BATCHES[:1] * 3):
        experiences, nats = batch(groups, number)
        reference.observe(groups, nats)
        assert maker.compute_advantages_and_returns(experiences) is experiences
        check(experiences, groups, reference, reference.schedule())
    assert reference.schedule()[0] > 1.4
    told = history()
    assert len(told) == 3 and {tuple(item.groups.solved) for item in told} == {(1, 3, 0, 4)}
    np.testing.assert_allclose(maker.metrics["fade/h_hat"], reference.entropy, rtol=1e-6)
    assert maker.metrics["fade/alpha"] == told[-1].schedules[0].schedule.alpha


def test_a_missing_reward_is_not_a_failure(make: Any, fade: Any) -> None:
    maker, groups = make(), [[np.nan, 1, 0, 0]]
    experiences, _ = batch(groups, 0)
    maker.compute_advantages_and_returns(experiences)
    alpha = 1.5 * (1 - (0.49 + 0.02 / 3)) / (0.49 + 0.02 / 3)
    check(experiences, groups, fade(), (alpha, 1.0))


def test_length_penalties_come_first(make: Any, fade: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADE_CONFIG", '{"reward_min": -1}')
    maker, reference = make(penalise=1.0), fade(-1.0, 1.0)
    groups = [[0.75, 0.75, 0, -1]]
    experiences, nats = batch([[1, 1, 0, -1]], 0)
    reference.observe(groups, nats)
    maker.compute_advantages_and_returns(experiences)
    check(experiences, groups, reference, reference.schedule())


def test_dynamic_filtering_holds_the_solve_rate(make: Any) -> None:
    maker = make(filtering=True)
    maker.compute_advantages_and_returns(batch(BATCHES[0], 0)[0])
    assert maker.metrics["fade/p_hat"] == 0.5


@pytest.mark.parametrize("wrong", [{"estimator": "group_norm"}, {"estimator": "gae"}, {"kl": 0.01}])
def test_settings_that_would_change_the_advantages_are_refused(make: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TrainerError, match="set --algo"):
        make(**wrong)


def test_a_kl_loss_is_no_kl_in_the_rewards(make: Any) -> None:
    assert make(kl=0.01, use_loss=True).metrics == {}


def test_the_changed_lines_carry_the_state_through_the_checkpoint(make: Any, added: Any, fade: Any, history: Any) -> None:
    _, log, save, load = added("openrlhf")
    reference, trainer = fade(), SimpleNamespace(experience_maker=make())
    for number, groups in enumerate(BATCHES[:1] * 2):
        experiences, nats = batch(groups, number)
        trainer.experience_maker.compute_advantages_and_returns(experiences)
        reference.observe(groups, nats)
    status: dict[str, Any] = {}
    exec(log, {"self": trainer, "status": status})
    assert status["fade/observations"] == 2
    client_states = {"episode": 0}
    exec(save, {"self": trainer, "client_states": client_states})
    trainer.experience_maker.compute_advantages_and_returns(batch(BATCHES[0], 7)[0])  # the step that the crash loses
    resumed = SimpleNamespace(experience_maker=make())
    exec(load, {"self": resumed, "checkpoint_states": pickle.loads(pickle.dumps(client_states))})
    experiences, nats = batch(BATCHES[0], 8)
    reference.observe(BATCHES[0], nats)
    resumed.experience_maker.compute_advantages_and_returns(experiences)
    check(experiences, BATCHES[0], reference, reference.schedule())
    assert [item.revision for item in history()] == [1, 2, 3]
