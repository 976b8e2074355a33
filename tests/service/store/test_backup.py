"""`fade backup`: a copy of a store that is being written."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_service import FadeServer
from fade_service.cli import main
from fade_service.store import SqliteStore

ROWS = ([1.0, 0.0], [0, 0])


def test_copies_made_while_a_writer_writes_are_whole_and_go_on(tmp_path: Path, connect: Callable[..., Any]) -> None:
    store = f"sqlite:///{tmp_path}/fade.db"
    copies = [tmp_path / f"copy-{number}.db" for number in range(4)]
    with FadeServer(store, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        client.observe("b0", *ROWS)
        done = threading.Event()
        revisions = [1]

        def write() -> None:
            while not done.is_set():
                revisions.append(client.observe(f"b{revisions[-1]}", *ROWS).revision)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for copy in copies:
                seen = len(revisions)
                while len(revisions) < seen + 20:
                    done.wait(0.01)
                assert main(["backup", "--store", store, str(copy)]) == 0
        finally:
            done.set()
            writer.join()
        whole = client.history()
    stood = []
    for copy in copies:
        connection = sqlite3.connect(copy)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        with FadeServer(f"sqlite:///{copy}", grpc_port=0, http_port=0) as server:
            again = connect("r", at=f"127.0.0.1:{server.grpc_port}")
            revision = again.get().revision
            assert again.history() == whole[:revision]
            assert again.schedule().state_digest == _digest_after(again, revision)
            assert again.send(again.report("b0", *ROWS))[1], "the old ids are known"
            assert again.observe(f"b{revision}", *ROWS).revision == revision + 1
            stood.append(revision)
    assert stood == sorted(set(stood)) and stood[0] > 20


def _digest_after(client: Any, revision: int) -> str:
    return str(client.schedule(revision=revision).state_digest)


@pytest.mark.parametrize(
    ("store", "target", "told"),
    [
        ("sqlite:///{0}/none.db", "copy.db", "none.db is no file"),
        ("sqlite:///{0}/empty.db", "copy.db", "empty.db is an empty file"),
        ("sqlite:///{0}/diary.txt", "copy.db", "diary.txt is no SQLite database"),
        ("sqlite:///{0}/diary.txt", "empty.db", "empty.db exists"),
        ("redis://127.0.0.1:1/0", "copy.db", "fade export"),
        ("sqlite:///{0}/store.db", "none/copy.db", "unable to open database file; give a file in a folder that is there"),
        ("sqlite:///{0}/store.db", "empty.db/copy.db", "Not a directory"),
    ],
)
def test_what_cannot_be_copied_is_said_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, target: str, told: str
) -> None:
    SqliteStore(tmp_path / "store.db").close()
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "diary.txt").write_text("Dear diary, " * 999)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert main(["backup", "--store", store.format(tmp_path), str(tmp_path / target)]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("fade backup: ") and told in shown.err and shown.err.count("\n") == 1 and shown.out == ""
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
