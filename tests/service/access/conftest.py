"""Servers that ask who calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.service.access.parts import ALLOWED_SUBJECT, Office, Papers, Place, make_server, tokens_json, with_runs

from fade_service import FadeServer
from fade_service.access.policy import Access
from fade_service.access.quotas import Quotas
from fade_service.access.tls import Tls
from fade_service.access.tokens import Tokens


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    """The authority."""
    return Office(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server_papers(office: Office) -> Papers:
    """The server's certificate."""
    return office.issue("127.0.0.1", "localhost")


@pytest.fixture(scope="session")
def guarded() -> Iterator[Place]:
    """A server in plain text that asks for tokens."""
    with make_server(Access(tokens=Tokens(tokens_json()))) as server:
        yield with_runs(server)


@pytest.fixture(scope="session")
def trainer_papers(office: Office) -> Papers:
    """A client certificate that is let in."""
    return office.issue(ALLOWED_SUBJECT)


@pytest.fixture(scope="session")
def sealed(office: Office, server_papers: Papers, trainer_papers: Papers) -> Iterator[Place]:
    """A server that asks for tokens and for a client certificate of an allowed subject."""
    tls = Tls(
        certificate=server_papers.certificate,
        key=server_papers.key,
        client_ca=office.ca,
        allowed_subjects=frozenset({ALLOWED_SUBJECT, "somebody.else.example"}),
    )
    with make_server(Access(tokens=Tokens(tokens_json()), tls=tls)) as server:
        yield with_runs(server, trainer_papers)


@pytest.fixture
def limited() -> Iterator[Callable[..., Place]]:
    """Makes servers with quotas."""
    running: list[FadeServer] = []

    def make(**quotas: Any) -> Place:
        running.append(make_server(Access(quotas=Quotas(**quotas))).start())
        return Place(running[-1])

    yield make
    for server in running:
        server.stop()
