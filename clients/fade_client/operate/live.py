"""The live view of `fade watch`. Importing this module imports rich."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fade_client.errors import UnavailableError
from fade_client.operate import exits, rows, text
from fade_client.operate.follow import KEPT
from fade_proto.v1 import observation_pb2, run_pb2

_STYLES = {"exploring": "green", "exploiting": "yellow", "floor": "red", "SERVER": "green", "PINNED": "magenta"}

_WARNINGS = 5

_NARROWEST, _BESIDE_THE_BARS = 10, 60
"""Characters."""


class LiveView:
    """A picture that is drawn over itself. A context manager."""

    def __init__(self) -> None:
        self._live = Live(console=Console(), auto_refresh=False)
        self._run = run_pb2.Run()
        self._source = ""
        self._past: dict[str, deque[dict[str, Any]]] = {}
        self._warnings: dict[tuple[str, str], str] = {}

    @staticmethod
    def is_possible() -> bool:
        """Whether the terminal can move its cursor and show bars."""
        console = Console()
        return not (console.is_dumb_terminal or console.options.ascii_only)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def show(self, run: run_pb2.Run, new: list[observation_pb2.Observation]) -> None:
        """Draws the run with what was observed since."""
        self._run = run
        for item in new:
            self._add(item)
        ended = run.state == run_pb2.Run.STATE_COMPLETED
        self._draw(Text("the run is completed" if ended else "Ctrl-C ends", "dim"))

    def away(self, since: datetime, error: UnavailableError) -> None:
        """Draws what was known last, and for how long it is no longer."""
        gone = text.span((datetime.now(timezone.utc) - since).total_seconds())
        self._draw(Text(f"away since {text.clock(since)} ({gone}): {exits.explain(error)[1]}", "bold red"))

    def _add(self, item: observation_pb2.Observation) -> None:
        document = rows.nested(self._run.name, item)
        self._source = document["source"]
        for seen in document["environments"]:
            past = self._past.setdefault(seen["environment"], deque(maxlen=KEPT))
            while past and past[-1]["revision"] >= item.revision:  # the run was restored to before it
                past.pop()
            past.append({**seen, "revision": item.revision})
        for warning in item.warnings:
            subject = f" ({warning.subject})" if warning.subject else ""
            self._warnings.pop((warning.reason, warning.subject), None)
            line = f"{warning.reason}{subject} at revision {item.revision}: {warning.message}"
            self._warnings[warning.reason, warning.subject] = line

    def _draw(self, footer: Text) -> None:
        warnings = [Text(line, "yellow") for line in list(self._warnings.values())[-_WARNINGS:]]
        environments = [self._environment(name, past) for name, past in sorted(self._past.items())]
        self._live.update(Group(self._head(), *environments, *warnings, footer), refresh=True)

    def _head(self) -> Text:
        document = rows.of_run(self._run)
        step = "" if document["trainer_step"] is None else f", trainer step {document['trainer_step']}"
        last = "never"
        if self._run.HasField("observe_time"):
            last = text.ago(text.moment(self._run.observe_time), datetime.now(timezone.utc))
        return Text.assemble(
            (document["name"], "bold"),
            f"  {document['state']}, mode ",
            (document["mode"], "bold"),
            "  ",
            (self._source, _STYLES.get(self._source, "red")),
            f"\nbranch {document['branch']} at revision {document['revision']}{step}, last report {last}",
        )

    def _environment(self, name: str, past: deque[dict[str, Any]]) -> RenderableType:
        newest = past[-1]
        width = max(_NARROWEST, self._live.console.width - _BESIDE_THE_BARS)
        grid = Table.grid(padding=(0, 2))
        for _ in range(4):
            grid.add_column(no_wrap=True)
        for title, key, remark in (
            ("alpha", "alpha", f"applied {text.number(newest['applied_alpha'])}"),
            ("delta", "delta", f"applied {text.number(newest['applied_delta'])}"),
            ("solve rate", "average_solve_rate", f"batch {text.number(newest['batch_solve_rate'])}"),
            ("entropy, nats", "average_entropy_nats", _entropy(newest)),
        ):
            bars = text.sparkline([point[key] for point in past], width)
            grid.add_row(f"  {title}", text.number(newest[key]), Text(bars, "cyan"), remark)
        head = Text.assemble("\n", (name, "bold"), "  ", (newest["phase"], _STYLES[newest["phase"]]))
        return Group(head, grid)


def _entropy(newest: dict[str, Any]) -> str:
    average, target = newest["average_entropy_nats"], newest["target_entropy_nats"]
    share = f" ({average / target:.0%})" if average is not None and target else ""
    return f"batch {text.number(newest['batch_entropy_nats'])}, target {text.number(target)}{share}"
