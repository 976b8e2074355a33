"""`fade serve`, and `fade backup`, `export` and `import` of its store. Importing this module imports no server."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType

from fade_service.access.options import access_of, add_access_options, register_token

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

_EXTRA_MODULES = (
    "fastapi", "fastapi_offline", "uvicorn", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "redis",
)  # fmt: skip

_DEFAULT_STORE = "default: FADE_STORE, which no list of processes shows, else fade.db in the user's state directory"

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m fade_service` with these arguments (default: the process's own); returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fade_service", description="The FADE scheduler's server.")
    register(parser.add_subparsers(metavar="COMMAND", required=True))
    options = parser.parse_args(arguments)
    code: int = options.handler(options)
    return code


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `serve`, `token`, `backup`, `export` and `import` to the `fade` command."""
    _register_serve(subparsers)
    register_token(subparsers)
    backup = _register_store_command(subparsers, "backup", "copy a SQLite store to a new file while servers use it", _backup)
    backup.add_argument("file", type=Path, metavar="FILE", help="the copy; must not exist")
    export = _register_store_command(
        subparsers, "export", "write runs with their history to a file, while servers use them", _export
    )
    export.add_argument(
        "--run", action="append", default=[], metavar="NAME", help="projects/PROJECT/runs/RUN; again for more (default: all)"
    )
    export.add_argument("file", type=Path, metavar="FILE", help="JSON lines, compressed if the name ends in .gz; must not exist")
    imports = _register_store_command(subparsers, "import", "read the runs of an exported file into a store of any kind", _import)
    imports.add_argument("file", type=Path, metavar="FILE", help="what `fade export` wrote")


def _register_store_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    handler: Callable[[argparse.Namespace], str],
) -> argparse.ArgumentParser:
    epilog = "exit codes: 0 done; 1 failed, and nothing was changed but what the error names; 2 the command line is wrong"
    command = subparsers.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)
    command.add_argument("--store", help=f"URL as for `fade serve` ({_DEFAULT_STORE})")
    command.set_defaults(handler=lambda options: _on_store(name, handler, options))
    return command


def _register_serve(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "serve schedules over gRPC, and health, metrics and the read API over HTTP"
    epilog = "exit codes: 0 stopped by SIGTERM or SIGINT after draining; 1 could not start; 2 the command line is wrong"
    serve = subparsers.add_parser("serve", help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)
    serve.add_argument(
        "--store",
        help="sqlite:///relative.db, sqlite:////absolute.db, redis://[user:password@]host:port/database (rediss:// with TLS), or"
        f" memory:// which keeps nothing ({_DEFAULT_STORE})",
    )
    serve.add_argument(
        "--durability",
        choices=("normal", "full"),
        help="what acknowledged observations survive on SQLite: a kill of the server, or a loss of power too (default: normal)",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all (default: %(default)s)")
    serve.add_argument("--grpc-port", type=int, default=50051, help="0 takes a free one (default: %(default)s)")
    serve.add_argument("--http-port", type=int, default=8080, help="0 takes a free one (default: %(default)s)")
    serve.add_argument(
        "--drain-seconds", type=float, default=10.0, help="time that calls under way get to finish (default: %(default)s)"
    )
    serve.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="of the log on standard error (default: %(default)s)"
    )
    serve.add_argument(
        "--log-level",
        action="append",
        default=[],
        metavar="[LOGGER=]LEVEL",
        help="debug, info, warning or error: of all, or of a logger such as fade_service.store; again for more (default: info)",
    )
    add_access_options(serve)
    serve.set_defaults(handler=_serve)


def _serve(options: argparse.Namespace) -> int:
    try:
        from prometheus_client import disable_created_metrics

        from fade_service import logs
        from fade_service.errors import ServiceError
        from fade_service.server import FadeServer
        from fade_service.store import default_store_url, shown
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA_MODULES:
            raise
        print(f"fade serve: needs {error.name}: pip install 'fade-scheduler[service]'", file=sys.stderr)
        return EXIT_USAGE
    store = options.store or default_store_url()
    if options.durability is not None and not store.startswith("sqlite:"):
        print("fade serve: --durability is for SQLite; what Redis keeps is its own appendfsync", file=sys.stderr)
        return EXIT_USAGE
    if options.durability is not None:
        store += f"{'&' if '?' in store else '?'}durability={options.durability}"
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series, and Prometheus reads none of them
    try:
        logs.set_up(options.log_format, options.log_level)
        server = FadeServer(
            store,
            host=options.host,
            grpc_port=options.grpc_port,
            http_port=options.http_port,
            drain_seconds=options.drain_seconds,
            access=access_of(options),
        )
    except ValueError as error:
        print(f"fade serve: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ServiceError as error:
        print(f"fade serve: {error}", file=sys.stderr)
        return EXIT_FAILED

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(EXIT_OK)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        server.start()
        _log.info(
            "serving gRPC on %s:%d and HTTP on %s, store %s",
            server.host, server.grpc_port, server.http_url, shown(server.store_url),
        )  # fmt: skip
        server.wait()
    except OSError as error:
        print(f"fade serve: {error}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        server.stop()
        _log.info("stopped")
    return EXIT_OK


def _on_store(name: str, handler: Callable[[argparse.Namespace], str], options: argparse.Namespace) -> int:
    """Runs a command that works on a store, and says what it did or why it could not."""
    try:
        from fade_service.errors import ServiceError
        from fade_service.store import default_store_url
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA_MODULES:
            raise
        print(f"fade {name}: needs {error.name}: pip install 'fade-scheduler[service]'", file=sys.stderr)
        return EXIT_USAGE
    options.store = options.store or default_store_url()
    try:
        print(handler(options))
    except (ValueError, OSError, ServiceError) as error:
        print(f"fade {name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK


def _backup(options: argparse.Namespace) -> str:
    from fade_service.store.sqlite_backup import back_up

    path = _sqlite_path(options.store)
    if path is None:
        raise ValueError("only a SQLite store is copied so; use `fade export`, or what Redis offers itself")
    back_up(path, options.file)
    return f"{path} was copied to {options.file}"


def _export(options: argparse.Namespace) -> str:
    from fade_service.moving import export_runs
    from fade_service.store import open_store

    path = _sqlite_path(options.store)
    if path is not None and not path.is_file():  # which a server would make
        raise ValueError(f"{path} is no file; give the store of a server")
    with closing(open_store(options.store)) as store:
        counts = export_runs(store, options.file, options.run)
    return f"{counts.runs} runs with {counts.observations} observations were written to {options.file}"


def _import(options: argparse.Namespace) -> str:
    from fade_service.moving import check_runs, import_runs
    from fade_service.store import open_store

    if options.store == "memory://":
        raise ValueError("a store in memory ends with this command; give one that keeps the runs")
    check_runs(options.file)  # before a SQLite file is made for it
    with closing(open_store(options.store)) as store:
        counts = import_runs(store, options.file)
    return f"{counts.runs} runs with {counts.observations} observations were read from {options.file}"


def _sqlite_path(url: str) -> Path | None:
    path, _, _ = url.removeprefix("sqlite:///").partition("?")
    return Path(path) if url.startswith("sqlite:///") else None
