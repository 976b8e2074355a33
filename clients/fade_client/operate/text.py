"""Numbers, times and tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from google.protobuf.timestamp_pb2 import Timestamp

_LARGE = 1e6
"""From here on numbers are told by their size."""

_BARS = "▁▂▃▄▅▆▇█"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Aligned columns, two spaces apart; those whose header is in ``right`` are flush right. Each row is one line."""
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def number(value: float | None) -> str:
    """Three decimals; "-" for what is not known."""
    return "-" if value is None else f"{value:.3f}" if abs(value) < _LARGE else f"{value:.3g}"


def plain(text: str) -> str:
    """The same with control characters, which terminals obey, as their escapes."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def against(value: float | None, target: float | None) -> str:
    """ "0.412/0.350": a value and what it should be."""
    return f"{number(value)}/{number(target)}"


def moment(stamp: Timestamp) -> datetime:
    """The same, in UTC."""
    return stamp.ToDatetime(tzinfo=timezone.utc)


def clock(when: datetime) -> str:
    """ "2026-03-01 09:12:44", in the reader's own zone."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(when: datetime, now: datetime) -> str:
    """ "3 min ago"."""
    seconds = int((now - when).total_seconds())
    return f"{span(seconds)} ago" if seconds > 0 else "now"


def span(seconds: float) -> str:
    """ "12 s", "3 min", "5 h", "4 days", rounded down."""
    for size, unit in ((172_800, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // min(size, 86_400))} {unit}"
    return f"{int(seconds)} s"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last ``width`` values as bars between their smallest and their largest; a gap where none is known."""
    shown = values[-width:]
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(_BARS) - 1)
    return "".join(" " if value is None else _BARS[round((value - low) / step) if step else 0] for value in shown)
