"""The one table of what each RPC and route needs, and who gets it. What stands in neither table is refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field

from fade_service.access.quotas import Quotas
from fade_service.access.tls import Tls
from fade_service.access.tokens import ALL_PROJECTS, Role, Tokens
from fade_service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Rule:
    """What a call needs.

    Attributes:
        role: The token's role; None opens it to everybody.
        project: Where the project stands: a field of the request or a parameter of the route. "-" needs a token for all
            projects; empty takes any project's.
    """

    role: Role | None
    project: str = ""


OPEN = Rule(None)
ANY_TOKEN = Rule(Role.READ)

METHODS = {
    "/fade.v1.SchedulerService/CreateRun": Rule(Role.WRITE, "parent"),
    "/fade.v1.SchedulerService/GetRun": Rule(Role.READ, "name"),
    "/fade.v1.SchedulerService/ListRuns": Rule(Role.READ, "parent"),
    "/fade.v1.SchedulerService/UpdateRun": Rule(Role.ADMIN, "run.name"),
    "/fade.v1.SchedulerService/CompleteRun": Rule(Role.WRITE, "name"),
    "/fade.v1.SchedulerService/DeleteRun": Rule(Role.ADMIN, "name"),
    "/fade.v1.SchedulerService/Observe": Rule(Role.WRITE, "name"),
    "/fade.v1.SchedulerService/GetSchedule": Rule(Role.READ, "name"),
    "/fade.v1.SchedulerService/ComputeAdvantages": Rule(Role.READ, "name"),
    "/fade.v1.SchedulerService/ListObservations": Rule(Role.READ, "parent"),
    "/fade.v1.SchedulerService/SimulateRun": Rule(Role.READ, "name"),
    "/fade.v1.SchedulerService/RestoreRun": Rule(Role.WRITE, "name"),
    "/grpc.health.v1.Health/Check": OPEN,
    "/grpc.health.v1.Health/Watch": OPEN,
    "/grpc.health.v1.Health/List": ANY_TOKEN,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": ANY_TOKEN,
}
"""By the method's full name."""

