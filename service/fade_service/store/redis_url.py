"""What the URL of a Redis says."""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_FORM = "give redis://[user:password@]host[:port][/database], with signs such as / ? # @ in a password written as %2F %3F %23 %40"

_OPTIONS = ("history", "username", "password")
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_CHOICES = {"ssl_cert_reqs": ("none", "optional", "required"), "ssl_check_hostname": ("true", "false")}


def shown(url: str) -> str:
    """A store's URL without its password, for logs and errors."""
    url = re.sub(r"([?&]password=)[^&]*", r"\1***", url)
    return re.sub(r"(://[^/@:]*:).*(?=@)", r"\1***", url, flags=re.DOTALL)  # up to the last @: others may be the password's


def read_url(url: str) -> tuple[dict[str, Any], int | None]:
    """The keyword arguments of :class:`redis.Redis` that a URL stands for, and its ``history``.

    Raises:
        ValueError: It says something that cannot be, or that there is not.
    """
    try:
        parts = urlsplit(url)
        host, port, path = parts.hostname, parts.port, parts.path
    except ValueError:  # whose words have a piece of what may be the password
        raise ValueError(f"store {shown(url)!r} cannot be read; {_FORM}") from None
    if not host:
        raise ValueError(f"store {shown(url)!r} names no host; {_FORM}")
    if parts.fragment or not re.fullmatch(r"/?|/[0-9]{1,9}", path):
        raise ValueError(f"store {shown(url)!r} names no database; it is a number, as in redis://host/0; {_FORM}")
    options = _options(parts.query, tls=parts.scheme == "rediss")
    history = options.pop("history", None)
    if history is not None and not re.fullmatch(r"0*[1-9][0-9]{0,17}", history):
        raise ValueError(f"history={history} is no count; give 1 or more, or leave it out to keep all")
    connection: dict[str, Any] = {"host": host, "port": port or 6379, "db": int(path[1:] or 0), **options}
    connection |= {name: unquote(part) for name in ("username", "password") if (part := getattr(parts, name))}
    if parts.scheme == "rediss":
        connection |= {"ssl": True, **_checked_tls(options)}
    return connection, None if history is None else int(history)


def _options(query: str, *, tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    for name in options:
        if name not in _OPTIONS and not (tls and name in _TLS_OPTIONS):
            known = f"{', '.join(_OPTIONS)}, and with rediss:// {', '.join(_TLS_OPTIONS)}"
            raise ValueError(f"a Redis store's URL takes no option {name!r}, but {known}")
    if len(options) < len(pairs):
        raise ValueError(f"a Redis store's URL takes each option once, not {', '.join(name for name, _ in pairs)}")
    return options


def _checked_tls(options: dict[str, str]) -> dict[str, Any]:
    """The TLS options that are no text to redis-py; all are checked."""
    for name, choices in _CHOICES.items():
        if options.get(name, choices[0]) not in choices:
            raise ValueError(f"{name}={options[name]} is none of {', '.join(choices)}")
    authorities, certificate, key = (options.get(name) for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    if key is not None and certificate is None:
        raise ValueError("ssl_keyfile goes with ssl_certfile; give both")
    context = ssl.create_default_context()
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise ValueError(f"the files of ssl_ca_certs, ssl_certfile and ssl_keyfile cannot be used: {error}") from None
    return {"ssl_check_hostname": options["ssl_check_hostname"] == "true"} if "ssl_check_hostname" in options else {}
