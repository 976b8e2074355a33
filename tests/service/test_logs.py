"""What a `fade serve` writes to standard error: a line per event, whose it is, how much of it, and what it never says."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

UNTIL_SECONDS = 20.0
ROWS = ([1.0, 0.0], [0, 0])


class Logged:
    """A server whose log goes into a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._log = folder / "log"
        self.database = folder / "fade.db"
        command = [sys.executable, "-m", "fade_service", "serve", "--grpc-port", "0", "--http-port", "0", *options]
        with self._log.open("wb") as stderr:
            self.process = subprocess.Popen([*command, "--store", f"sqlite:///{self.database}"], stderr=stderr)
        text = self.until(lambda: re.search(r"serving gRPC on (\S+) and HTTP on ([^\s,]+)", self.text()))
        self.address, self.url = text[1], text[2]

    def text(self) -> str:
        """Everything up to now."""
        return self._log.read_text("utf-8")

    def lines(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines that have these values, as JSON."""
        found = [json.loads(line) for line in self.text().splitlines()]
        return [line for line in found if fields.items() <= line.items()]

    def until(self, holds: Callable[[], Any]) -> Any:
        """Waits until it holds; what it gave."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while not (found := holds()):
            assert self.process.poll() is None and time.monotonic() < deadline, self.text()
            time.sleep(0.05)
        return found

    def line(self, **fields: Any) -> dict[str, Any]:
        """Waits for the one line that has these values."""
        (line,) = self.until(lambda: self.lines(**fields))
        assert isinstance(line, dict)
        return line

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Callable[..., Logged]]:
    """Starts servers; by default they log JSON."""
    started: list[Logged] = []

    def start(*options: str) -> Logged:
        started.append(Logged(tmp_path, *(options or ("--log-format", "json"))))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def refused(client: Any, request: Any, *metadata: tuple[str, str]) -> str:
    """Sends a report that is refused; the id under which the refusal can be found."""
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Observe(request, timeout=10, metadata=metadata)
    told = dict(caught.value.trailing_metadata())
    assert isinstance(told["x-request-id"], str)
    return told["x-request-id"]


def test_every_line_is_json_with_its_time_level_and_logger(logged: Any, connect: Any) -> None:
    server = logged()
    client = connect("r", at=server.address)
    client.create()
    created = server.line(logger="fade.audit", method="CreateRun")
    assert created["outcome"] == "OK" and created["changed"]["config.alpha"] == [None, 1.0], "fields, and no text of JSON in JSON"
    for line in server.lines():
        assert line["level"] in ("debug", "info", "warning", "error") and line["logger"].startswith("fade")
        age = datetime.now(timezone.utc) - datetime.fromisoformat(line["time"])
        assert timedelta(0) <= age < timedelta(minutes=5)
    assert server.line(event="store")["serves"] is True


def test_a_refusal_is_one_line_with_the_id_that_the_caller_gave_and_gets_back(logged: Any, connect: Any) -> None:
    server = logged()
    first, second = (connect("r", at=server.address, writer=writer) for writer in ("first", "second"))
    first.create()
    first.observe("b1", *ROWS)
    assert refused(second, second.report("b2", *ROWS), ("x-request-id", "trainers-own-call")) == "trainers-own-call"
    line = server.line(event="call")
    assert (line["method"], line["outcome"], line["level"]) == ("Observe", "WRITER_FENCED", "info")
    assert (line["name"], line["observation_id"], line["writer"]) == (second.name, "b2", "second")
    assert line["request_id"] == "trainers-own-call" and line["milliseconds"] > 0


def test_calls_without_an_id_get_one_each(logged: Any, connect: Any) -> None:
    server = logged()
    client = connect("r", at=server.address)
    client.create()
    made = [refused(client, client.report(f"b{number}", [7.0], [0])) for number in range(5)]
    assert len(set(made)) == 5
    lines = server.until(lambda: found if len(found := server.lines(event="call")) == 5 else None)
    assert [line["request_id"] for line in lines] == made
    assert {line["field"] for line in lines} == {"rows.rewards[0]"}
    long = refused(client, client.report("b", [7.0], [0]), ("x-request-id", "i" * 1000))
    assert long == "i" * 128


def test_a_failure_is_one_line_with_its_traceback_and_the_id_of_its_call(logged: Any, connect: Any) -> None:
    server = logged()
    client = connect("r", at=server.address)
    client.create()
    with sqlite3.connect(server.database) as other:
        other.execute("UPDATE runs SET head = x'ff', version = version + 1")
    other.close()
    with pytest.raises(grpc.RpcError) as caught:
        client.get()
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    line = server.line(event="call", level="error")
    assert (line["method"], line["outcome"], line["name"]) == ("GetRun", "INTERNAL", client.name)
    assert "Traceback" in line["exception"] and "DecodeError" in line["exception"]
    assert line["request_id"] == dict(caught.value.trailing_metadata())["x-request-id"]


