"""A service whose store lost its newest observations, though it had acknowledged them: a backup that was put back, a failover."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fade_client import FadeClient, UnavailableError
from fade_service import FadeServer

Batch = Callable[[int], dict[str, Any]]
Connect = Callable[..., FadeClient]


class Lossy:
    """A server on a fixed port whose file can be put back to an earlier one."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._file, self._backup = folder / "lossy.db", folder / "backup.db"
        self._server: FadeServer | None = None

    def start(self) -> None:
        self._server = FadeServer(f"sqlite:///{self._file}", grpc_port=self._port, http_port=0).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def back_up(self) -> None:
        """Keeps the file as it is now."""
        self.stop()
        shutil.copyfile(self._file, self._backup)
        self.start()

    def put_back(self) -> None:
        """Loses all since the backup."""
        self.stop()
        shutil.copyfile(self._backup, self._file)
        self.start()


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[Lossy]:
    server = Lossy(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def told(history: Any) -> Iterator[Callable[[str], Any]]:
    """What the lossy server knows of the run."""
    opened: list[Any] = []

    def read(address: str) -> Any:
        opened.append(type(history("r"))(address, "r"))
        return opened[-1]

    yield read
    for item in opened:
        item.close()


def test_lost_observations_are_reported_again_and_the_state_ends_as_if_nothing_had_happened(
    lossy: Lossy, server: str, connect: Connect, batch: Batch, history: Any, told: Any
) -> None:
    twin = connect(server, timeout_seconds=10.0)
    expected = [twin.observe(**batch(number)) for number in range(10)]
    client = connect(lossy.address, timeout_seconds=5.0)
    schedules = [client.observe(**batch(number)) for number in range(3)]
    lossy.back_up()
    schedules += [client.observe(**batch(number)) for number in range(3, 7)]
    lossy.put_back()
    schedules.append(client.observe(**batch(7)))
    assert client.flush(30)
    schedules += [client.observe(**batch(number)) for number in range(8, 10)]
    assert [item.source for item in schedules] == ["SERVER"] * 7 + ["LOCAL"] + ["SERVER"] * 2
    assert [(item.alpha, item.delta) for item in schedules] == [(item.alpha, item.delta) for item in expected]
    now, wanted = told(lossy.address), history("r")
    assert now.ids() == wanted.ids() == [f"batch-{number}" for number in range(10)]
    assert now.digest() == wanted.digest()
    assert [item.late.source for item in now.observations()] == [""] * 3 + ["SERVER"] * 4 + ["LOCAL"] + [""] * 2
    assert len(now.get().branches) == 1


def test_a_configuration_that_was_lost_with_them_is_said_and_no_hindrance(
    lossy: Lossy, connect: Connect, batch: Batch, told: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(lossy.address, timeout_seconds=5.0)
    client.observe(**batch(0))
    lossy.back_up()
    told(lossy.address).update(alpha_max=2.0)
    for number in (1, 2):
        client.observe(**batch(number))
    lossy.put_back()
    client.observe(**batch(3))
    assert client.flush(30)
    assert client.observe(**batch(4)).source == "SERVER"
    assert told(lossy.address).ids() == [f"batch-{number}" for number in range(5)]
    assert "lost changes of the configuration" in caplog.text and "alpha_max 2.0, now 3.0" in caplog.text


def test_where_the_lost_reports_are_no_longer_kept_a_branch_goes_on_from_the_clients_state(
    lossy: Lossy, connect: Connect, batch: Batch, undisturbed: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fade_client.line.KEPT_BYTES", 0)
    client = connect(lossy.address, timeout_seconds=5.0)
    client.observe(**batch(0))
    lossy.back_up()
    for number in (1, 2):
        client.observe(**batch(number))
    lossy.put_back()
    schedules = [client.observe(**batch(3))]
    assert client.flush(30)
    schedules.append(client.observe(**batch(4)))
    assert [item.source for item in schedules] == ["LOCAL", "SERVER"]
    assert [(item.alpha, item.revision) for item in schedules] == [(item.alpha, item.revision) for item in undisturbed(5)[3:]]
    first, second = told(lossy.address).get().branches
    assert told(lossy.address).ids(first.id) == ["batch-0"]
    assert told(lossy.address).ids(second.id) == ["batch-3", "batch-4"]


def test_a_branch_that_was_lost_is_opened_again_from_the_clients_state(
    lossy: Lossy, connect: Connect, batch: Batch, undisturbed: Any, told: Any
) -> None:
    before = connect(lossy.address, timeout_seconds=5.0)
    before.observe(**batch(0))
    checkpoint = before.state_dict()
    lossy.back_up()
    client = connect(lossy.address, timeout_seconds=5.0)
    client.load_state_dict(checkpoint)
    client.observe(**batch(1))
    lossy.put_back()
    client.observe(**batch(2))
    assert client.flush(30)
    last = client.observe(**batch(3))
    assert (last.source, last.alpha) == ("SERVER", undisturbed(4)[3].alpha)
    assert told(lossy.address).get().branch != "main"


def test_a_checkpoint_made_while_they_are_reported_again_has_them(
    lossy: Lossy, connect: Connect, batch: Batch, undisturbed: Any
) -> None:
    client = connect(lossy.address, timeout_seconds=5.0, on_unavailable="raise")
    for number in (0, 1):
        client.observe(**batch(number))
    lossy.back_up()
    client.observe(**batch(2))
    lossy.put_back()
    with pytest.raises(UnavailableError, match="STATE_REGRESSED"):
        client.observe(**batch(3))
    state = client.state_dict()
    other = FadeClient.local()
    other.load_state_dict({**state, "run": None})
    assert other.observe(**batch(3)).alpha == undisturbed(4)[3].alpha
