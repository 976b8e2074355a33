"""Ids: a report counts once, however often and by how many it is sent."""

from __future__ import annotations

from play import Play
from scenarios_schedule import report


def plays() -> list[Play]:
    """Replays, conflicts, many callers, ids of any kind."""
    first = {"id": "b7", "rewards": [1, 0], "groups": ["g7", "g7"]}
    other_order = {"id": "b7", "rewards": [0, 1], "groups": ["g7", "g7"]}
    return [
        Play("case 30: a report that is sent again counts once, and other content is a conflict", {"ema_weight": 0.5})
        .observe(first)
        .again(first, 0)
        .refused(first | {"rewards": [0, 0]}, "OBSERVATION_CONFLICT", code="ALREADY_EXISTS")
        .refused(other_order, "OBSERVATION_CONFLICT", code="ALREADY_EXISTS")
        .history("b7")
        .state(),
        Play("an answer from further back is the stored one", {"ema_weight": 0.5})
        .observe(report(0, 2, 2.0))
        .observe(report(1, 7, 0.5))
        .again(report(0, 2, 2.0), 0)
        .observe(report(2, 3, 0.25))
        .history("batch-0", "batch-1", "batch-2")
        .state(),
        Play("a stored answer outlives a restart", {"ema_weight": 0.5})
        .observe(report(0, 2, 2.0))
        .step(restart_server=True)
        .again(report(0, 2, 2.0), 0)
        .observe(report(1, 5, 0.5))
        .history("batch-0", "batch-1")
        .state(),
        _many(),
        Play("case 31: ids are neither dense nor periodic", {"ema_weight": 0.5})
        .observe(report(3, 2) | {"trainer_step": 0})
        .observe(report(0, 5) | {"trainer_step": 3})
        .observe(report(0, 1) | {"id": "zwölf / 12 \u2192", "trainer_step": 3})
        .history("batch-3", "batch-0", "zwölf / 12 \u2192")
        .state(),
    ]


def _many() -> Play:
    play = Play("case 34: eight callers with one report make one update and get equal answers", {"ema_weight": 0.5})
    play.observe(report(0, 3, 2.0)).observe(report(1, 5, 0.5))
    play.scenario["steps"][-1]["callers"] = 8
    return play.history("batch-0", "batch-1").state()
