"""`python tests/service/store/files/make.py`: writes v{N}.db and v{N}.json, N the schema version of the code that runs it.

The database is what a server left that took some reports. The JSON beside it holds what that server told of each run (`told`),
the reports with its answers (`answered`), and how it answered the reports after those, on a copy of the file (`next`); messages
are base64. Older files stay as they were made: they are what an upgrade meets.
"""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from fade_proto.v1.run_pb2 import HistoryPoint, Run, RunConfig
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CreateRunRequest,
    GetRunRequest,
    ListObservationsRequest,
    ObserveRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

FILES = Path(__file__).parent
PARENT = "projects/files"
ENVIRONMENTS = {"plain": ("",), "mixed": ("code", "math"), "branched": ("",), "completed": ("",)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fade.db")
        with FadeServer(f"sqlite:///{path}", grpc_port=0, http_port=0) as server:
            stub = _stub(server)
            answered = _filled(stub)
            told = {run: _told(stub, run) for run in ENVIRONMENTS}
        copy = shutil.copy(path, Path(folder, "copy.db"))
        with FadeServer(f"sqlite:///{copy}", grpc_port=0, http_port=0) as server:
            after = [_answered(_stub(server), _report(run, 8, branch)) for run, branch in _LINES[:3]]
        with sqlite3.connect(path) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.close()
        shutil.copy(path, FILES / f"v{version}.db")
    content = {"told": told, "answered": answered, "next": after}
    (FILES / f"v{version}.json").write_text(json.dumps(content, indent=1) + "\n")


_LINES = (("plain", "main"), ("mixed", "main"), ("branched", "second"), ("completed", "main"))


def _filled(stub: SchedulerServiceStub) -> list[list[str]]:
    """Reports to four runs, with their answers."""
    for run in ENVIRONMENTS:
        config = RunConfig(ema_weight=0.25, entropy_warmup=2)
        stub.CreateRun(CreateRunRequest(parent=PARENT, run_id=run, run=Run(config=config)))
    answered = [_answered(stub, _report(run, number, "main")) for run in ENVIRONMENTS for number in range(5)]
    name = f"{PARENT}/runs/branched"
    update = UpdateRunRequest(run=Run(name=name, config=RunConfig(alpha_max=2.0)), reason="for the second half")
    update.update_mask.paths.append("config.alpha_max")
    stub.UpdateRun(update)
    point = HistoryPoint(branch="main", revision=2)
    stub.RestoreRun(RestoreRunRequest(name=name, writer="second", branch_id="second", point=point))
    answered += [_answered(stub, _report("branched", number, "second")) for number in range(2, 6)]
    stub.CompleteRun(CompleteRunRequest(name=f"{PARENT}/runs/completed"))
    return answered


def _report(run: str, number: int, branch: str) -> ObserveRequest:
    request = ObserveRequest(
        name=f"{PARENT}/runs/{run}",
        branch=branch,
        observation_id=f"batch-{number}",
        writer="second" if branch == "second" else "first",
        trainer_step=number,
    )
    request.rows.rewards.extend(float((number * 7 + row * row) % 3 == 0) for row in range(12))
    request.rows.group_index.extend(row // 3 for row in range(12))
    request.groups.count = 4
    names = ENVIRONMENTS[run]
    if names != ("",):
        request.groups.environments.extend(names[group % 2] for group in range(4))
    request.entropy.sum_nats, request.entropy.token_count = 11.0 / (number + 3), 7
    return request


def _answered(stub: SchedulerServiceStub, report: ObserveRequest) -> list[str]:
    return [_text(report), _text(stub.Observe(report, timeout=10))]


def _told(stub: SchedulerServiceStub, run: str) -> dict[str, Any]:
    name = f"{PARENT}/runs/{run}"
    shown = stub.GetRun(GetRunRequest(name=name))
    lines = {
        branch.id: stub.ListObservations(ListObservationsRequest(parent=name, branch=branch.id, page_size=1000)).observations
        for branch in shown.branches
    }
    return {"run": _text(shown), "history": {branch: [_text(item) for item in line] for branch, line in lines.items()}}


def _text(message: Message) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


def _stub(server: FadeServer) -> SchedulerServiceStub:
    return SchedulerServiceStub(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))


if __name__ == "__main__":
    main()
