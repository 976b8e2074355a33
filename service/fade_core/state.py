"""The controller's state: averages per environment, and its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MATHS_VERSION = "1"
"""Raised when the same reports would move a state to other bits than before."""

START_SOLVE_RATE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentState:
    """The averages of one environment (FADE.md, section 3).

    Attributes:
        solve_rate: p_hat.
        entropy_nats: h_hat in nats per token; None until the warm-up is complete.
        initial_entropy_nats: What h_hat started from, in nats per token.
        warmup_entropy_nats: Entropies of the warm-up so far, in nats per token; empty once it is complete.
        entropy_kind: The kind of entropy that the average is made of; None before the first.
        entropy_baseline: The configuration's ``entropy_baseline`` that the entropy average belongs to.
        observation_count: Training observations that had this environment.
    """

    solve_rate: float = START_SOLVE_RATE
    entropy_nats: float | None = None
    initial_entropy_nats: float | None = None
    warmup_entropy_nats: tuple[float, ...] = ()
    entropy_kind: str | None = None
    entropy_baseline: int = 0
    observation_count: int = 0


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The complete state of a run's controller: all environments by name. Treat the mapping as read-only."""

    environments: Mapping[str, EnvironmentState]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, environments in the order of their names; floats survive JSON exactly."""
        return {
            "maths_version": MATHS_VERSION,
            "environments": {k: asdict(v) for k, v in sorted(self.environments.items())},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ControllerState:
        """The inverse of :meth:`to_dict`.

        Raises:
            TypeError: A field is unknown.
        """
        return cls(
            {
                name: EnvironmentState(**{**item, "warmup_entropy_nats": tuple(item["warmup_entropy_nats"])})
                for name, item in sorted(values["environments"].items())
            }
        )

    def digest(self) -> str:
        """SHA-256 of the canonical encoding, hexadecimal; equal digests mean equal bits."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


EMPTY_STATE = ControllerState({})
"""The state before the first observation."""
