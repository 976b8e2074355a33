"""The service is stopped, restarted, or not there yet: what trains on, what is kept, and what the history says afterwards."""

from __future__ import annotations

from typing import Any

from play import Play
from scenarios_schedule import report

BATCHES = [(2, 2.0), (3, 0.5), (1, 0.25), (6, 0.5), (4, 1.0)]


def _batch(number: int, **more: Any) -> dict[str, Any]:
    return report(number, *BATCHES[number], **more)


def _play(name: str, on_unavailable: str, config: dict[str, Any] | None = None, **more: Any) -> Play:
    return Play(name, {"ema_weight": 0.5, **(config or {})}, on_unavailable=on_unavailable, timeout_seconds=2, **more)


def plays() -> list[Play]:
    """Each policy."""
    late = [{"id": f"batch-{number}", "late": "HELD"} for number in (1, 2, 3)]
    mixed = {"rewards": [1, 0, 0, 0, 1, 1], "groups": ["m"] * 4 + ["c"] * 2, "environments": {"m": "math", "c": "code"}}
    unavailable = {"error": {"unavailable": True}}
    never_seen = _play("a service never seen gives neutral weights and a recorded gap", "hold")
    return [
        _play("a restart between two reports shows nowhere", "hold")
        .observe(_batch(0))
        .step(restart_server=True)
        .observe(_batch(1))
        .history("batch-0", "batch-1")
        .state(),
        _play("hold keeps the last schedule, and the reports reach the history in order", "hold")
        .observe(_batch(0, trainer_step=0))
        .step(stop_server=True)
        .observe(_batch(1, trainer_step=1), source="HELD")
        .observe(_batch(2, trainer_step=2), source="HELD")
        .observe(_batch(3, trainer_step=3), source="HELD")
        .step(start_server=True)
        .step(flush=True)
        .observe(_batch(4, trainer_step=4))
        .history("batch-0", *late, "batch-4")
        .state(),
        _play("hold gives an environment never seen neutral weights", "hold")
        .observe({"id": "math", "rewards": [1, 0, 0, 0], "groups": ["m"] * 4, "environments": {"m": "math"}})
        .step(stop_server=True)
        .observe({"id": "both", **mixed}, source="HELD")
        .step(start_server=True)
        .step(flush=True)
        .history("math", {"id": "both", "late": "HELD"})
        .state(),
        _play("hold makes the match_grpo factor anew", "hold", {"scale": "match_grpo"})
        .observe(_batch(0))
        .step(stop_server=True)
        .observe(_batch(1), source="HELD")
        .step(start_server=True)
        .step(flush=True)
        .history("batch-0", {"id": "batch-1", "late": "HELD"})
        .state(),
        _play("neutral weights, and the reports are kept", "neutral")
        .observe(_batch(0))
        .step(stop_server=True)
        .observe(_batch(1), source="NEUTRAL")
        .observe(_batch(2), source="NEUTRAL")
        .step(start_server=True)
        .step(flush=True)
        .observe(_batch(3))
        .history("batch-0", {"id": "batch-1", "late": "NEUTRAL"}, {"id": "batch-2", "late": "NEUTRAL"}, "batch-3")
        .state(),
        _play("a report repeated while the service is away is answered alike and kept once", "hold")
        .observe(_batch(0))
        .step(stop_server=True)
        .observe(_batch(1), source="HELD")
        .again(_batch(1), 2)
        .refused(_batch(1) | {"rewards": [0] * 8}, "OBSERVATION_CONFLICT", code="ALREADY_EXISTS")
        .step(start_server=True)
        .step(flush=True)
        .history("batch-0", {"id": "batch-1", "late": "HELD"})
        .state(),
        _play("raise raises and keeps nothing", "raise")
        .observe(_batch(0))
        .step(stop_server=True)
        .step(observe=_batch(1), **unavailable)
        .step(observe=_batch(1), **unavailable)
        .step(observe=_batch(1), **unavailable)
        .step(start_server=True)
        .step(flush=True)
        .observe(_batch(2))
        .history("batch-0", "batch-2")
        .state(),
        never_seen.step(stop_server=True)
        .lost(_batch(0))
        .lost(_batch(1))
        .lost(_batch(2))
        .step(start_server=True)
        .step(flush=True)
        .observe(_batch(3))
        .observe(_batch(4))
        .history({"id": "batch-3", "lost_reports": 3}, "batch-4")
        .state(),
        _play("a second client that joined holds the schedule that it found", "hold", writer="shared")
        .observe(_batch(0), client="first")
        .step(client="second", evaluate=_batch(4), expect={"source": "SERVER"})
        .step(stop_server=True)
        .observe(_batch(1), client="second", source="HELD")
        .step(start_server=True)
        .step(client="second", flush=True)
        .history("batch-0", {"id": "batch-1", "late": "HELD"})
        .state(),
    ]
