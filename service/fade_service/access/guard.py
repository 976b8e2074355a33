"""What stands between an RPC and its use case once the request is read: limits, the project, quotas, the audit log."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import grpc
from google.protobuf.message import Message

from fade_service.access import audit
from fade_service.access.grpc_gate import CALLER
from fade_service.access.limits import TEXTS, check_text
from fade_service.access.policy import METHODS, Access
from fade_service.access.quotas import ObservationRate, RunCount
from fade_service.names import checked_id, checked_project, checked_run_name
from fade_service.runs import Runs

Answer = Callable[[Any, grpc.ServicerContext], Message]
"""An RPC, from request to response."""


class Guard:
    """Puts itself around the RPCs of one service."""

    def __init__(self, access: Access, runs: Runs, service: str) -> None:
        quotas = access.quotas
        self._runs = runs
        self._service = service
        self._has_projects = access.tokens is not None
        self._rate = ObservationRate(quotas.max_observations_per_second) if quotas.max_observations_per_second else None
        self._count = RunCount(quotas.max_runs_per_project, runs.store) if quotas.max_runs_per_project else None

    def around(self, method: str, answer: Answer) -> Answer:
        """The RPC, guarded."""
        answer = self._within_quotas(method, answer)
        rule = METHODS.get(f"/{self._service}/{method}")
        if self._has_projects and rule is not None:  # without a rule the gate lets nobody in
            answer = self._within_project(rule.project, answer)
        answer = _within_limits(method, answer) if method in TEXTS else answer
        return self._audited(method, answer) if method in audit.CHANGED_FIELDS else answer

    def _within_quotas(self, method: str, answer: Answer) -> Answer:
        rate, count = self._rate, self._count
        if method == "Observe" and rate is not None:

            def observe(request: Any, context: grpc.ServicerContext) -> Message:
                rate.take(project_of("name", request.name))
                return answer(request, context)

            return observe
        if method == "CreateRun" and count is not None:

            def create(request: Any, context: grpc.ServicerContext) -> Message:
                with count.room_for(project_of("parent", request.parent), checked_id("run_id", request.run_id)):
                    return answer(request, context)

            return create
        return answer

    def _within_project(self, field: str, answer: Answer) -> Answer:
        resource = attrgetter(field)

        def checked(request: Any, context: grpc.ServicerContext) -> Message:
            CALLER.get().check_project(project_of(field, resource(request)))
            return answer(request, context)

        return checked

    def _audited(self, method: str, answer: Answer) -> Answer:
        def audited(request: Any, context: grpc.ServicerContext) -> Message:
            if getattr(request, "validate_only", False):
                return answer(request, context)
            response: Any
            with audit.told(self._runs, method, request, CALLER.get(), context.peer()) as entry:
                response = answer(request, context)
                if method != "DeleteRun":
                    entry.after = response if method in ("CreateRun", "UpdateRun") else response.run
            return response  # type: ignore[no-any-return]  # a message

        return audited


def _within_limits(method: str, answer: Answer) -> Answer:
    def limited(request: Any, context: grpc.ServicerContext) -> Message:
        check_text(method, request)
        return answer(request, context)

    return limited


def project_of(field: str, resource: str) -> str:
    """The project that the resource name is in; "-" where it stands for all of them.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    if "/runs/" in resource:
        return checked_run_name(field, resource).split("/")[1]
    return checked_project(field, resource, all_allowed=True)