ROUTES = {
    "/healthz": OPEN,
    "/readyz": OPEN,
    "/metrics": Rule(Role.READ, ALL_PROJECTS),
    "/": OPEN,
    "/static": OPEN,
    "/openapi.json": ANY_TOKEN,
    "/docs": ANY_TOKEN,
    "/docs/oauth2-redirect": ANY_TOKEN,
    "/redoc": ANY_TOKEN,
    "/static-offline-docs": ANY_TOKEN,
    "/api/v1/session": ANY_TOKEN,
    "POST /api/v1/session": OPEN,
    "DELETE /api/v1/session": OPEN,
    "/api/v1/runs": Rule(Role.READ, "project"),
    "/api/v1/runs/{project}/{run}": Rule(Role.READ, "project"),
    "PATCH /api/v1/runs/{project}/{run}": Rule(Role.ADMIN, "project"),
    "/api/v1/runs/{project}/{run}/schedule": Rule(Role.READ, "project"),
    "/api/v1/runs/{project}/{run}/observations": Rule(Role.READ, "project"),
    "/api/v1/runs/{project}/{run}/series": Rule(Role.READ, "project"),
    "/api/v1/runs/{project}/{run}/config_changes": Rule(Role.READ, "project"),
    "POST /api/v1/runs/{project}/{run}/simulate": Rule(Role.READ, "project"),
    "/api/v1/overview": Rule(Role.READ, "project"),
    "/api/v1/events": Rule(Role.READ, "project"),
    "/api/v1/config_fields": ANY_TOKEN,
    "/api/v1/advantages": ANY_TOKEN,
    "/api/v1/decompose": ANY_TOKEN,
    "POST /api/v1/decompose": ANY_TOKEN,
}
"""By the route's path, as the application declares it; with the method, where it is none that only reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls; by default whoever reaches a server that asks for no token.

    Attributes:
        token: The token's name; empty without one.
        project: The project that it opens; "-" is all.
        role: What it may do there.
        subject: What the client's certificate says it is; empty without one.
    """

    token: str = ""
    project: str = ALL_PROJECTS
    role: Role = Role.ADMIN
    subject: str = ""

    def check_project(self, project: str) -> None:
        """Refuses another project than the token's, whether it exists or not.

        Raises:
            ServiceError: PROJECT_DENIED.
        """
        if self.project not in (ALL_PROJECTS, project):
            asked = "all projects" if project == ALL_PROJECTS else f"project {project}"
            problem = "token {token} is for project {project}, not for {asked}; name its project, or use another token"
            raise ServiceError("PROJECT_DENIED", problem, token=self.token, project=self.project, asked=asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a server asks of its callers; by default nothing.

    Attributes:
        tokens: Who may do what; None asks for no token.
        tls: None serves in plain text.
        quotas: What one project may use.
        insecure_public: Serve other machines without asking for anything.
    """

    tokens: Tokens | None = None
    tls: Tls | None = None
    quotas: Quotas = field(default_factory=Quotas)
    insecure_public: bool = False

    @property
    def asks(self) -> bool:
        """Whether single calls are looked at."""
        return self.tokens is not None or bool(self.tls and self.tls.allowed_subjects)

    @property
    def identifies(self) -> bool:
        """Whether callers have to show who they are, by token or by certificate."""
        return self.tokens is not None or (self.tls is not None and self.tls.client_ca is not None)

    def check_host(self, host: str) -> None:
        """Refuses to serve other machines without asking who calls.

        Raises:
            ValueError: Says what to give.
        """
        if not (self.identifies or self.insecure_public or is_loopback(host)):
            raise ValueError(
                f"--host {host} lets other machines in, and nothing asks who they are: give --tokens, or --tls-client-ca with"
                " --tls-cert and --tls-key; or say --insecure-public if the network alone keeps others out"
            )

    def admit(self, call: str, rule: Rule | None, authorization: str | None) -> Caller:
        """Who makes this call, if a token of that role came with it. The project is checked where it is known.

        Args:
            call: What the call is, in words.
            rule: What it needs; None, where no table has it.
            authorization: The header "authorization".

        Raises:
            ServiceError: TOKEN_MISSING, TOKEN_INVALID, ROLE_TOO_LOW, NO_ACCESS_RULE.
        """
        token = None
        if self.tokens is not None:
            scheme, _, presented = (authorization or "").partition(" ")
            if scheme.lower() != "bearer" or not presented:
                problem = "{call} needs a token; send the header authorization: Bearer TOKEN (fade_client: token=, or FADE_TOKEN)"
                raise ServiceError("TOKEN_MISSING", problem, call=call)
            token = self.tokens.find(presented.strip())
            if token is None:
                raise ServiceError("TOKEN_INVALID", "the token is not known here, or not any more; ask for one that is")
        if rule is None or rule.role is None:
            raise ServiceError("NO_ACCESS_RULE", "{call} has no access rule, and is refused to everybody", call=call)
        if token is None:
            return Caller()
        if token.role < rule.role:
            problem = "token {token} has the role {role}, and {call} needs {needed}; use another token"
            roles = {"role": token.role.name.lower(), "needed": rule.role.name.lower()}
            raise ServiceError("ROLE_TOO_LOW", problem, token=token.name, call=call, **roles)
        return Caller(token=token.name, project=token.project, role=token.role)

    def check_subjects(self, subjects: Collection[str]) -> None:
        """Refuses a client certificate none of whose names is on the list.

        Raises:
            ServiceError: SUBJECT_DENIED.
        """
        allowed = self.tls.allowed_subjects if self.tls is not None else frozenset()
        if allowed and allowed.isdisjoint(subjects):
            problem = "the client certificate is for {subjects}, and none of these is let in; use another one, or have it allowed"
            raise ServiceError("SUBJECT_DENIED", problem, subjects=", ".join(sorted(subjects)) or "nobody")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
