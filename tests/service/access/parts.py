"""What the tests of access are made of: real certificates of an authority of their own, and tokens of two projects."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import grpc
import httpx
import trustme

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import CreateRunRequest
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer
from fade_service.access.policy import Access

TOKENS = {
    "lab-read": ("lab", "read"),
    "lab-write": ("lab", "write"),
    "lab-admin": ("lab", "admin"),
    "other-admin": ("other", "admin"),
    "all-read": ("-", "read"),
    "all-admin": ("-", "admin"),
}
"""Name, project and role; a token's text is ``secret-`` and its name."""

ALLOWED_SUBJECT = "trainer.lab.example"


def secret(name: str) -> str:
    """The token of that name."""
    return f"secret-{name}"


def tokens_json(*names: str) -> str:
    """The tokens file with these tokens, made without the code under test."""
    entries = [
        {"name": name, "sha256": hashlib.sha256(secret(name).encode()).hexdigest(), "project": project, "role": role}
        for name, (project, role) in TOKENS.items()
        if name in names or not names
    ]
    return json.dumps({"tokens": entries})


@dataclass(frozen=True)
class Papers:
    """A certificate with its key, as files, or none; and the authority that the holder checks others by."""

    certificate: Path | None
    key: Path | None
    ca: Path

    @property
    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For gRPC."""
        own = [None if path is None else path.read_bytes() for path in (self.key, self.certificate)]
        return grpc.ssl_channel_credentials(self.ca.read_bytes(), *own)

    @property
    def context(self) -> ssl.SSLContext:
        """For HTTP."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


class Office:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority, self._stranger = trustme.CA(), trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self._numbers = iter(range(1000))

    def issue(self, *names: str, expired: bool = False, trusted: bool = True, common_name: str | None = None) -> Papers:
        """A certificate for these alternative names, of the authority or of a stranger."""
        more = {"not_before": datetime(2001, 1, 1, tzinfo=timezone.utc), "not_after": datetime(2002, 1, 1, tzinfo=timezone.utc)}
        issuer = self._authority if trusted else self._stranger
        issued = issuer.issue_cert(*names, common_name=common_name, **(more if expired else {}))
        number = next(self._numbers)
        certificate, key = self._folder / f"{number}.pem", self._folder / f"{number}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return Papers(certificate, key, self.ca)


@dataclass(frozen=True)
class Place:
    """A running server, and how to reach it with a token and papers."""

    server: FadeServer

    @property
    def address(self) -> str:
        """gRPC's."""
        return f"127.0.0.1:{self.server.grpc_port}"

    @contextmanager
    def channel(self, papers: Papers | None = None) -> Iterator[grpc.Channel]:
        """A gRPC channel; without papers in plain text."""
        with (
            grpc.insecure_channel(self.address)
            if papers is None
            else grpc.secure_channel(self.address, papers.channel_credentials)
        ) as channel:
            yield channel

    @contextmanager
    def stub(self, papers: Papers | None = None) -> Iterator[SchedulerServiceStub]:
        """The service's stub."""
        with self.channel(papers) as channel:
            yield SchedulerServiceStub(channel)

    def http(self, token: str | None = None, papers: Papers | None = None) -> httpx.Client:
        """An HTTP client."""
        headers = {} if token is None else {"authorization": f"Bearer {token}".strip()}
        return httpx.Client(base_url=self.server.http_url, headers=headers, verify=True if papers is None else papers.context)


def bearer(token: str | None) -> tuple[tuple[str, str], ...]:
    """gRPC metadata."""
    return () if token is None else (("authorization", f"Bearer {token}"),)


def with_runs(server: FadeServer, papers: Papers | None = None) -> Place:
    """The server with a run ``r`` in both projects."""
    place = Place(server)
    with place.stub(papers) as stub:
        for project in ("lab", "other"):
            request = CreateRunRequest(parent=f"projects/{project}", run_id="r", run=run_pb2.Run())
            stub.CreateRun(request, timeout=10, metadata=bearer(secret("all-admin")), wait_for_ready=True)
    return place


def make_server(access: Access) -> FadeServer:
    """A server on free ports that keeps nothing."""
    return FadeServer("memory://", grpc_port=0, http_port=0, access=access)


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of calls made by that many threads together."""
    results: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
