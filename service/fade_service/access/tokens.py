"""Bearer tokens. The service knows their SHA-256 only; the tokens themselves are random, so that no slower hash is needed."""

from __future__ import annotations

import enum
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fade_service.access.files import Reloaded
from fade_service.errors import ServiceError
from fade_service.names import checked_id

ALL_PROJECTS = "-"

_KEYS = ("name", "sha256", "project", "role")
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Role(enum.IntEnum):
    """What a token may do; each role may do what those before it may."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token.

    Attributes:
        name: Says in logs which one it is.
        digest: SHA-256 of the token.
        project: Id of the one project that it opens; "-" opens all.
        role: What it may do there.
    """

    name: str
    digest: bytes
    project: str
    role: Role


class Tokens:
    """The tokens of a file, read again when it changes, or of a text.

    Raises:
        ValueError: It is not the JSON that docs/security.md describes; or the file cannot be read.
    """

    def __init__(self, source: Path | str) -> None:
        """``source`` is the file's path, or the JSON itself."""
        self._tokens: Callable[[], tuple[Token, ...]]
        if isinstance(source, str):
            tokens = parse_tokens(source)
            self._tokens = lambda: tokens
            return
        try:
            self._tokens = Reloaded([source], lambda: parse_tokens(source.read_text("utf-8"))).get
        except OSError as error:
            raise ValueError(f"the tokens cannot be read: {error}") from None

    def find(self, presented: str) -> Token | None:
        """The token that was presented, if it is known. How long this takes does not depend on which one it is."""
        digest = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).digest()
        found = None
        for token in self._tokens():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def parse_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a JSON text. No message quotes what stands in it: somebody may have put a token where its hash belongs.

    Raises:
        ValueError: It is wrong, and where.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        at = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"the tokens are no JSON{at}") from None
    entries = document.get("tokens") if isinstance(document, dict) and set(document) == {"tokens"} else None
    if not isinstance(entries, list):
        raise ValueError('the tokens are to be {"tokens": [...]}, each as `fade token` prints it')
    tokens = tuple(_parsed(number, entry) for number, entry in enumerate(entries))
    for what, values in (("name", [item.name for item in tokens]), ("sha256", [item.digest for item in tokens])):
        if len(set(values)) < len(values):
            raise ValueError(f"two tokens have the same {what}")
    return tokens


def _parsed(number: int, entry: Any) -> Token:
    if not isinstance(entry, dict) or set(entry) != set(_KEYS) or not all(isinstance(value, str) for value in entry.values()):
        raise ValueError(f"tokens[{number}] must have exactly {', '.join(_KEYS)}, all strings")
    if not _NAME.fullmatch(entry["name"]):
        raise ValueError(f"tokens[{number}].name must be 1 to 64 letters, digits and any of . _ @ -")
    if not _SHA256.fullmatch(entry["sha256"]):
        raise ValueError(f"tokens[{number}].sha256 must be 64 lower-case hexadecimal digits: the hash, not the token")
    if entry["project"] != ALL_PROJECTS:
        try:
            checked_id("project", entry["project"])
        except ServiceError:
            raise ValueError(f'tokens[{number}].project must be a project\'s id, or "-" for all') from None
    role = Role.__members__.get(entry["role"].upper()) if entry["role"].islower() else None
    if role is None:
        raise ValueError(f"tokens[{number}].role must be read, write or admin")
    return Token(name=entry["name"], digest=bytes.fromhex(entry["sha256"]), project=entry["project"], role=role)


def new_token(name: str, project: str, role: str) -> tuple[str, str]:
    """A fresh token of 256 random bits, and its entry in the tokens file as one line of JSON.

    Raises:
        ValueError: The name, project or role is none.
    """
    token = f"fade_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    entry = json.dumps({"name": name, "sha256": digest, "project": project, "role": role})
    parse_tokens(f'{{"tokens": [{entry}]}}')
    return token, entry
