"""Two gloo ranks, one report: value and exception come out on both."""

import json
import subprocess
import sys
from pathlib import Path

RANK = """
import json, os, sys
import torch.distributed as dist
from fade_client import FadeClient, RejectedError, RunConfig, SettingsError

rank, rendezvous = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
client = FadeClient.local(RunConfig(ema_weight=1.0))
told = {}

def observe(name, rewards, group):
    try:
        schedule = client.observe(name, rewards=rewards, groups=["g"] * len(rewards), process_group=group)
        told[name] = [schedule.alpha, schedule.advantages([1.0, 0, 0, 0], ["g"] * 4).tolist(), schedule.metrics()]
    except Exception as error:
        told[name] = [type(error).__name__, str(error), getattr(error, "row", None)]

observe("refused", [0.0, 7.0] if rank == 0 else [1.0, 0.0], True)  # the first observation raises, on every rank
observe("good", [1.0, 0, 0, 0] if rank == 0 else ["what the others pass", "is not read"], "world")
both = dist.new_group([0, 1])
observe("own group", [1.0, 1, 1, 0] if rank == 0 else [], both)
told["revision"] = client.state_dict()["revision"]
saved = [client.state_dict() if rank == 0 else None]
dist.broadcast_object_list(saved)
client.load_state_dict(saved[0], process_group=both)
second = dist.new_group([1])
observe("outside" if rank == 0 else "alone", [1.0, 1, 0, 0], second)
print(json.dumps(told))
dist.barrier()
dist.destroy_process_group()
"""


def test_every_rank_gets_the_first_ranks_schedule_or_exception(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "rendezvous")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=50)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    first, second = (json.loads(output.splitlines()[-1]) for output in outputs)
    assert first["refused"] == second["refused"]
    assert first["refused"][0] == "RejectedError" and first["refused"][2] == 1
    assert first["good"] == second["good"] and first["good"][0] == 3.0  # p_hat 1/4
    assert first["own group"] == second["own group"] and first["own group"][0] == 1.0
    assert (first["revision"], second["revision"]) == (2, 0)  # only the first rank has moved
    assert first["outside"][0] == "SettingsError"
    assert second["alone"][0] == 1.5
