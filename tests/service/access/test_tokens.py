"""Tokens: the file, its reload, the comparison, and that no token is ever told."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.service.access.parts import TOKENS, Place, bearer, make_server, secret, tokens_json, with_runs

from fade_proto.v1.scheduler_pb2 import GetRunRequest
from fade_service.access import tokens as tokens_module
from fade_service.access.policy import Access
from fade_service.access.tokens import Tokens
from fade_service.cli import main

LAB = GetRunRequest(name="projects/lab/runs/r")


def until(check: Callable[[], bool]) -> None:
    """Waits for what must come."""
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


@pytest.fixture
def from_file(tmp_path: Path) -> Iterator[tuple[Place, Path]]:
    """A server with a tokens file."""
    path = tmp_path / "tokens.json"
    path.write_text(tokens_json())
    with make_server(Access(tokens=Tokens(path))) as server:
        yield with_runs(server), path


def lets_in(place: Place, name: str) -> bool:
    """Whether that token reads the lab's run."""
    with place.stub() as stub:
        try:
            stub.GetRun(LAB, timeout=10, metadata=bearer(secret(name)))
        except grpc.RpcError as error:
            refused: Any = error
            assert refused.code() == grpc.StatusCode.UNAUTHENTICATED
            return False
    return True


def test_a_token_that_leaves_the_file_is_refused_and_one_that_joins_it_let_in(from_file: tuple[Place, Path]) -> None:
    place, path = from_file
    path.write_text(tokens_json("all-admin"))
    until(lambda: not lets_in(place, "lab-read"))
    assert lets_in(place, "all-admin")
    replacement = path.with_name("new.json")  # as secrets are mounted: another file takes the name
    replacement.write_text(tokens_json("lab-read"))
    os.replace(replacement, path)
    until(lambda: lets_in(place, "lab-read"))
    assert not lets_in(place, "all-admin")


@pytest.mark.parametrize("broken", ["", "{", '{"tokens": [{"name": "x"}]}', None])
def test_a_broken_file_leaves_the_old_tokens_in_force_and_is_an_error_in_the_log(
    from_file: tuple[Place, Path], caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    place, path = from_file
    if broken is None:
        path.unlink()
    else:
        path.write_text(broken)

    def errors() -> int:
        assert lets_in(place, "lab-read")
        return sum(record.levelname == "ERROR" and str(path) in record.getMessage() for record in caplog.records)

    until(lambda: errors() == 1)
    path.write_text(tokens_json("all-admin"))
    until(lambda: not lets_in(place, "lab-read"))
    assert lets_in(place, "all-admin")


def entry(**changes: Any) -> str:
    """A file with one token, changed."""
    one = {"name": "a", "sha256": hashlib.sha256(b"a").hexdigest(), "project": "lab", "role": "read"}
    return json.dumps({"tokens": [{key: value for key, value in {**one, **changes}.items() if value is not None}]})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no JSON"),
        ("[]", '{"tokens": [...]}'),
        ('{"tokens": {}}', '{"tokens": [...]}'),
        ('{"tokens": [], "more": 1}', '{"tokens": [...]}'),
        ('{"tokens": [7]}', "tokens[0]"),
        (entry(role=None), "tokens[0] must have exactly name, sha256, project, role"),
        (entry(roles="read"), "tokens[0] must have exactly"),
        (entry(name=""), "tokens[0].name"),
        (entry(name="a\nb"), "tokens[0].name"),
        (entry(sha256="secret-lab-read"), "tokens[0].sha256 must be 64 lower-case hexadecimal digits"),
        (entry(sha256="A" * 64), "tokens[0].sha256"),
        (entry(project=""), "tokens[0].project"),
        (entry(project="*"), "tokens[0].project"),
        (entry(project="Lab"), "tokens[0].project"),
        (entry(role="owner"), "tokens[0].role must be read, write or admin"),
        (entry(role="READ"), "tokens[0].role"),
        (json.dumps({"tokens": json.loads(entry())["tokens"] * 2}), "the same name"),
        (json.dumps({"tokens": json.loads(entry())["tokens"] + json.loads(entry(name="b"))["tokens"]}), "the same sha256"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_without_quoting_it(text: str, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        Tokens(text)
    assert told in str(caught.value) and "secret-lab-read" not in str(caught.value)


def test_every_known_token_is_compared_in_constant_time_whichever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare_digest(known: bytes, presented: bytes) -> bool:
        compared.append(known)
        return hmac.compare_digest(known, presented)

    class Spy:
        """Stands in for the module."""

    spy: Any = Spy()
    spy.compare_digest = compare_digest
    monkeypatch.setattr(tokens_module, "hmac", spy)
    tokens = Tokens(tokens_json())
    for presented in (secret("lab-read"), secret("all-admin"), "nobody's"):
        compared.clear()
        tokens.find(presented)
        assert compared == [hashlib.sha256(secret(name).encode()).digest() for name in TOKENS]


def test_the_token_itself_stands_in_no_log_line_and_no_error(guarded: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = ""
    for token in ("secret-unknown", secret("other-admin"), secret("lab-read")):
        with guarded.stub() as stub, pytest.raises(grpc.RpcError) as caught:
            stub.DeleteRun(LAB, timeout=10, metadata=bearer(token))
        error: Any = caught.value
        told += str(error) + str(error.trailing_metadata())
        with guarded.http(token) as http:
            told += http.get("/metrics").text + http.get("/api/v1/runs/lab/nowhere").text
    assert "secret-" not in told + caplog.text
    assert repr(Tokens(tokens_json())).find("secret-") < 0


def test_fade_token_prints_a_token_and_the_line_that_lets_it_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "trainer-a", "--project", "lab", "--role", "write"]) == 0
    token, line = capsys.readouterr().out.splitlines()
    assert token not in line and len(token) > 40
    found = Tokens(f'{{"tokens": [{line}]}}').find(token)
    assert found is not None and (found.name, found.project, found.role.name) == ("trainer-a", "lab", "WRITE")
    assert main(["token", "trainer-a", "--project", "-", "--role", "read"]) == 0
    assert capsys.readouterr().out.splitlines()[0] != token


def test_fade_token_refuses_what_the_file_would_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "trainer a", "--project", "lab", "--role", "write"]) == 2
    assert capsys.readouterr().err.startswith("fade token: name must be")


@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_the_scheme_is_read_as_http_writes_it(guarded: Place, header: str) -> None:
    with guarded.http() as http:
        answer = http.get("/api/v1/runs/lab/r", headers={"authorization": header.format(secret("lab-read"))})
    assert answer.status_code == 200


@pytest.mark.parametrize("header", ["{}", "Basic {}", "Bearer", "Bearer{}", "Token {}"])
def test_no_other_scheme_is_taken_for_a_token(guarded: Place, header: str) -> None:
    with guarded.http() as http:
        answer = http.get("/api/v1/runs/lab/r", headers={"authorization": header.format(secret("lab-read"))})
    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, "TOKEN_MISSING")
