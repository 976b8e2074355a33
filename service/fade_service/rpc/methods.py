"""The RPCs: bytes in, a use case, bytes out, and every error with its status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from fade_proto.v1 import scheduler_pb2
from fade_service import scheduler
from fade_service.access.grpc_gate import CALLER
from fade_service.access.guard import Answer, Guard
from fade_service.access.policy import Access
from fade_service.errors import ServiceError
from fade_service.insight import Insight
from fade_service.logs import CALL, LONGEST_NAME, Call, Event, milliseconds
from fade_service.metrics import Metrics
from fade_service.rpc.status import abort
from fade_service.runs import Runs

SERVICE_NAME = scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"].full_name

MESSAGE_LIMIT_BYTES = 16 * 2**20

_log = logging.getLogger(__name__)

UseCase = Callable[[Runs, Any], Message]

_USE_CASES: dict[str, UseCase] = {
    "CreateRun": scheduler.create_run,
    "GetRun": scheduler.get_run,
    "ListRuns": scheduler.list_runs,
    "UpdateRun": scheduler.update_run,
    "CompleteRun": scheduler.complete_run,
    "DeleteRun": scheduler.delete_run,
    "GetSchedule": scheduler.get_schedule,
    "ComputeAdvantages": scheduler.compute_advantages,
    "ListObservations": scheduler.list_observations,
    "RestoreRun": scheduler.restore_run,
}


def service_handler(runs: Runs, insight: Insight, metrics: Metrics, access: Access) -> grpc.GenericRpcHandler[bytes, bytes]:
    """The service's methods. They take bytes, so that too large a message gets an error that names the limit."""
    answer = {name: _plain(use_case, runs) for name, use_case in _USE_CASES.items()}
    answer["Observe"] = _observe(runs, metrics)
    answer["SimulateRun"] = lambda request, context: insight.simulate_run(request)
    guard = Guard(access, runs, SERVICE_NAME)
    methods = scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"].methods
    return grpc.method_handlers_generic_handler(
        SERVICE_NAME,
        {
            method.name: grpc.unary_unary_rpc_method_handler(
                _handler(
                    method.name,
                    getattr(scheduler_pb2, method.input_type.name),
                    guard.around(method.name, answer[method.name]),
                    metrics,
                )
            )
            for method in methods
        },
    )


def _plain(use_case: UseCase, runs: Runs) -> Answer:
    return lambda request, context: use_case(runs, request)


def _observe(runs: Runs, metrics: Metrics) -> Answer:
    def answer(request: scheduler_pb2.ObserveRequest, context: grpc.ServicerContext) -> scheduler_pb2.ObserveResponse:
        observed = scheduler.observe(runs, request)
        if observed.replayed:
            context.set_trailing_metadata((("fade-replayed", "true"),))
        metrics.observations.count(request, observed.response, replayed=observed.replayed)
        return observed.response

    return answer


def _handler(name: str, request_type: type[Message], answer: Answer, metrics: Metrics) -> Callable[..., bytes]:
    """One RPC: limits, parsing, errors, metrics and the log around its answer."""
    counted = metrics.calls.of_method(SERVICE_NAME, name)

    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        started = time.perf_counter()
        counted.started.inc()
        outer = CALL.set(Call(context.invocation_metadata))
        message: Message | None = None
        refusal: ServiceError | None = None
        failure: Exception | None = None
        try:
            message = _parsed(request_type, request, context)
            return answer(message, context).SerializeToString()
        except ServiceError as error:
            refusal = error
            abort(context, refusal)
        except Exception as error:
            failure = error
            problem = "the service failed on this request ({kind}), and its log says how; nothing was acknowledged"
            refusal = ServiceError("INTERNAL", problem, kind=type(error).__name__)
            abort(context, refusal)
        finally:
            seconds = time.perf_counter() - started
            counted.done(seconds, refusal)
            level = logging.DEBUG if refusal is None else logging.INFO if failure is None else logging.ERROR
            if _log.isEnabledFor(level):
                _log.log(level, _event(name, message, refusal, seconds), exc_info=failure)
            CALL.reset(outer)

    return handle


def _event(method: str, request: Message | None, refusal: ServiceError | None, seconds: float) -> Event:
    """How a call ended."""
    event = Event(event="call", method=method, outcome="OK" if refusal is None else refusal.reason)
    if refusal is not None and refusal.field:
        event["field"] = refusal.field
    if CALLER.get().token:
        event["token"] = CALLER.get().token
    for name in ("name", "parent", "run_id", "branch", "observation_id", "writer"):
        value = getattr(request, name, "")
        if value:
            event[name] = value[:LONGEST_NAME]
    return Event(event, milliseconds=milliseconds(seconds))


def _parsed(request_type: type[Message], request: bytes, context: grpc.ServicerContext) -> Message:
    remaining: float | None = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise ServiceError("DEADLINE_PASSED", "the deadline passed before the request was begun; nothing was changed")
    if len(request) > MESSAGE_LIMIT_BYTES:
        problem = "the request has {size} bytes, and {limit} is the limit; report fewer rows per observation"
        raise ServiceError("MESSAGE_TOO_LARGE", problem, size=len(request), limit=MESSAGE_LIMIT_BYTES)
    try:
        return request_type.FromString(request)
    except DecodeError:
        problem = "the request is no {type}; generate the client's code from proto/fade/v1"
        raise ServiceError("INVALID_FIELD", problem, type=request_type.DESCRIPTOR.full_name) from None
