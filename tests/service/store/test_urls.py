"""Stores by their URLs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fade_service.store import MemoryStore, SqliteStore, default_store_url, open_store


def test_memory_keeps_nothing() -> None:
    store = open_store("memory://")
    store.create_run("r", "u", b"", b"")
    assert isinstance(store, MemoryStore)
    assert open_store("memory://").get_run("r") is None


def test_three_slashes_are_relative_and_four_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    relative = open_store("sqlite:///some.db")
    assert isinstance(relative, SqliteStore)
    created = relative.create_run("r", "u", b"", b"")
    absolute = open_store(f"sqlite:///{tmp_path}/some.db")
    assert absolute.get_run("r") == created
    relative.close()
    absolute.close()


@pytest.mark.parametrize(
    "url", ["", "fade.db", "/fade.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://x.db", "sqlite:///:memory:", "memory://x",
            "Memory://", "postgres://host/db"]
)  # fmt: skip
def test_an_unknown_form_is_refused_with_the_known_ones(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="no known form.*sqlite:///relative.*sqlite:////absolute.*redis://.*memory://"):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("option", "synchronous"), [("", 1), ("?durability=normal", 1), ("?durability=full", 2)])
def test_a_files_durability_is_an_option_of_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, synchronous: int
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    store = open_store(f"sqlite:///{tmp_path}/fade.db{option}")
    assert [connection.execute("PRAGMA synchronous").fetchone() for connection in opened] == [(synchronous,)]
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["fade.db"]


@pytest.mark.parametrize("option", ["durability=FULL", "durability=", "durability", "history=5", "durability=full&x=1"])
def test_an_option_that_there_is_not_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(ValueError, match="durability=normal or .durability=full, not .*"):
        open_store(f"sqlite:///{tmp_path}/fade.db?{option}")
    assert list(tmp_path.iterdir()) == []


def test_the_default_is_a_file_in_the_users_state_directory() -> None:
    scheme, _, path = default_store_url().partition("///")
    assert scheme == "sqlite:"
    assert Path(path).is_absolute()
    assert Path(path).parts[-2:] == ("fade-scheduler", "fade.db")
