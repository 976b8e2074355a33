"""What the TRL tests train: a policy of one layer over 25 characters, and a reward that a completion can earn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig

torch.set_num_threads(1)

PROMPTS = ["1+1=", "2+2=", "3+3=", "4+4="]
LETTERS = ["<pad>", "<eos>", *"0123456789+= abcdefghij"]


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({letter: place for place, letter in enumerate(LETTERS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(LETTERS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        eos_token_id=1,
        pad_token_id=0,
    )
    return Qwen2ForCausalLM(config)


def reward(completions: list[str], **_: Any) -> list[float | None]:
    """1 where a completion has an even digit among its first two letters."""
    return [float(any(letter in "02468" for letter in text.replace(" ", "")[:2])) for text in completions]


def arguments(folder: Path, **more: Any) -> GRPOConfig:
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "save_strategy": "no",
        "max_steps": 4,
        "per_device_train_batch_size": 16,
        "num_generations": 8,
        "max_completion_length": 8,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "beta": 0.0,
        "seed": 0,
        "disable_tqdm": True,
        "scale_rewards": "none",
    }
    return GRPOConfig(**{**values, **more})


def trainer(kind: Any, folder: Path, *, rewards: Any = reward, fade: Any = None, **more: Any) -> Any:
    """A trainer of that class, not yet run; ``fade`` is passed on where it is given."""
    return kind(
        model=model(),
        reward_funcs=rewards,
        args=arguments(folder, **more),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        processing_class=tokenizer(),
        **({} if fade is None else {"fade": fade}),
    )
