"""The policy: a two-layer prefix language model of 0.1 M parameters.

Prompt positions see each other both ways; answer positions see the prompt and the answer so far. The prompt is worked
through once for all of its rollouts, in training as in sampling.

Shape letters: P prompts, R rollouts per prompt, T answer tokens, H heads, D width per head, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fade_trainer.rules import Rules
from fade_trainer.task import ANSWER_LENGTH, PROMPT_LENGTH, SLOTS

WIDTH = 64
HEADS = 2
LAYERS = 2
HEAD_WIDTH = WIDTH // HEADS

KeysValues = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Answers sampled for a batch of prompts."""

    answers: Tensor
    """[P, R, 8] int64 tokens, nothing but the end after the first end."""

    mask: Tensor
    """[P, R, 8] bool: generated tokens, the first end included, nothing after it."""

    logprobs: Tensor
    """[P, R, 8] float32: log-probability of each token when it was sampled, in nats; 0 outside the mask."""

    entropy: Tensor
    """[P, R, 8] float32: entropy of the distribution that each token was drawn from, in nats; 0 outside the mask."""


def answer_mask(answers: Tensor, end: int) -> Tensor:
    """[..., 8] tokens -> [..., 8] bool: up to and including the first `end`."""
    ends = (answers == end).int()
    return ends.cumsum(dim=-1) - ends == 0


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.mlp_in = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_out = nn.Linear(4 * WIDTH, WIDTH)

    def project(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[P, ..., 64] -> queries, keys, values [P, H, ..., D]; the queries come scaled by 1 / sqrt(D)."""
        merged: Tensor = self.query_key_value(self.attention_norm(hidden))
        query, key, value = merged.view(*merged.shape[:-1], 3, HEADS, HEAD_WIDTH).movedim(-2, 1).unbind(dim=-2)
        return query / math.sqrt(HEAD_WIDTH), key, value

    def finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Residual [P, ..., 64] and attended values [P, H, ..., D] -> the block's output [P, ..., 64]."""
        hidden = hidden + self.attention_out(attended.movedim(1, -2).flatten(-2))
        out: Tensor = hidden + self.mlp_out(functional.relu(self.mlp_in(self.mlp_norm(hidden)), inplace=True))
        return out

    def read_prompt(self, hidden: Tensor) -> tuple[Tensor, KeysValues]:
        """[P, 5, 64] -> the same, with the keys and values [P, H, 5, D] that answers attend to."""
        query, key, value = self.project(hidden)
        weights = (query @ key.transpose(-1, -2)).softmax(dim=-1)
        return self.finish(hidden, weights @ value), (key, value)

    def read_answers(self, hidden: Tensor, prompt: KeysValues, causal: Tensor) -> Tensor:
        """All positions at once: [P, R, T, 64], with `causal` [T, T] holding -inf where a position may not look."""
        query, key, value = self.project(hidden)
        on_prompt = (query.flatten(2, 3) @ prompt[0].transpose(-1, -2)).view(*query.shape[:4], PROMPT_LENGTH)
        on_answer = query @ key.transpose(-1, -2) + causal
        weights = torch.cat([on_prompt, on_answer], dim=-1).softmax(dim=-1)
        to_prompt, to_answer = weights[..., :PROMPT_LENGTH], weights[..., PROMPT_LENGTH:]
        attended = (to_prompt.flatten(2, 3) @ prompt[1]).view_as(query) + to_answer @ value
        return self.finish(hidden, attended)

    def read_token(self, hidden: Tensor, prompt: KeysValues, cache: KeysValues, position: int) -> Tensor:
        """One more position: [P, R, 64], writing its key and value at `position` of the cache [P, H, R, T, D]."""
        query, key, value = self.project(hidden)
        cache[0][:, :, :, position], cache[1][:, :, :, position] = key, value
        keys, values = (part[:, :, :, : position + 1] for part in cache)
        on_prompt = query @ prompt[0].transpose(-1, -2)
        on_answer = (query.unsqueeze(3) * keys).sum(dim=-1)
        weights = torch.cat([on_prompt, on_answer], dim=-1).softmax(dim=-1)
        to_prompt, to_answer = weights[..., :PROMPT_LENGTH], weights[..., PROMPT_LENGTH:]
        attended = to_prompt @ prompt[1] + (to_answer.unsqueeze(-1) * values).sum(dim=3)
        return self.finish(hidden, attended)


class PrefixLM(nn.Module):
    """Embeddings, two blocks, and a head of its own (not tied to the embeddings)."""

    causal: Tensor

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules
        self.slot_embedding = nn.Embedding(rules.number_max + 1, WIDTH)
        self.target_embedding = nn.Embedding(rules.target_max + 1, WIDTH)
        self.token_embedding = nn.Embedding(rules.vocabulary_size, WIDTH)
        self.position_embedding = nn.Parameter(torch.zeros(PROMPT_LENGTH + ANSWER_LENGTH - 1, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, rules.vocabulary_size)
        inputs = ANSWER_LENGTH - 1
        self.register_buffer("causal", torch.full((inputs, inputs), -math.inf).triu(diagonal=1), persistent=False)

    def forward(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Logits [P, R, 8, V] of every answer token given the prompt and the tokens before it.

        Args:
            prompts: [P, 5] int64.
            answers: [P, R, 8] int64; the last token is predicted but not read.
        """
        first, prompt_cache = self._read_prompts(prompts)
        hidden = self.token_embedding(answers[:, :, :-1]) + self.position_embedding[PROMPT_LENGTH:]
        for block, prompt in zip(self.blocks, prompt_cache, strict=True):
            assert isinstance(block, Block)
            hidden = block.read_answers(hidden, prompt, self.causal)
        hidden = torch.cat([first[:, None, None].expand(-1, answers.shape[1], 1, -1), hidden], dim=2)
        logits: Tensor = self.head(self.head_norm(hidden))
        return logits

    def logprobs(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Log-probability in nats of every answer token, [P, R, 8]; meaningless after the first end."""
        logits = self(prompts, answers)
        chosen: Tensor = logits.gather(-1, answers.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)
        return chosen

    @torch.no_grad()
    def sample(self, prompts: Tensor, rollouts: int, generator: torch.Generator) -> Rollouts:
        """Draws answers to each prompt [P, 5] at temperature 1, one token at a time with cached keys and values."""
        first, prompt_cache = self._read_prompts(prompts)
        end = self.rules.end
        shape = (len(prompts), rollouts)
        answers = torch.full((*shape, ANSWER_LENGTH), end)
        logprobs, entropy = torch.zeros(2, *shape, ANSWER_LENGTH)
        going = torch.ones(shape, dtype=torch.bool)
        cache = [torch.empty(2, len(prompts), HEADS, rollouts, ANSWER_LENGTH - 1, HEAD_WIDTH) for _ in self.blocks]
        uniform = torch.rand(ANSWER_LENGTH, *shape, 1, generator=generator)
        hidden = first[:, None].expand(-1, rollouts, -1)
        for position in range(ANSWER_LENGTH):
            logs = self.head(self.head_norm(hidden)).log_softmax(dim=-1)
            probabilities = logs.exp()
            drawn = (probabilities.cumsum(dim=-1) <= uniform[position]).sum(dim=-1)
            drawn = torch.where(going, drawn.clamp(max=self.rules.vocabulary_size - 1), end)
            answers[:, :, position] = drawn
            logprobs[:, :, position] = logs.gather(-1, drawn.unsqueeze(-1)).squeeze(-1) * going
            entropy[:, :, position] = -(probabilities * logs).sum(dim=-1) * going
            going &= drawn != end
            if position == ANSWER_LENGTH - 1 or not going.any():
                break
            hidden = self.token_embedding(drawn) + self.position_embedding[PROMPT_LENGTH + position]
            for block, prompt, (keys, values) in zip(self.blocks, prompt_cache, cache, strict=True):
                assert isinstance(block, Block)
                hidden = block.read_token(hidden, prompt, (keys, values), position)
        return Rollouts(answers, answer_mask(answers, end), logprobs, entropy)

    def _read_prompts(self, prompts: Tensor) -> tuple[Tensor, list[KeysValues]]:
        """[P, 5] -> the last position's output [P, 64], and each block's keys and values."""
        embedded = torch.cat([self.slot_embedding(prompts[:, :SLOTS]), self.target_embedding(prompts[:, SLOTS:])], dim=1)
        hidden = embedded + self.position_embedding[:PROMPT_LENGTH]
        cache: list[KeysValues] = []
        for block in self.blocks:
            assert isinstance(block, Block)
            hidden, keys_values = block.read_prompt(hidden)
            cache.append(keys_values)
        return hidden[:, -1], cache
