"""Files of every schema version that there was (files/make.py), opened by this one."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from fade_proto.v1.observation_pb2 import Observation
from fade_proto.v1.run_pb2 import Run
from fade_proto.v1.scheduler_pb2 import ObserveRequest, ObserveResponse
from fade_service import FadeServer
from fade_service.errors import StoreUnavailableError
from fade_service.store import SqliteStore, migrations

FILES = sorted(Path(__file__).with_name("files").glob("v*.db"))

Kind = TypeVar("Kind", bound=Message)


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of an old file, and what the server that left it said."""
    path = tmp_path / "fade.db"
    shutil.copy(request.param, path)
    return path, json.loads(request.param.with_suffix(".json").read_text())


def version(path: Path) -> int:
    """The schema version in a file."""
    connection = sqlite3.connect(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


def parsed(kind: type[Kind], text: str) -> Kind:
    return kind.FromString(base64.b64decode(text))


def shows(now: Message, then: Message) -> bool:
    """Whether a message says all that the old one said, bit for bit; newer servers may say more. The etag is left out: it covers
    fields of the configuration that came later."""

    def covers(whole: Any, part: Any) -> bool:
        if isinstance(part, dict):
            return all(key in whole and covers(whole[key], value) for key, value in part.items() if key != "etag")
        if isinstance(part, list):
            return len(whole) == len(part) and all(map(covers, whole, part))
        return bool(whole == part)

    return covers(MessageToDict(now), MessageToDict(then))


def test_there_is_a_file_of_each_version() -> None:
    assert sorted(version(path) for path in FILES) == list(range(1, migrations.SCHEMA_VERSION + 1))


def test_an_old_file_shows_every_run_and_history_and_goes_on_bit_for_bit(
    old: tuple[Path, dict[str, Any]], connect: Callable[..., Any]
) -> None:
    path, then = old
    with FadeServer(f"sqlite:///{path}", grpc_port=0, http_port=0) as server:
        for run, told in then["told"].items():
            client = connect(run, at=f"127.0.0.1:{server.grpc_port}")
            client.name = f"projects/files/runs/{run}"
            assert shows(client.get(), parsed(Run, told["run"]))
            for branch, line in told["history"].items():
                history = client.history(branch)
                assert len(history) == len(line) > 0
                assert all(shows(now, parsed(Observation, text)) for now, text in zip(history, line, strict=True))
        for report, answer in then["answered"]:
            request = parsed(ObserveRequest, report)
            if "/completed" not in request.name and (request.branch != "main" or "/branched" not in request.name):
                response, replayed = client.send(request)
                assert replayed and response == parsed(ObserveResponse, answer)
        for report, answer in then["next"]:
            response, replayed = client.send(parsed(ObserveRequest, report))
            assert not replayed and shows(response, parsed(ObserveResponse, answer))
    assert version(path) == migrations.SCHEMA_VERSION


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fade.db"
    shutil.copy(FILES[0], path)
    before = version(path)
    with monkeypatch.context() as patch:
        steps = (*migrations.STEPS, ("CREATE TABLE half (x)", "CREATE TABLE half (x)"))
        patch.setattr(migrations, "STEPS", steps)
        patch.setattr(migrations, "SCHEMA_VERSION", len(steps))
        with pytest.raises(StoreUnavailableError, match="half already exists"):
            SqliteStore(path)
    assert version(path) == before
    tables = sqlite3.connect(path)
    assert tables.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)
    tables.close()
    SqliteStore(path).close()
    assert version(path) == migrations.SCHEMA_VERSION
