"""The gate before every gRPC method: it sees the headers, and ends a call that does not belong before its message is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from fade_service.access import audit
from fade_service.access.policy import METHODS, OPEN, Access, Caller
from fade_service.access.tls import subjects_of_call
from fade_service.errors import ServiceError
from fade_service.metrics import Metrics
from fade_service.rpc.status import abort

CALLER: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039  # frozen
"""Who made the call that this thread answers."""

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]
    Interceptor = grpc.ServerInterceptor[Any, Any]
else:
    Interceptor = grpc.ServerInterceptor

_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class GrpcGate(Interceptor):
    """Lets in who belongs."""

    def __init__(self, access: Access, metrics: Metrics) -> None:
        self._access = access
        self._metrics = metrics

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler | None], details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The method's handler, or one that refuses. A method that does not exist has none."""
        handler = continuation(details)
        rule = METHODS.get(details.method)
        if handler is None or rule == OPEN:
            return handler
        started = time.perf_counter()
        metadata: dict[str, Any] = dict(details.invocation_metadata)
        try:
            caller = self._access.admit(details.method, rule, metadata.get("authorization"))
        except ServiceError as refusal:
            return self._refusing(details.method, refusal, started)
        return self._letting_in(details.method, handler, caller)

    def _letting_in(self, method: str, handler: Handler, caller: Caller) -> Handler:
        has_certificates = self._access.tls is not None and self._access.tls.client_ca is not None
        kind = next(kind for kind in _KINDS if getattr(handler, kind) is not None)
        behaviour = getattr(handler, kind)

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            known = self._certified(method, caller, context) if has_certificates else caller
            before = CALLER.set(known)
            try:
                return behaviour(request, context)
            finally:
                CALLER.reset(before)

        return handler._replace(**{kind: answer})  # type: ignore[attr-defined, no-any-return]  # a named tuple

    def _certified(self, method: str, caller: Caller, context: grpc.ServicerContext) -> Caller:
        """The caller with what its certificate says."""
        subjects = subjects_of_call(context.auth_context())
        started = time.perf_counter()
        try:
            self._access.check_subjects(subjects)
        except ServiceError as refusal:
            self._count(method, refusal, started)
            abort(context, refusal)
        return replace(caller, subject=", ".join(sorted(subjects)))

    def _refusing(self, method: str, refusal: ServiceError, started: float) -> Handler:
        def refuse(requests: Any, context: grpc.ServicerContext) -> NoReturn:
            self._count(method, refusal, started)
            name = method.rpartition("/")[2]
            if name in audit.CHANGED_FIELDS and "token" in refusal.metadata:
                audit.write(name, Caller(token=refusal.metadata["token"]), context.peer(), refusal.reason)
            abort(context, refusal)

        # Whatever the method takes: a handler of a stream starts without waiting for a message, and this one never asks for any.
        return grpc.stream_unary_rpc_method_handler(refuse)

    def _count(self, method: str, refusal: ServiceError, started: float) -> None:
        service, _, name = method[1:].rpartition("/")
        counted = self._metrics.calls.of_method(service, name)
        counted.started.inc()
        counted.done(time.perf_counter() - started, refusal)
