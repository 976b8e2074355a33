"""The tests' own network does what its faults are called."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from tests.faults.proxy import Link, Network


class Listener:
    """Answers each line with itself, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._told = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, line: bytes) -> bool:
        """Whether it hears that line in time."""
        with self._told:
            return self._told.wait_for(lambda: line in self.heard, timeout=10)

    def close(self) -> None:
        """Takes no more connections."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    with self._told:
                        self.heard.append(line)
                        self._told.notify_all()
                    connection.sendall(line)
            except OSError:
                return


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def link(listener: Listener) -> Iterator[Link]:
    network = Network()
    link = network.link("to the listener")
    link.lead_to(listener.port)
    yield link
    network.close()


def ask(connection: socket.socket, line: bytes) -> bytes:
    """What comes back; nothing where the connection was broken."""
    try:
        connection.sendall(line)
        return connection.recv(100)
    except ConnectionError:
        return b""


def connect(link: Link) -> socket.socket:
    """A connection through the link."""
    return socket.create_connection(("127.0.0.1", link.port), timeout=10)


def test_a_whole_link_carries_both_ways_also_when_slow(link: Link) -> None:
    with connect(link) as connection:
        assert ask(connection, b"one\n") == b"one\n"
        link.slow(0.05)
        assert ask(connection, b"two\n") == b"two\n"


def test_a_cut_link_breaks_what_there_is_and_takes_nothing_new_until_it_is_healed(link: Link, listener: Listener) -> None:
    with connect(link) as old:
        assert ask(old, b"one\n") == b"one\n"
        link.cut()
        assert ask(old, b"two\n") == b""
    with connect(link) as refused:
        assert ask(refused, b"three\n") == b""
    link.heal()
    with connect(link) as new:
        assert ask(new, b"four\n") == b"four\n"
    assert listener.heard == [b"one\n", b"four\n"]


def test_a_request_gets_through_a_link_that_swallows_replies(link: Link, listener: Listener) -> None:
    with connect(link) as connection:
        assert ask(connection, b"one\n") == b"one\n"
        link.mute(replies=True)
        connection.sendall(b"two\n")
        assert listener.wait_for(b"two\n")
        link.heal()
        assert ask(connection, b"three\n") == b""


def test_a_request_never_arrives_through_a_link_that_swallows_requests(link: Link, listener: Listener) -> None:
    with connect(link) as connection:
        assert ask(connection, b"one\n") == b"one\n"
        link.mute(replies=False)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(connection, b"two\n")
        connection.settimeout(10)
        link.heal()
        assert ask(connection, b"three\n") == b""
    with connect(link) as new:
        assert ask(new, b"four\n") == b"four\n"
    assert listener.heard == [b"one\n", b"four\n"]
