"""Runs with their history as one file: JSON lines, gzip where the file's name ends in ".gz".

The first line is the header ``{"format": "fade-runs", "version": 1}``. A run is a line with its name, record and head, and one
for each of its observations; bytes are base64. The last line has the counts, and the SHA-256 of all lines before it.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from fade_service.store.base import StoredObservation, StoredRun

FORMAT = "fade-runs"
FORMAT_VERSION = 1

Item = StoredRun | StoredObservation


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
    """What :func:`write_runs` wrote, runs without uid and version. Only its end proves the file sound.

    Raises:
        ValueError: The file is damaged, cut off, of a newer version, or something else.
        OSError: It cannot be read.
    """
    number, digest = 0, hashlib.sha256()
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(cast(IO[bytes], file), 1):
                content = json.loads(line)
                if number == 1:
                    _check_header(path, content)
                elif "sha256" in content:
                    if content["sha256"] != digest.hexdigest() or file.read(1):
                        raise _damaged(path, number)
                    return
                else:
                    yield _decoded(content)
                digest.update(line)
        except (json.JSONDecodeError, UnicodeDecodeError, binascii.Error, KeyError, TypeError) as error:
            raise _damaged(path, number) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise _damaged(path, number + 1) from error
    raise ValueError(f"{path} is cut off after line {number}; copy or export it again")


def count_runs(path: Path) -> Counts:
    """Reads the file to its end; raises as :func:`read_runs`."""
    runs = observations = 0
    for item in read_runs(path):
        if isinstance(item, StoredRun):
            runs += 1
        else:
            observations += 1
    return Counts(runs, observations)


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


def _decoded(content: dict[str, Any]) -> Item:
    if "run" in content:
        record, head = _bytes(content["record"]), _bytes(content["head"])
        return StoredRun(name=content["run"], uid="", version=0, record=record, head=head)
    return StoredObservation(
        branch=content["branch"],
        revision=content["revision"],
        observation_id=content["observation_id"],
        digest=_bytes(content["digest"]),
        payload=_bytes(content["payload"]),
    )


def _check_header(path: Path, header: dict[str, Any]) -> None:
    if header["format"] != FORMAT:
        raise ValueError(f"{path} holds {header['format']}, not {FORMAT}")
    if header["version"] > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {header['version']}, and this fade-scheduler knows versions up to {FORMAT_VERSION};"
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
