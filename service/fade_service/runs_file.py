"""Runs with their history as one file: JSON lines, gzip where the file's name ends in ".gz".

The first line is the header ``{"format": "fade-runs", "version": 1}``. A run is a line with its name, record and head, and one
for each of its observations; bytes are base64. The last line has the counts, and the SHA-256 of all lines before it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from fade_service.store.base import StoredObservation, StoredRun

FORMAT = "fade-runs"
FORMAT_VERSION = 1

Item = StoredRun | StoredObservation
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Counts:
    """What a file holds."""

    runs: int
    observations: int


def write_runs(path: Path, items: Iterable[Item]) -> Counts:
    """Writes runs, each before its observations. The file has its name only once it is whole and on the disk.

    Raises:
        ValueError: The file exists.
        OSError: It cannot be written.
    """
    if path.exists():
        raise ValueError(f"{path} exists; choose another file")
    part = path.with_name(f"{path.name}.part")
    try:
        with _written(part, zipped=path.suffix == ".gz") as file:
            counts = _write(file, items)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return counts


def read_runs(path: Path) -> Iterator[Item]:
    """What :func:`write_runs` wrote, runs without uid and version. Only its end proves the file sound; whether a server can serve
    what it says is :mod:`~fade_service.runs_check`'s business.

    Raises:
        ValueError: The file is damaged, cut off, of a newer version, or something else.
        OSError: It cannot be read.
    """
    number, runs, observations, digest = 0, 0, 0, hashlib.sha256()
    lines = _lines(path)
    for number, line in lines:
        content = _content(path, number, line)
        if number == 1:
            _check_header(path, content)
        elif "sha256" in content:
            footer = {"runs": runs, "observations": observations, "sha256": digest.hexdigest()}
            if content != footer or next(lines, None) is not None:
                raise _damaged(path, number)
            return
        else:
            item = _decoded(path, number, content)
            runs += isinstance(item, StoredRun)
            observations += isinstance(item, StoredObservation)
            yield item
        digest.update(line)
    raise ValueError(f"{path} is cut off after line {number}; copy or export it again")


@contextmanager
def _written(path: Path, *, zipped: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if zipped:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as zip:
                yield cast(IO[bytes], zip)
        else:
            yield file
        file.flush()
        os.fsync(file.fileno())


def _write(file: IO[bytes], items: Iterable[Item]) -> Counts:
    digest = hashlib.sha256()
    runs = observations = 0

    def put(content: dict[str, Any]) -> None:
        line = _line(content)
        digest.update(line)
        file.write(line)

    put({"format": FORMAT, "version": FORMAT_VERSION})
    for item in items:
        put(_encoded(item))
        if isinstance(item, StoredRun):
            runs += 1
        else:
            observations += 1
    file.write(_line({"runs": runs, "observations": observations, "sha256": digest.hexdigest()}))
    return Counts(runs, observations)


def _encoded(item: Item) -> dict[str, Any]:
    if isinstance(item, StoredRun):
        return {"run": item.name, "record": _text(item.record), "head": _text(item.head)}
    return {
        "branch": item.branch,
        "revision": item.revision,
        "observation_id": item.observation_id,
        "digest": _text(item.digest),
        "payload": _text(item.payload),
    }


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(cast(IO[bytes], file), 1):
                yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise _damaged(path, number + 1) from error


def _content(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text, and of numbers without end
        raise _damaged(path, number) from error
    if not isinstance(content, dict):
        raise _damaged(path, number)
    return content


def _decoded(path: Path, number: int, content: dict[str, Any]) -> Item:
    try:
        if "run" in content:
            record, head = _bytes(content["record"]), _bytes(content["head"])
            return StoredRun(name=_typed(content["run"], str), uid="", version=0, record=record, head=head)
        return StoredObservation(
            branch=_typed(content["branch"], str),
            revision=_typed(content["revision"], int),
            observation_id=_typed(content["observation_id"], str),
            digest=_bytes(content["digest"]),
            payload=_bytes(content["payload"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, number) from error


def _typed(value: Any, kind: type[_Kind]) -> _Kind:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _check_header(path: Path, header: dict[str, Any]) -> None:
    form, version = header.get("format"), header.get("version")
    if form is None or type(version) is not int:
        raise _damaged(path, 1)
    if form != FORMAT:
        raise ValueError(f"{path} holds {form}, not {FORMAT}")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {version}, and this fade-scheduler knows versions up to {FORMAT_VERSION};"
            " import it with a newer one"
        )


def _damaged(path: Path, number: int) -> ValueError:
    return ValueError(f"{path} is damaged at line {number}, or no export of runs; copy or export it again")


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
