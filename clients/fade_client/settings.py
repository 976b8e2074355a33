"""How a client is set up. The environment is read here, once, and nowhere else."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from fade_client.errors import SettingsError
from fade_client.schedule import AdvantageUnits
from fade_core import RunConfig

OnUnavailable = Literal["local", "hold", "neutral", "raise"]
OnRejected = Literal["neutral", "raise"]


def default_writer() -> str:
    """An id of this attempt of the job that no other attempt has."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{secrets.token_hex(4)}"


PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Tls:
    """What the service's certificate is checked against, and what the client shows of itself; all PEM."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


def read_tls(ca: PathLike | None, certificate: tuple[PathLike, PathLike] | None, environment: Mapping[str, str]) -> Tls | None:
    """The files named by arguments, or else by the environment; None where neither asks for TLS.

    Args:
        ca: Certificates of authorities; default ``FADE_TLS_CA``.
        certificate: The client's certificate and its key; default ``FADE_TLS_CERT`` and ``FADE_TLS_KEY``.
        environment: Where the defaults are looked up.

    Raises:
        SettingsError: A file is missing, cannot be read, or is no PEM; or one is named and another that it needs is not.
    """
    ca = ca or environment.get("FADE_TLS_CA")
    own, key = certificate or (environment.get("FADE_TLS_CERT"), environment.get("FADE_TLS_KEY"))
    if bool(own) != bool(key) or (own and not ca):
        raise SettingsError("TLS needs the authority (tls_ca=, FADE_TLS_CA); a certificate of the client's own needs its key too")
    if not ca:
        return None
    checked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # says at once what a channel would say by never getting ready
    try:
        checked.load_verify_locations(ca)
        if not (own and key):
            return Tls(Path(ca).read_bytes())
        checked.load_cert_chain(own, key, password=lambda: "")  # never asks at the terminal
        return Tls(Path(ca).read_bytes(), Path(own).read_bytes(), Path(key).read_bytes())
    except OSError as error:
        files = ", ".join(str(file) for file in (ca, own, key) if file)
        raise SettingsError(f"TLS cannot be used with {files}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What :class:`~fade_client.FadeClient` was told; see there.

    Raises:
        SettingsError: A value is missing or wrong.
    """

    address: str = ""
    """HOST:PORT of the service; empty in process."""
    run: str = ""
    """The run's id; empty in process."""
    project: str = "default"
    config: RunConfig | None = None
    """Configuration of a run that does not exist yet."""
    token: str | None = field(default=None, repr=False)
    """Sent as a bearer token."""
    tls: Tls | None = None
    """None speaks plain text."""
    writer: str = field(default_factory=default_writer)
    """The id of this attempt of the job."""
    timeout_seconds: float = 2.0
    """Longest time that one call of the client may take, over all attempts."""
    on_unavailable: OnUnavailable = "local"
    on_rejected: OnRejected = "neutral"
    advantage_units: AdvantageUnits = "unit"
    unsent_limit_bytes: int = 64 * 2**20
    """Memory for reports that wait for the service."""
    spool: Path | None = None
    """File for them, so that they outlive the process."""

    def __post_init__(self) -> None:
        for name, options in (
            ("on_unavailable", get_args(OnUnavailable)),
            ("on_rejected", get_args(OnRejected)),
            ("advantage_units", get_args(AdvantageUnits)),
        ):
            if getattr(self, name) not in options:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(options)}")
        if not 1 <= len(self.writer) <= 128:
            raise SettingsError(f"writer has {len(self.writer)} characters; give 1 to 128")
        if not self.timeout_seconds > 0:
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}; give more than 0")
        if self.unsent_limit_bytes < 0:
            raise SettingsError(f"unsent_limit_bytes is {self.unsent_limit_bytes}; give 0 or more")

    @property
    def parent(self) -> str:
        """The project's resource name."""
        return f"projects/{self.project}"

    @property
    def name(self) -> str:
        """The run's resource name."""
        return f"{self.parent}/runs/{self.run}"


def required(name: str, value: str | None, variable: str, environment: Mapping[str, str]) -> str:
    """An argument, or the environment variable that stands for it.

    Raises:
        SettingsError: Neither is there.
    """
    value = value or environment.get(variable)
    if not value:
        raise SettingsError(f"{name} is not known; pass {name}=, or set {variable}")
    return value
