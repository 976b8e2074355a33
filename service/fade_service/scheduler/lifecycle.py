"""A run's life beside its observations: create, read, configure, complete, delete."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import fields

from google.protobuf.empty_pb2 import Empty

from fade_core import EMPTY_STATE, FadeError, RunConfig, Warning
from fade_proto.convert import config_from_proto, config_to_proto, state_to_proto, warnings_to_proto
from fade_proto.storage.v1.storage_pb2 import BranchRecord, RunRecord
from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CompleteRunResponse,
    CreateRunRequest,
    DeleteRunRequest,
    GetRunRequest,
    ListRunsRequest,
    ListRunsResponse,
    UpdateRunRequest,
)
from fade_service.errors import ServiceError, invalid, of_maths
from fade_service.names import FIRST_BRANCH, checked_id, checked_project, checked_run_name, run_name
from fade_service.paging import Page
from fade_service.runs import COMMIT_ATTEMPTS, Change, Head, LoadedRun, Runs, contention, decoded, now
from fade_service.store.base import StoredRun

DEFAULT_PAGE_SIZE = 50

_LIVE = {item.name: bool(item.metadata["live"]) for item in fields(RunConfig)}
_OUTPUT_ONLY = "entropy_baseline"


def create_run(runs: Runs, request: CreateRunRequest) -> run_pb2.Run:
    """Creates a run, or joins the one of that name."""
    name = run_name(checked_project("parent", request.parent), checked_id("run_id", request.run_id))
    config = _config(request.run.config)
    uid, record, head = uuid.uuid4().hex, _new_record(config), _new_head()
    encoded = record.SerializeToString(deterministic=True)
    if request.validate_only:
        there = runs.store.get_run(name)
        stored = there or StoredRun(name=name, uid=uid, version=1, record=encoded, head=head.encode())
    else:
        stored = runs.store.create_run(name, uid, encoded, head.encode())
    run = decoded(stored)
    message = run_message(run)
    if run.uid != uid and request.run.HasField("config"):
        message.warnings.extend(warnings_to_proto(_differences(run.config, config)))
    return message


def get_run(runs: Runs, request: GetRunRequest) -> run_pb2.Run:
    """One run."""
    return run_message(runs.load(checked_run_name("name", request.name)))


def list_runs(runs: Runs, request: ListRunsRequest) -> ListRunsResponse:
    """A page of runs, in the order of their names."""
    project = checked_project("parent", request.parent, all_allowed=True)
    page = Page.of(request, "ListRuns", (project,), DEFAULT_PAGE_SIZE)
    prefix = "projects/" if project == "-" else run_name(project, "")
    found = list(runs.store.list_runs(prefix, page.after or "", page.size + 1))
    response = ListRunsResponse(runs=[run_message(decoded(item)) for item in found[: page.size]])
    if len(found) > page.size:
        response.next_page_token = page.token(found[page.size - 1].name)
    return response


def update_run(runs: Runs, request: UpdateRunRequest) -> run_pb2.Run:
    """Changes configuration fields from the next observation on."""
    name = checked_run_name("run.name", request.run.name)
    if not request.update_mask.paths and not request.rebaseline_entropy:
        raise invalid("update_mask", 'is empty; name what to change, for example "config.alpha_max"')
    named = [_config_field(path) for path in request.update_mask.paths]

    def decide(run: LoadedRun) -> Change | None:
        _check_etag(run, request.run.etag)
        config = _merged(run, request, named)
        if config == run.config:
            return None
        record = RunRecord()
        record.CopyFrom(run.record)
        record.update_time.CopyFrom(now())
        record.config_changes.add(
            config_revision=run.config_revision + 1,
            config=config_to_proto(config),
            create_time=record.update_time,
            reason=request.reason,
            branch=run.head.branch,
            revision=run.head.revision,
            rebaseline_entropy=request.rebaseline_entropy,
        )
        return Change(record=record)

    if not request.validate_only:
        return run_message(runs.change(name, decide))
    run = runs.load(name)
    change = decide(run)
    return run_message(run) if change is None or change.record is None else _preview(run, change.record)


def complete_run(runs: Runs, request: CompleteRunRequest) -> CompleteRunResponse:
    """Ends a run; again changes nothing."""

    def decide(run: LoadedRun) -> Change | None:
        if run.record.completed:
            return None
        record = RunRecord()
        record.CopyFrom(run.record)
        record.completed = True
        record.update_time.CopyFrom(now())
        return Change(record=record)

    run = runs.change(checked_run_name("name", request.name), decide)
    return CompleteRunResponse(run=run_message(run))


def delete_run(runs: Runs, request: DeleteRunRequest) -> Empty:
    """Deletes a run with its history."""
    name = checked_run_name("name", request.name)
    with runs.lock(name):
        for _ in range(COMMIT_ATTEMPTS):
            run = runs.load(name)
            _check_etag(run, request.etag)
            runs.forget(name)
            if runs.store.delete_run(name, run.version):
                return Empty()
    raise contention(name)


def run_message(run: LoadedRun) -> run_pb2.Run:
    """A run as the contract shows it."""
    record, head = run.record, run.head
    message = run_pb2.Run(
        name=run.name,
        uid=run.uid,
        state=run_pb2.Run.STATE_COMPLETED if record.completed else run_pb2.Run.STATE_ACTIVE,
        config=config_to_proto(run.config),
        config_revision=run.config_revision,
        etag=_etag(run),
        create_time=record.create_time,
        update_time=record.update_time,
        observe_time=head.observe_time,
        branch=head.branch,
        revision=head.revision,
        branches=[item.branch for item in record.branches],
    )
    if head.trainer_step is not None:
        message.trainer_step = head.trainer_step
    return message


def _new_record(config: RunConfig) -> RunRecord:
    stamp = now()
    record = RunRecord(create_time=stamp, update_time=stamp)
    record.config_changes.add(config_revision=1, config=config_to_proto(config), create_time=stamp, branch=FIRST_BRANCH)
    first = BranchRecord(start=state_to_proto(EMPTY_STATE), start_config_revision=1)
    first.branch.id = FIRST_BRANCH
    first.branch.create_time.CopyFrom(stamp)
    record.branches.append(first)
    return record


def _new_head() -> Head:
    return Head(branch=FIRST_BRANCH, revision=0, state=EMPTY_STATE, trainer_step=None, observe_time=None)


def _config(message: run_pb2.RunConfig) -> RunConfig:
    try:
        return config_from_proto(message)
    except FadeError as error:
        raise of_maths(error) from None


def _differences(stored: RunConfig, passed: RunConfig) -> list[Warning]:
    """A warning per field in which a joined run differs from what its joiner passed."""
    warnings = []
    for name in _LIVE:
        ours, theirs = getattr(stored, name), getattr(passed, name)
        if ours != theirs and name != _OUTPUT_ONLY:
            way_out = (
                "UpdateRun changes it"
                if _LIVE[name]
                else "to have that, take another name or delete the run (`fade runs delete`)"
            )
            message = f"the run has {name} = {ours}, and keeps it; {theirs} was passed; {way_out}"
            warnings.append(Warning(reason="CONFIG_DIFFERS", message=message, subject=name))
    return warnings


def _config_field(path: str) -> str:
    prefix, _, name = path.partition(".")
    if prefix != "config" or name not in _LIVE or name == _OUTPUT_ONLY:
        problem = 'names {path!r}, which cannot be changed; give "config." and the name of a configuration field'
        raise invalid("update_mask", problem, path=path)
    return name


def _merged(run: LoadedRun, request: UpdateRunRequest, named: list[str]) -> RunConfig:
    """The configuration after the update; a named field that is unset goes back to its default."""
    message = config_to_proto(run.config)
    given = {descriptor.name: value for descriptor, value in request.run.config.ListFields()}
    for name in named:
        message.ClearField(name)  # type: ignore[arg-type]  # a field's name, checked
        if name in given:
            setattr(message, name, given[name])
    message.entropy_baseline += request.rebaseline_entropy
    config = _config(message)
    for name in named:
        old, new = getattr(run.config, name), getattr(config, name)
        if old != new and not _LIVE[name]:
            raise ServiceError(
                "FIELD_NOT_LIVE",
                "config.{name} is {old} and cannot change while the run lives; for {new} take another name or delete the run",
                field=f"config.{name}",
                name=name,
                old=old,
                new=new,
            )
    return config


def _preview(run: LoadedRun, record: RunRecord) -> run_pb2.Run:
    after = StoredRun(name=run.name, uid=run.uid, version=run.version, record=record.SerializeToString(), head=run.head.encode())
    return run_message(decoded(after))


def _etag(run: LoadedRun) -> str:
    config = run.record.config_changes[-1].config.SerializeToString(deterministic=True)
    return hashlib.sha256(f"{run.uid} {run.config_revision} ".encode() + config).hexdigest()[:16]


def _check_etag(run: LoadedRun, etag: str) -> None:
    if etag and etag != _etag(run):
        raise ServiceError(
            "ETAG_MISMATCH",
            "the configuration of {name} was changed in between: its etag is {stored}, not {given}; read the run again",
            name=run.name,
            stored=_etag(run),
            given=etag,
        )
