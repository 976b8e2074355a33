"""docs/trainers/areal.md on two gloo ranks, each with groups of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.mark.heavy
def test_the_groups_of_all_ranks_are_one_observation_and_its_state_is_in_the_recover_checkpoint(
    server: str, blocks: Any, fade: Any, history: Any, tmp_path: Path
) -> None:
    snippet, folder = tmp_path / "fade_areal.py", tmp_path / "recover_checkpoint"
    snippet.write_text(blocks("areal")[0])
    folder.mkdir()
    environment = {**os.environ, "FADE_CONFIG": '{"reward_min": -1}', "OMP_NUM_THREADS": "1"}
    script = str(Path(__file__).with_name("areal_rank.py"))
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), "2", str(tmp_path / "rendezvous"), str(snippet), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    told = [json.loads(output.splitlines()[-1]) for output in outputs]

    reference = fade(-1.0, 1.0)
    for number in range(3):
        both = [rank["steps"][number] for rank in told]
        nats, tokens = (sum(sum(rank[name]) for rank in both) for name in ("nats", "tokens"))
        reference.observe([group for rank in both for group in rank["groups"]], nats / tokens)
        for rank in both:
            for group, advantages, mask in zip(rank["groups"], rank["advantages"], rank["mask"], strict=True):
                expected = reference.advantages(group, *reference.schedule())[:, None] * np.array(mask)
                np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-7)
    assert reference.schedule()[0] > 1.4

    for rank in told:
        assert rank["classes"] == ["FadeFSDPPPOActor", "FadePPOActor"]
        assert rank["refused"][0].startswith("TrainerError: actor.reward_bias is -0.5")
        assert rank["refused"][1].startswith("TrainerError: actor.kl_ctl is 0.1")
    line = history()
    assert [(item.observation_id, item.trainer_step) for item in line] == [(f"version-{step}", step) for step in range(3)]
    assert list(line[0].groups.scored) == [4, 3, 2, 5]
