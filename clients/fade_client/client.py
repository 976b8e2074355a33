"""The client that a trainer holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from fade_client import columns
from fade_client.arrays import Column
from fade_client.checkpoint import Checkpoint
from fade_client.columns import EntropyLike, Environments
from fade_client.distributed import on_first_rank
from fade_client.schedule import AdvantageUnits, Schedule
from fade_client.session import Session
from fade_client.settings import OnRejected, OnUnavailable, Settings, default_writer, read_address, read_tls, read_token, required
from fade_core import RunConfig


class FadeClient:
    """Reports each generation batch of one run and gets the schedule for that same batch. A context manager.

    One client per run and process; one thread observes at a time. It may be forked: the child gets a channel of its own.

    Args:
        address: HOST:PORT of the service's gRPC, or another target of gRPC's (``dns:///HOST:PORT``, ``unix:PATH``); default
            ``FADE_ADDRESS``.
        run: The run's id, 1 to 63 lower-case letters, digits and inner hyphens; default ``FADE_RUN``. A run that exists is
            joined: its stored configuration wins, and each difference is logged.
        project: The project's id; default ``FADE_PROJECT``, else "default".
        config: Configuration of the run where it does not exist yet; None means the defaults.
        token: Sent as a bearer token; default ``FADE_TOKEN``, else none.
        tls_ca: A PEM file of the authorities that the service's certificate must hang on; default ``FADE_TLS_CA``, else
            the client speaks plain text.
        tls_certificate: PEM files of this client's own certificate and of its key, for a service that asks for one; default
            ``FADE_TLS_CERT`` and ``FADE_TLS_KEY``.
        writer: The id of this attempt of the job, 1 to 128 characters; give all ranks that call the same one. Default: made anew.
        timeout_seconds: The longest that one call may take, over all attempts; at most a day.
        on_unavailable: What an observation gets while the service is away. ``"local"``: this client's own controller goes on from
            the last acknowledged state; ``"hold"``: the last schedule; ``"neutral"``: alpha = delta = 1. With these the report is
            kept and sent later. ``"raise"``: UnavailableError, and the report is not kept.
        on_rejected: What an observation gets that is refused: ``"neutral"`` weights, with the reason in log and metrics, or
            ``"raise"``. The first observation, and the first after a restore, raises all the same: then the set-up is wrong.
            While the service is away it is checked against ``config``, where that is given. Once a schedule came out, from
            wherever it came, no refusal stops the training.
        advantage_units: ``"unit"``: advantages on the mapped [0, 1] reward scale; ``"declared"``: times reward_max - reward_min.
        unsent_limit_bytes: Memory for reports kept for later. Past it, batches train on neutral weights and are counted as lost.
        spool: A file of this client's own that reports kept for later are written to as well. A client that is made with it after
            the process ended goes on as the same writer from where the old one stood, and sends them.

    Raises:
        SettingsError: An argument is missing or wrong. Nothing is sent before the first observation.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        run: str | None = None,
        project: str | None = None,
        config: RunConfig | None = None,
        token: str | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
        writer: str | None = None,
        timeout_seconds: float = 2.0,
        on_unavailable: OnUnavailable = "local",
        on_rejected: OnRejected = "neutral",
        advantage_units: AdvantageUnits = "unit",
        unsent_limit_bytes: int = 64 * 2**20,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = Settings(
            address=read_address(address, os.environ),
            run=required("run", run, "FADE_RUN", os.environ),
            project=os.environ.get("FADE_PROJECT") or "default" if project is None else project,
            config=config,
            token=read_token(token, os.environ),
            tls=read_tls(tls_ca, tls_certificate, os.environ),
            writer=default_writer() if writer is None else writer,
            timeout_seconds=timeout_seconds,
            on_unavailable=on_unavailable,
            on_rejected=on_rejected,
            advantage_units=advantage_units,
            unsent_limit_bytes=unsent_limit_bytes,
            spool=None if spool is None else Path(spool),
        )
        self._session = Session(settings)
        self._settings = self._session.settings

    @classmethod
    def local(
        cls,
        config: RunConfig | None = None,
        *,
        on_rejected: OnRejected = "neutral",
        advantage_units: AdvantageUnits = "unit",
    ) -> FadeClient:
        """The same in process: the controller of ``fade_core``, no service. Its schedules have the source LOCAL."""
        settings = Settings(config=config, on_rejected=on_rejected, advantage_units=advantage_units)
        client = cls.__new__(cls)
        client._session = Session(settings)
        client._settings = settings
        return client

    @property
    def writer(self) -> str:
        """The id of this attempt of the job."""
        return self._settings.writer

    @property
    def trainer_step(self) -> int | None:
        """The last trainer's step along the run's line, unsent reports included; None where none is known."""
        return self._session.trainer_step

    def observe(
        self,
        observation_id: str,
        *,
        rewards: Column,
        groups: Column,
        entropy: EntropyLike | Mapping[str, EntropyLike] | None = None,
        environments: Environments | None = None,
        rollouts: Column | None = None,
        statuses: Column | None = None,
        solved: Column | None = None,
        policy_versions: Column | None = None,
        current_policy_version: int | None = None,
        trainer_step: int | None = None,
        filtered_all_solved: int | Mapping[str, int] = 0,
        filtered_all_failed: int | Mapping[str, int] = 0,
        prefiltered: bool = False,
        evaluation: bool = False,
        process_group: Any = None,
    ) -> Schedule:
        """Reports one generation batch, moves the run's controller once, and returns the schedule for this same batch.

        Columns have one entry per row (N) and may be numpy, torch or lists, in any order of the rows.

        Args:
            observation_id: Yours, 1 to 128 characters; the same id with the same content counts once.
            rewards: On the declared scale; None and NaN are missing.
            groups: Any hashable labels; the rows of one prompt share one, and a group lives in one observation.
            entropy: ``(sum_nats, token_count)`` or :class:`Entropy` over all tokens, or a mapping of environment to these.
            environments: The environment of each group, by its label; None means that all are of one.
            rollouts: Labels; rows that share one are one rollout (fan-out) and count once.
            statuses: :class:`RowStatus` values; 0 is SCORED.
            solved: Flags; they win over the configured threshold.
            policy_versions: The version that generated each row.
            current_policy_version: The version that this batch will update; needed with ``policy_versions``.
            trainer_step: The trainer's own step; never decreasing.
            filtered_all_solved: Groups dropped before the report, all solved: one number, or a mapping by environment.
            filtered_all_failed: The same, all failed.
            prefiltered: Groups were dropped by their rewards and not counted.
            evaluation: Answer and move nothing.
            process_group: A torch.distributed group, or True for the default one. Every rank of it makes this call; the first
                rank's arguments are reported (gather the rows first), and its schedule or exception comes out on every rank.

        Raises:
            UnavailableError: Only with ``on_unavailable="raise"``.
            RejectedError: The report was refused, by reason, field and row; see ``on_rejected``.
            ClosedError: The client was closed.
        """

        report = partial(
            columns.report,
            rewards=rewards,
            groups=groups,
            entropy=entropy,
            environments=environments,
            rollouts=rollouts,
            statuses=statuses,
            solved=solved,
            policy_versions=policy_versions,
            current_policy_version=current_policy_version,
            filtered_all_solved=filtered_all_solved,
            filtered_all_failed=filtered_all_failed,
            prefiltered=prefiltered,
        )
        make = partial(
            Schedule, observation_id=observation_id, units=self._settings.advantage_units, group_environments=environments
        )
        observe = partial(self._session.observe, observation_id, report, make, trainer_step=trainer_step, evaluation=evaluation)
        return on_first_rank(process_group, observe)

    def state_dict(self) -> dict[str, Any]:
        """What belongs in the trainer's checkpoint; JSON-able, and needs no service.

        It holds the last acknowledged state of all environments with its digest, branch, revision, trainer_step, the
        configuration, and the reports not yet sent. With a ``process_group`` the first rank's is the one to keep.
        """
        return self._session.checkpoint().to_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, process_group: Any = None) -> None:
        """Goes on from a checkpoint: on a new branch that stands where the checkpoint stood.

        The run is joined (or created with the checkpoint's configuration), restored, and the checkpoint's unsent reports are sent
        again. While the service is away, observations go on from the checkpoint as ``on_unavailable`` says, and the run is
        restored when it is back.

        Args:
            state: What :meth:`state_dict` returned, also after a turn through JSON.
            process_group: As in :meth:`observe`.

        Raises:
            CheckpointError: The dict is damaged or of another version.
            RejectedError: The service refused to restore.
            UnavailableError: Only with ``on_unavailable="raise"``.
            ClosedError: The client was closed.
        """

        on_first_rank(process_group, lambda: self._session.load(Checkpoint.from_dict(state)))

    def restore(self, revision: int | None = None, *, process_group: Any = None) -> None:
        """Goes on from the service's own history, without a checkpoint: on a new branch from a revision of the current one.

        Reports not yet sent are dropped and counted as lost.

        Args:
            revision: Observations along the current branch to keep; None means all.
            process_group: As in :meth:`observe`.

        Raises:
            RejectedError: The service refused; there may be no such revision.
            UnavailableError: The service did not answer; nothing has changed.
            ClosedError: The client was closed.
        """

        on_first_rank(process_group, lambda: self._session.restore(revision))

    def flush(self, seconds: float | None = None) -> bool:
        """Waits up to ``seconds`` (default: ``timeout_seconds``) until no report waits for the service; whether that is so."""
        return self._session.flush(self._settings.timeout_seconds if seconds is None else seconds)

    def close(self) -> None:
        """Flushes for up to ``timeout_seconds`` and ends; what could not be sent is logged. Closing twice is fine."""
        self._session.close()

    def __enter__(self) -> FadeClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
