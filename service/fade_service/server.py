"""The server's life: gRPC and HTTP in one process."""

from __future__ import annotations

import logging
import math
import socket
import ssl
import threading
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp

from fade_service import failpoints
from fade_service.access.http_gate import Protocol
from fade_service.access.limits import HEADER_LIMIT_BYTES
from fade_service.access.policy import Access
from fade_service.errors import ServiceError
from fade_service.health import Health
from fade_service.http_calls import HttpCalls
from fade_service.insight import Insight
from fade_service.logs import Event
from fade_service.metrics import Metrics, RunsCollector
from fade_service.rpc.server import make_server
from fade_service.runs import Runs
from fade_service.store import default_store_url, open_store
from fade_service.store.measured import MeasuredStore
from fade_service.web.app import make_app

STORE_CHECK_SECONDS = 2.0

_log = logging.getLogger(__name__)


class FadeServer:
    """A FADE scheduler: `start`, `stop`, `wait`; as a context manager it starts and stops itself.

    Args:
        store: URL of the store, for example ``sqlite:////var/lib/fade/fade.db``; by default a SQLite file in the user's state
            directory.
        host: Address to listen on.
        grpc_port, http_port: Ports; 0 takes free ones, which the attributes of the same names tell after `start`.
        drain_seconds: How long `stop` lets calls that are under way finish.
        access: Who may do what; by default everybody who reaches the loopback.

    Raises:
        ValueError: The store's URL is of no known form, or names a file that is something else or of a newer version; a
            number is out of bounds; TLS files cannot be used; or other machines would get in without being asked who they are.
        StoreUnavailableError: The store cannot be opened now.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        host: str = "127.0.0.1",
        grpc_port: int = 50051,
        http_port: int = 8080,
        drain_seconds: float = 10.0,
        access: Access | None = None,
    ) -> None:
        for name, port in (("grpc_port", grpc_port), ("http_port", http_port)):
            if not 0 <= port < 2**16:
                raise ValueError(f"{name} is {port}; give 0 to 65535")
        if not 0 <= drain_seconds < math.inf:
            raise ValueError(f"drain_seconds is {drain_seconds}; give a number of seconds, 0 or more")
        access = access or Access()
        access.check_host(host)
        self._credentials = access.tls.grpc_credentials() if access.tls else None
        self._tls_context = access.tls.http_context() if access.tls else None
        self.host = host
        self.grpc_port = grpc_port
        self.http_port = http_port
        self.store_url = store or default_store_url()
        self._drain_seconds = drain_seconds
        metrics = Metrics()
        self._store = MeasuredStore(open_store(self.store_url), self.store_url.partition(":")[0], metrics.store)
        self._health = Health("server", "store")
        runs = Runs(self._store)
        metrics.registry.register(RunsCollector(runs))
        self._insight = Insight(runs)
        self._grpc = make_server(runs, self._insight, metrics, self._health, access)
        self._web = _WebServer(HttpCalls(make_app(self._insight, metrics, self._health, access)), self._tls_context)
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._watch = threading.Thread(target=self._watch_store, name="fade-store-watch", daemon=True)

    def start(self) -> FadeServer:
        """Binds both ports and serves.

        Raises:
            OSError: A port cannot be bound.
        """
        listener = _bind(self.host, self.http_port)
        self.http_port = listener.getsockname()[1]
        try:
            self.grpc_port = self._add_grpc_port(_address(self.host, self.grpc_port))
        except RuntimeError:
            listener.close()
            raise OSError(f"cannot listen on {_address(self.host, self.grpc_port)}: is the port taken?") from None
        self._grpc.start()
        self._web.start(listener)
        self._check_store()
        self._watch.start()
        self._health.report("server")
        return self

    def stop(self) -> None:
        """Says NOT_SERVING, lets calls under way finish, flushes the store. Stopping again does nothing."""
        if self._stopping.is_set():
            self._stopped.wait()
            return
        self._stopping.set()
        self._health.report("server", "is stopping")
        drained = self._grpc.stop(self._drain_seconds)
        failpoints.reach("drain")
        drained.wait()
        self._insight.close()
        self._web.stop()
        if self._watch.is_alive():
            self._watch.join()
        self._store.close()
        self._stopped.set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Waits until the server has stopped; False if it still runs after that time."""
        return self._stopped.wait(timeout_seconds)

    def __enter__(self) -> FadeServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def http_url(self) -> str:
        """Where HTTP is served."""
        return f"{'http' if self._tls_context is None else 'https'}://{_address(self.host, self.http_port)}"

    def _add_grpc_port(self, address: str) -> int:
        if self._credentials is None:
            return self._grpc.add_insecure_port(address)
        return self._grpc.add_secure_port(address, self._credentials)

    def _watch_store(self) -> None:
        while not self._stopping.wait(STORE_CHECK_SECONDS):
            self._check_store()

    def _check_store(self) -> None:
        problem = ""
        try:
            self._store.ping()
        except ServiceError as error:
            problem = str(error)
        if self._health.report("store", problem):
            level = logging.WARNING if problem else logging.INFO
            _log.log(level, Event(event="store", serves=not problem, problem=problem))


class _WebServer:
    """uvicorn on a thread of its own."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            h11_max_incomplete_event_size=HEADER_LIMIT_BYTES,
            log_config=None,
            log_level="warning",
        )
        config.load()
        config.ssl = tls
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def start(self, listener: socket.socket) -> None:
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="fade-web", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=128)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on sockets of its own making only
    return listener


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
