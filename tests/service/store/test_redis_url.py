"""What the URL of a Redis may say; what else it says is refused when the store is opened, without its password."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import trustme

from fade_service.store import RedisStore, open_store, shown
from fade_service.store.redis_url import read_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:secret@host:6379/0", "redis://user:***@host:6379/0"),  # pragma: allowlist secret
        ("rediss://:secret@host/0?history=5", "rediss://:***@host/0?history=5"),
        ("redis://user:sec@ret@host:6379/0", "redis://user:***@host:6379/0"),  # pragma: allowlist secret
        ("redis://user:se/c?r#e@t@host:6379/0", "redis://user:***@host:6379/0"),
        ("redis://host:6379/0?password=secret&history=5", "redis://host:6379/0?password=***&history=5"),
        ("redis://user@host/0?history=5&password=sec@ret", "redis://user@host/0?history=5&password=***"),
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("sqlite:////var/lib/a:b@c/fade.db", "sqlite:////var/lib/a:b@c/fade.db"),
    ],
)
def test_a_password_is_not_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize(
    ("url", "says", "history"),
    [
        ("redis://h", {}, None),
        ("redis://h:1/?history=5", {"port": 1}, 5),
        ("redis://[::1]:1/12", {"host": "::1", "port": 1, "db": 12}, None),
        ("redis://u:a%40%2F:b@h/3", {"db": 3, "username": "u", "password": "a@/:b"}, None),  # pragma: allowlist secret
        ("redis://:sec@ret@h/3", {"db": 3, "password": "sec@ret"}, None),  # pragma: allowlist secret
        ("redis://h/3?password=a%2Bb", {"db": 3, "password": "a+b"}, None),  # pragma: allowlist secret
        (
            "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=false",
            {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False},
            None,
        ),
    ],
)
def test_a_url_is_read_as_its_form_says(url: str, says: dict[str, object], history: int | None) -> None:
    assert read_url(url) == ({"host": "h", "port": 6379, "db": 0} | says, history)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://", "names no host; give redis://"),
        ("redis:///0", "names no host; give redis://"),
        ("redis://:secret@/0", "names no host; give redis://"),
        ("redis://h:99999/0", "cannot be read; give redis://"),
        ("redis://h:port/0", "cannot be read; give redis://"),
        ("redis://[::1/0", "cannot be read; give redis://"),
        ("redis://u:secret/more@h/0", "cannot be read; give redis://.* %2F"),
        ("redis://h/prod", "names no database; it is a number"),
        ("redis://h/0/1", "names no database; it is a number"),
        ("redis://h/-1", "names no database; it is a number"),
        ("redis://h/0#1", "names no database; it is a number"),
        ("redis://h/0?history=0", "history=0 is no count"),
        ("redis://h/0?history=-1", "history=-1 is no count"),
        ("redis://h/0?history=", "history= is no count"),
        ("redis://h/0?history=1.5", "history=1.5 is no count"),
        ("redis://h/0?history=\N{SUPERSCRIPT TWO}", "is no count"),
        ("redis://h/0?history=5&history=7", "each option once"),
        ("redis://h/0?foo=1", "takes no option 'foo', but history, .*ssl_ca_certs"),
        ("redis://h/0?decode_responses=true", "takes no option 'decode_responses'"),
        ("redis://h/0?socket_timeout=abc", "takes no option 'socket_timeout'"),
        ("redis://h/0?db=3", "takes no option 'db'"),
        ("redis://h/0?ssl_cert_reqs=none", "takes no option 'ssl_cert_reqs', but .* with rediss:// "),
        ("rediss://h/0?ssl_cert_reqs=bogus", "ssl_cert_reqs=bogus is none of none, optional, required"),
        ("rediss://h/0?ssl_check_hostname=yes", "ssl_check_hostname=yes is none of true, false"),
        ("rediss://h/0?ssl_ca_certs=/no/such/file", "cannot be used: .*No such file"),
        ("rediss://h/0?ssl_certfile=/dev/null", "ssl_ca_certs, ssl_certfile and ssl_keyfile cannot be used"),
        ("rediss://h/0?ssl_keyfile=/dev/null", "ssl_keyfile goes with ssl_certfile"),
    ],
)
def test_what_a_url_cannot_say_is_refused_when_the_store_is_opened(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_the_files_of_a_url_serve_tls_both_ways(own_redis: Any, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("server", "client"):
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings = {"cert": "server.pem", "key": "server.key", "ca-cert": "ca.pem"}
    files = [part for name, file in settings.items() for part in (f"tls-{name}-file", str(tmp_path / file))]
    own_redis.client.execute_command("CONFIG", "SET", *files, "tls-port", str(port))
    files = [f"ssl_{name}={tmp_path / file}" for name, file in (("ca_certs", "ca.pem"), ("certfile", "client.pem"))]
    store = open_store(f"rediss://127.0.0.1:{port}/0?{'&'.join(files)}&ssl_keyfile={tmp_path / 'client.key'}")
    assert isinstance(store, RedisStore)
    store.ping()
    store.create_run("r", "u", b"record", b"head")
    store.close()
    assert own_redis.client.hgetall("fade:names") == {b"r": b"u"}
