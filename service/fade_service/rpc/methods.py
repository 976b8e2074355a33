"""The RPCs: bytes in, a use case, bytes out, and every error with its status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from fade_proto.v1 import observation_pb2, scheduler_pb2
from fade_service import scheduler
from fade_service.access.guard import Answer, Guard
from fade_service.access.policy import Access
from fade_service.errors import ServiceError
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


def service_handler(runs: Runs, metrics: Metrics, access: Access) -> grpc.GenericRpcHandler[bytes, bytes]:
    """The service's methods. They take bytes, so that too large a message gets an error that names the limit."""
    answer = {name: _plain(use_case, runs) for name, use_case in _USE_CASES.items()}
    answer["Observe"] = _observe(runs, metrics)
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
            outcome = "replayed"
        elif request.split == observation_pb2.SPLIT_EVAL:
            outcome = "evaluated"
        else:
            outcome = "applied" if observed.response.outcome == observation_pb2.OUTCOME_APPLIED else "frozen"
        metrics.observations[outcome].inc()
        return observed.response

    return answer


def _handler(name: str, request_type: type[Message], answer: Answer, metrics: Metrics) -> Callable[..., bytes]:
    """One RPC: limits, parsing, errors and metrics around its answer."""
    counted = metrics.of_method(SERVICE_NAME, name)

    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        started = time.perf_counter()
        counted.started.inc()
        code = "OK"
        try:
            return answer(_parsed(request_type, request, context), context).SerializeToString()
        except ServiceError as error:
            code = error.code
            abort(context, error)
        except Exception as error:
            code = "INTERNAL"
            _log.exception("%s failed", name)
            problem = "the service failed on this request ({kind}), and its log says how; nothing was acknowledged"
            abort(context, ServiceError("INTERNAL", problem, kind=type(error).__name__))
        finally:
            counted.done(code, time.perf_counter() - started)

    return handle


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
