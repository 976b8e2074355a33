"""Resource names (AIP-122): the one place that reads and writes them."""

from __future__ import annotations

import re
from functools import lru_cache

from fade_service.errors import invalid

FIRST_BRANCH = "main"

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ID_RULE = "1 to 63 lower-case letters, digits and inner hyphens"

MAX_CLIENT_ID_LENGTH = 128

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of writing: in a terminal they are commands, in a log they hide lines."""


def run_name(project: str, run: str) -> str:
    """ "projects/{project}/runs/{run}"."""
    return f"projects/{project}/runs/{run}"


@lru_cache(4096)
def checked_run_name(field: str, name: str) -> str:
    """``name``, a run's.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0::2] != ["projects", "runs"] or not all(map(_ID.fullmatch, parts[1::2])):
        raise invalid(field, "is {value!r}; give projects/{{project}}/runs/{{run}}, each id " + _ID_RULE, value=name)
    return name


def checked_project(field: str, parent: str, *, all_allowed: bool = False) -> str:
    """The project of ``parent``, "projects/{project}"; "-" stands for all of them where allowed.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    collection, _, project = parent.partition("/")
    if collection != "projects" or not (_ID.fullmatch(project) or (all_allowed and project == "-")):
        raise invalid(field, "is {value!r}; give projects/{{project}}, its id " + _ID_RULE, value=parent)
    return project


def checked_id(field: str, value: str) -> str:
    """An id of a run or branch.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    if not _ID.fullmatch(value):
        raise invalid(field, "is {value!r}; give " + _ID_RULE, value=value)
    return value


def checked_client_id(field: str, value: str) -> str:
    """An id that the client chose freely.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    if not value:
        raise invalid(field, "has 0 characters; give 1 to {most}", most=MAX_CLIENT_ID_LENGTH)
    return checked_text(field, value, MAX_CLIENT_ID_LENGTH)


def checked_text(field: str, value: str, most: int) -> str:
    """What the client wrote freely and people will read.

    Raises:
        ServiceError: INVALID_FIELD; it is longer than ``most`` characters, or holds a control character.
    """
    if len(value) > most:
        raise invalid(field, "has {length} characters; give up to {most}", length=len(value), most=most)
    found = _UNPRINTABLE.search(value)
    if found:
        raise invalid(
            field,
            "holds the control character {character} at {place}; leave it out",
            character=ascii(found[0]),
            place=found.start(),
        )
    return value
