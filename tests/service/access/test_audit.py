"""The audit log: who changed what, from where, and how it ended."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
from tests.service.access.parts import Papers, Place, bearer, secret

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CreateRunRequest,
    DeleteRunRequest,
    GetRunRequest,
    ObserveRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_service import FadeServer

ADMIN = {"timeout": 10, "metadata": bearer(secret("lab-admin"))}


class Log:
    """The lines of the audit log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def lines(self) -> list[dict[str, Any]]:
        """New ones, oldest first."""
        found = [record.getMessage() for record in self._caplog.records if record.name == "fade.audit"]
        self._caplog.clear()
        assert not any("\n" in line for line in found)
        return [json.loads(line) for line in found]

    def line(self) -> dict[str, Any]:
        """The one new line, without its time and peer, which are checked here."""
        (line,) = self.lines()
        age = datetime.now(timezone.utc) - datetime.fromisoformat(line.pop("time"))
        assert timedelta(minutes=-1) < age < timedelta(minutes=1)
        assert line.pop("peer").startswith("ipv4:127.0.0.1:")
        return line


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    caplog.set_level(logging.INFO, "fade.audit")
    return Log(caplog)


def update(name: str, reason: str = "", **config: Any) -> UpdateRunRequest:
    """Sets these fields."""
    request = UpdateRunRequest(run=run_pb2.Run(name=name, config=run_pb2.RunConfig(**config)), reason=reason)
    request.update_mask.paths.extend(f"config.{name}" for name in config)
    return request


def test_a_runs_life_is_told_with_what_changed(guarded: Place, log: Log) -> None:
    name = "projects/lab/runs/audited"
    common = {"token": "lab-admin", "run": name, "outcome": "OK"}
    with guarded.stub() as stub:
        config = run_pb2.RunConfig(alpha_max=2.5)
        run = stub.CreateRun(CreateRunRequest(parent="projects/lab", run_id="audited", run=run_pb2.Run(config=config)), **ADMIN)
        line = log.line()
        assert line["changed"].pop("uid") == [None, run.uid] and line["changed"]["config.alpha_max"] == [None, 2.5]
        assert {key: line[key] for key in common} == common and line["method"] == "CreateRun"

        stub.CreateRun(CreateRunRequest(parent="projects/lab", run_id="audited"), **ADMIN)
        assert log.line() == {"method": "CreateRun", **common}  # joined: nothing changed

        stub.UpdateRun(update(name, 'too "wild"', alpha_max=2.0, mode=observation_pb2.MODE_PINNED, pinned_alpha=1.5), **ADMIN)
        assert log.line() == {
            "method": "UpdateRun",
            **common,
            "reason": 'too "wild"',
            "changed": {
                "config_revision": ["1", "2"],
                "config.alpha_max": [2.5, 2.0],
                "config.mode": ["MODE_ACTIVE", "MODE_PINNED"],
                "config.pinned_alpha": [1.0, 1.5],
            },
        }
        stub.UpdateRun(update(name, alpha_max=2.0), **ADMIN)
        assert log.line() == {"method": "UpdateRun", **common}

        for number in range(3):
            request = ObserveRequest(name=name, observation_id=f"b{number}", writer="w")
            request.rows.rewards.extend([1.0, 0.0])
            request.rows.group_index.extend([0, 0])
            request.groups.count = 1
            stub.Observe(request, **ADMIN)
        point = run_pb2.HistoryPoint(revision=1)
        stub.RestoreRun(RestoreRunRequest(name=name, writer="w2", branch_id="again", point=point), **ADMIN)
        assert log.line() == {
            "method": "RestoreRun", **common, "changed": {"branch": ["main", "again"], "revision": ["3", "1"]},
        }  # fmt: skip
        stub.CompleteRun(CompleteRunRequest(name=name), **ADMIN)
        assert log.line() == {"method": "CompleteRun", **common, "changed": {"state": ["STATE_ACTIVE", "STATE_COMPLETED"]}}

        stub.DeleteRun(DeleteRunRequest(name=name), **ADMIN)
        line = log.line()
        assert line["changed"]["uid"] == [run.uid, None] and line["changed"]["revision"] == ["1", None]
        assert line["changed"]["config.alpha_max"] == [2.0, None] and line["method"] == "DeleteRun"


def test_what_was_refused_is_told_with_its_reason(guarded: Place, log: Log) -> None:
    with guarded.stub() as stub:
        for name, request, token, reason, run in (
            ("UpdateRun", update("projects/lab/runs/r", reward_max=9.0), "lab-admin", "FIELD_NOT_LIVE", "projects/lab/runs/r"),
            (
                "DeleteRun",
                DeleteRunRequest(name="projects/lab/runs/r", etag="x"),
                "lab-admin",
                "ETAG_MISMATCH",
                "projects/lab/runs/r",
            ),
            (
                "DeleteRun",
                DeleteRunRequest(name="projects/lab/runs/none"),
                "lab-admin",
                "RUN_NOT_FOUND",
                "projects/lab/runs/none",
            ),
            ("DeleteRun", DeleteRunRequest(name="projects/lab/runs/r"), "other-admin", "PROJECT_DENIED", "projects/lab/runs/r"),
            ("DeleteRun", DeleteRunRequest(name="x" * 10**6), "lab-admin", "INVALID_FIELD", "x" * 1000),
            ("DeleteRun", DeleteRunRequest(name="projects/lab/runs/r"), "lab-write", "ROLE_TOO_LOW", None),
        ):
            with pytest.raises(grpc.RpcError):
                getattr(stub, name)(request, timeout=10, metadata=bearer(secret(token)))
            line = log.line()
            assert (line["method"], line["token"], line["outcome"], line.get("run")) == (name, token, reason, run)
            assert "changed" not in line
        assert stub.GetRun(GetRunRequest(name="projects/lab/runs/r"), **ADMIN).config_revision == 1


def test_calls_that_change_nothing_and_unknown_callers_write_no_line(guarded: Place, log: Log) -> None:
    with guarded.stub() as stub:
        request = update("projects/lab/runs/r", alpha_max=2.0)
        request.validate_only = True
        stub.UpdateRun(request, **ADMIN)
        stub.GetRun(GetRunRequest(name="projects/lab/runs/r"), **ADMIN)
        with pytest.raises(grpc.RpcError):
            stub.DeleteRun(DeleteRunRequest(name="projects/lab/runs/r"), timeout=10)
    assert log.lines() == []


def test_the_subject_of_the_certificate_is_told(sealed: Place, trainer_papers: Papers, log: Log) -> None:
    with sealed.stub(trainer_papers) as stub:
        stub.CompleteRun(CompleteRunRequest(name="projects/other/runs/r"), timeout=10, metadata=bearer(secret("all-admin")))
    line = log.line()
    assert (line["token"], line["subject"]) == ("all-admin", "trainer.lab.example")


def test_a_server_that_asks_for_nothing_tells_what_it_knows(server: FadeServer, connect: Any, log: Log) -> None:
    client = connect()
    client.create()
    line = log.line()
    assert (line["method"], line["run"], line["outcome"]) == ("CreateRun", client.name, "OK") and "token" not in line
