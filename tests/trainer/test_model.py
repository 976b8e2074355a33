"""The policy: sampling and training see the same distribution."""

from __future__ import annotations

import pytest
import torch

from fade_trainer.model import PrefixLM
from fade_trainer.rules import TASKS
from fade_trainer.task import make_countdown


@pytest.fixture(scope="module")
def model() -> PrefixLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        made = PrefixLM(TASKS["countdown"])
        torch.nn.init.normal_(made.position_embedding)
        return made


@pytest.fixture(scope="module")
def prompts() -> torch.Tensor:
    return torch.from_numpy(make_countdown("countdown", 0, 20, 1).training)


def test_log_probabilities_of_sampling_are_those_of_training(model: PrefixLM, prompts: torch.Tensor) -> None:
    rollouts = model.sample(prompts, 8, torch.Generator().manual_seed(0))
    logits = model(prompts, rollouts.answers).detach().double()
    chosen = torch.distributions.Categorical(logits=logits)
    inside = rollouts.mask
    assert 300 < int(inside.sum())
    torch.testing.assert_close(rollouts.logprobs[inside].double(), chosen.log_prob(rollouts.answers)[inside], atol=2e-5, rtol=0)
    torch.testing.assert_close(rollouts.entropy[inside].double(), chosen.entropy()[inside], atol=2e-5, rtol=0)
    assert not rollouts.logprobs[~inside].any() and not rollouts.entropy[~inside].any()


def test_the_mask_ends_with_the_first_end(model: PrefixLM, prompts: torch.Tensor) -> None:
    rollouts = model.sample(prompts, 8, torch.Generator().manual_seed(1))
    for answer, mask in zip(rollouts.answers.flatten(0, 1).tolist(), rollouts.mask.flatten(0, 1).tolist(), strict=True):
        length = answer.index(13) + 1 if 13 in answer else 8
        assert mask == [True] * length + [False] * (8 - length)
        assert set(answer[length:]) <= {13}


def test_answers_are_drawn_from_the_distribution(model: PrefixLM, prompts: torch.Tensor) -> None:
    one = prompts[:1]
    drawn = model.sample(one, 20_000, torch.Generator().manual_seed(2)).answers[0, :, 0]
    expected = model(one, drawn[None, :1, None].expand(1, 1, 8)).detach()[0, 0, 0].softmax(dim=-1)
    seen = torch.bincount(drawn, minlength=14) / 20_000
    assert float((seen - expected).abs().max()) < 0.02  # five standard deviations of a share near one half


def test_a_token_depends_on_the_prompt_and_on_earlier_tokens_only(model: PrefixLM, prompts: torch.Tensor) -> None:
    answers = torch.randint(13, (20, 2, 8), generator=torch.Generator().manual_seed(3))
    before = model(prompts, answers)
    changed = answers.clone()
    changed[:, :, 4] = (answers[:, :, 4] + 1) % 13
    moved = (model(prompts, changed) != before).any(dim=-1)
    assert not moved[:, :, :5].any() and moved[:, :, 5:].all()
    other = prompts.clone()
    other[0, 4] = other[0, 4] % 60 + 1
    moved = (model(other, answers) != before).any(dim=-1)
    assert moved[0].all() and not moved[1:].any()