def test_levels_are_per_module_and_what_a_call_does_has_its_id(logged: Any, connect: Any) -> None:
    levels = ("--log-level", "warning", "--log-level", "fade_service.store=debug", "--log-level", "fade_service.rpc=debug")
    server = logged("--log-format", "json", "--log-level", "fade_service.cli=info", *levels)
    client = connect("r", at=server.address)
    client.create()
    client.stub.Observe(client.report("b1", *ROWS), timeout=10, metadata=(("x-request-id", "mine"),))
    call = server.line(event="call", method="Observe")
    assert (call["outcome"], call["level"], call["request_id"]) == ("OK", "debug", "mine")
    operations = server.lines(event="operation", request_id="mine")
    assert "commit" in [line["op"] for line in operations] and {line["outcome"] for line in operations} == {"OK"}
    assert {line["logger"].rpartition(".")[0] for line in server.lines(level="debug")} == {
        "fade_service.rpc",
        "fade_service.store",
    }
    assert not server.lines(logger="fade.audit") and not server.lines(logger="fade_service.server")


def test_calls_that_are_answered_leave_no_line_by_default(logged: Any, connect: Any) -> None:
    server = logged()
    client = connect("r", at=server.address)
    client.create()
    for number in range(3):
        client.observe(f"b{number}", *ROWS)
    refused(client, client.report("b9", [7.0], [0]))
    server.line(event="call", outcome="INVALID_FIELD")
    assert {line.get("event") for line in server.lines()} == {None, "store", "call"}
    assert len(server.lines(event="call")) == 1


def test_what_callers_send_stands_in_no_line(logged: Any, connect: Any) -> None:
    server = logged("--log-format", "json", "--log-level", "debug")
    client = connect("r", at=server.address)
    client.create()
    report = client.report("b1", [0.123454321, 0.0], [0, 0], 0.6543454)
    report.groups.labels.extend(["a prompt of theirs"])
    client.send(report)
    refused(client, client.report("b2", [76.54567, 0.0], [0, 0]))
    refused(client, client.report("b" * 129, *ROWS))
    server.line(event="call", outcome="INVALID_FIELD", observation_id="b2")
    text = server.text()
    for sent in ("123454321", "6543454", "prompt", "76.54567"):
        assert sent not in text
    refused(client, client.report("b" * 10_000, *ROWS))
    server.until(lambda: "b" * 200 in server.text())
    assert "b" * 201 not in server.text()


def test_a_store_that_goes_away_and_comes_back_is_told_once_each(logged: Any) -> None:
    server = logged()
    other = sqlite3.connect(server.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    away = server.line(event="store", serves=False)
    assert away["level"] == "warning" and "locked" in away["problem"]
    time.sleep(3)  # the server looks every two seconds
    other.execute("ROLLBACK")
    other.close()
    server.until(lambda: len(server.lines(event="store", serves=True)) == 2)
    assert len(server.lines(event="store", serves=False)) == 1


def test_http_requests_have_ids_too(logged: Any, connect: Any) -> None:
    server = logged("--log-format", "json", "--log-level", "fade_service=debug")
    client = connect("r", at=server.address)
    client.create()
    given = httpx.get(f"{server.url}/api/v1/runs/test/r", headers={"X-Request-Id": "mine"}, params={"secret": "hidden"})
    assert given.headers["x-request-id"] == "mine"
    line = server.line(event="request", request_id="mine")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/runs/test/r", 200)
    assert [line["op"] for line in server.lines(event="operation", request_id="mine")] == ["get_run"]
    made = [httpx.get(f"{server.url}/healthz").headers["x-request-id"] for _ in range(2)]
    assert made[0] != made[1]
    assert "hidden" not in server.text()


def test_text_has_the_same_for_people(logged: Any, connect: Any) -> None:
    server = logged("--log-format", "text")
    client = connect("r", at=server.address)
    client.create()
    refused(client, client.report("b1", [7.0], [0]), ("x-request-id", "mine"))
    (line,) = server.until(lambda: [line for line in server.text().splitlines() if "INVALID_FIELD" in line])
    found = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO fade_service\.rpc\.methods mine: (\{.*\})", line)
    assert found and json.loads(found[1])["observation_id"] == "b1"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--log-level", "loud"), "log level 'loud' is not known; give debug, info, warning, error, or LOGGER=LEVEL"),
        (("--log-level", "fade_service.stores=debug"), "there is no logger 'fade_service.stores'; there are fade"),
    ],
)
def test_a_level_or_logger_that_there_is_not_is_a_usage_error(options: tuple[str, ...], problem: str) -> None:
    command = [sys.executable, "-m", "fade_service", "serve", "--store", "memory://", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fade serve: {problem}") and done.stderr.count("\n") == 1
