"""`fade serve`. Importing this module imports no server."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from types import FrameType

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

_EXTRA_MODULES = (
    "fastapi", "fastapi_offline", "uvicorn", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "redis",
)  # fmt: skip

_log = logging.getLogger("fade")


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m fade_service` with these arguments (default: the process's own); returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fade_service", description="The FADE scheduler's server.")
    register(parser.add_subparsers(metavar="COMMAND", required=True))
    options = parser.parse_args(arguments)
    code: int = options.handler(options)
    return code


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `serve` to the `fade` command."""
    summary = "serve schedules over gRPC, and health, metrics and the read API over HTTP"
    epilog = "exit codes: 0 stopped by SIGTERM or SIGINT after draining; 1 could not start; 2 the command line is wrong"
    serve = subparsers.add_parser("serve", help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=epilog)
    serve.add_argument(
        "--store",
        help="sqlite:///relative.db, sqlite:////absolute.db, redis://[user:password@]host:port/database (rediss:// with TLS), or"
        " memory:// which keeps nothing"
        " (default: fade.db in the user's state directory)",
    )
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all (default: %(default)s)")
    serve.add_argument("--grpc-port", type=int, default=50051, help="0 takes a free one (default: %(default)s)")
    serve.add_argument("--http-port", type=int, default=8080, help="0 takes a free one (default: %(default)s)")
    serve.add_argument(
        "--drain-seconds", type=float, default=10.0, help="time that calls under way get to finish (default: %(default)s)"
    )
    serve.set_defaults(handler=_serve)


def _serve(options: argparse.Namespace) -> int:
    try:
        from prometheus_client import disable_created_metrics

        from fade_service.errors import ServiceError
        from fade_service.server import FadeServer
        from fade_service.store import shown
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA_MODULES:
            raise
        print(f"fade serve: needs {error.name}: pip install 'fade-scheduler[service]'", file=sys.stderr)
        return EXIT_USAGE
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series, and Prometheus reads none of them
    try:
        server = FadeServer(
            options.store,
            host=options.host,
            grpc_port=options.grpc_port,
            http_port=options.http_port,
            drain_seconds=options.drain_seconds,
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
            "serving gRPC on %s:%d and HTTP on http://%s:%d, store %s",
            server.host, server.grpc_port, server.host, server.http_port, shown(server.store_url),
        )  # fmt: skip
        server.wait()
    except OSError as error:
        print(f"fade serve: {error}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        server.stop()
        _log.info("stopped")
    return EXIT_OK
