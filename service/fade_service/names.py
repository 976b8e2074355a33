"""Resource names (AIP-122): the one place that reads and writes them."""

from __future__ import annotations

import re
from functools import lru_cache

from fade_service.errors import invalid

FIRST_BRANCH = "main"

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ID_RULE = "1 to 63 lower-case letters, digits and inner hyphens"

MAX_CLIENT_ID_LENGTH = 128


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
    if not 1 <= len(value) <= MAX_CLIENT_ID_LENGTH:
        problem = "has {length} characters; give 1 to {most}"
        raise invalid(field, problem, length=len(value), most=MAX_CLIENT_ID_LENGTH)
    return value
