"""How a client is set up. The environment is read here, once, and nowhere else."""

from __future__ import annotations

import os
import re
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

LONGEST_TIMEOUT_SECONDS = 86_400

_HOST_PORT = re.compile(r"(dns:(//[^/]*/)?)?(\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):(?P<port>[0-9]{1,5})", re.ASCII)
_OTHER_TARGET = re.compile(r"(unix|unix-abstract|vsock|ipv4|ipv6|xds):\S+")
_TOKEN = re.compile(r"[!-~]*")

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
    if certificate is not None and not (isinstance(certificate, (tuple, list)) and len(certificate) == 2):
        raise SettingsError("tls_certificate is no pair; give the file of the certificate and that of its key")
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
    except (OSError, TypeError) as error:
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
        for name in ("project", "writer"):
            if not isinstance(getattr(self, name), str):
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give a string")
        if not isinstance(self.config, RunConfig | None):
            raise SettingsError(
                f"config is a {type(self.config).__name__}; give a RunConfig (RunConfig.from_dict(...) makes one)"
            )
        if not 1 <= len(self.writer) <= 128:
            raise SettingsError(f"writer has {len(self.writer)} characters; give 1 to 128")
        if not (isinstance(self.timeout_seconds, int | float) and 0 < self.timeout_seconds <= LONGEST_TIMEOUT_SECONDS):
            problem = f"timeout_seconds is {self.timeout_seconds!r}; give a number of seconds, more than 0 and at most"
            raise SettingsError(f"{problem} {LONGEST_TIMEOUT_SECONDS} (a day)")
        if not (isinstance(self.unsent_limit_bytes, int) and self.unsent_limit_bytes >= 0):
            raise SettingsError(f"unsent_limit_bytes is {self.unsent_limit_bytes!r}; give a whole number, 0 or more")

    @property
    def parent(self) -> str:
        """The project's resource name."""
        return f"projects/{self.project}"

    @property
    def name(self) -> str:
        """The run's resource name."""
        return f"{self.parent}/runs/{self.run}"


def read_address(address: str | None, environment: Mapping[str, str]) -> str:
    """Where the service is, from the argument or ``FADE_ADDRESS``: what gRPC would dial without a word is checked here.

    Args:
        address: HOST:PORT; an IPv6 host in brackets; or a target of gRPC's (``dns:///HOST:PORT``, ``unix:PATH``, ...).
        environment: Where the default is looked up.

    Raises:
        SettingsError: It is missing, or none of these.
    """
    address = required("address", address, "FADE_ADDRESS", environment)
    if _OTHER_TARGET.fullmatch(address):
        return address
    found = _HOST_PORT.fullmatch(address)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        problem = f"address is {address!r} (address=, FADE_ADDRESS); give HOST:PORT of the service's gRPC, as localhost:50051"
        raise SettingsError(f"{problem} or [::1]:50051, without http://")
    return address


def read_token(token: str | None, environment: Mapping[str, str]) -> str | None:
    """The token from the argument or ``FADE_TOKEN``, without the space around it; None where there is none.

    Args:
        token: The argument.
        environment: Where the default is looked up.

    Raises:
        SettingsError: It holds what no header can carry. The message does not show it.
    """
    token = token or environment.get("FADE_TOKEN") or ""
    if not isinstance(token, str):
        raise SettingsError(f"token is a {type(token).__name__}; give a string (token=, FADE_TOKEN)")
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise SettingsError(
            "token has characters that are not visible ASCII; give one token as it was issued (token=, FADE_TOKEN)"
        )
    return token or None


def required(name: str, value: str | None, variable: str, environment: Mapping[str, str]) -> str:
    """An argument, or the environment variable that stands for it.

    Raises:
        SettingsError: Neither is there.
    """
    value = value or environment.get(variable)
    if not value:
        raise SettingsError(f"{name} is not known; pass {name}=, or set {variable}")
    if not isinstance(value, str):
        raise SettingsError(f"{name} is {value!r}; give a string")
    return value
