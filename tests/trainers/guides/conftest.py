"""What the guides' tests share: a real server, the guides' own text, and FADE written down once more."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import numpy as np
import pytest

from fade_proto.v1 import scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

GUIDES = Path(__file__).parents[3] / "docs" / "trainers"


class Fade:
    """FADE.md, sections 2 and 3, for one environment and the default configuration."""

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.width = low, high - low
        self.solve_rate = 0.5
        self.entropy: float | None = None
        self.target = 0.0

    def schedule(self) -> tuple[float, float]:
        alpha = float(np.clip(1.5 * (1 - self.solve_rate) / self.solve_rate, 1, 3))
        return alpha, 1.0 if self.entropy is None else float(np.clip(1 + self.entropy - self.target, 0.3, 1))

    def observe(self, groups: list[list[float]], nats_per_token: float | None = None) -> None:
        rates = [np.mean([(reward - self.low) / self.width >= 0.5 for reward in group]) for group in groups]
        self.solve_rate = 0.98 * self.solve_rate + 0.02 * float(np.mean(rates))
        if nats_per_token is not None and self.entropy is None:
            self.entropy, self.target = nats_per_token, 0.5 * nats_per_token
        elif nats_per_token is not None and self.entropy is not None:
            self.entropy = 0.98 * self.entropy + 0.02 * nats_per_token

    def advantages(self, group: list[float], alpha: float, delta: float) -> Any:
        """In the rewards' own units; NaN is missing."""
        mapped = (np.array(group) - self.low) / self.width
        there = ~np.isnan(mapped)
        if there.sum() < 2 or np.ptp(mapped[there]) == 0:
            return np.zeros(len(mapped))
        mean = mapped[there].mean()
        centred = np.where(there, mapped - mean, 0)
        return (1 - mean) ** (alpha - 1) * np.where(centred < 0, centred / delta, centred) * self.width


@pytest.fixture
def fade() -> type[Fade]:
    return Fade


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """HOST:PORT of a server, which the environment names for the run "guide"."""
    from fade_service import FadeServer

    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as running:
        address = f"127.0.0.1:{running.grpc_port}"
        monkeypatch.setenv("FADE_ADDRESS", address)
        monkeypatch.setenv("FADE_RUN", "guide")
        yield address


@pytest.fixture
def history(server: str) -> Callable[[], list[Any]]:
    """The observations along the run's current branch, oldest first."""

    def read() -> list[Any]:
        with grpc.insecure_channel(server) as channel:
            request = scheduler_pb2.ListObservationsRequest(parent="projects/default/runs/guide", page_size=1000)
            return list(SchedulerServiceStub(channel).ListObservations(request, timeout=10).observations)

    return read


@pytest.fixture
def blocks() -> Callable[[str, str], list[str]]:
    """The code blocks of one language in a guide."""

    def read(guide: str, language: str = "python") -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", (GUIDES / f"{guide}.md").read_text(), re.DOTALL)

    return read


@pytest.fixture
def added(blocks: Any) -> Callable[[str], list[str]]:
    """The lines that a guide's diff adds."""
    return lambda guide: re.findall(r"^\+\s*(.*)$", blocks(guide, "diff")[0], re.MULTILINE)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Puts a module with these names where the trainer's own would be, with its parents."""

    def place(name: str, **names: Any) -> ModuleType:
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, ModuleType(path))
            if depth > 1:
                setattr(sys.modules[".".join(parts[: depth - 1])], parts[depth - 1], sys.modules[path])
        for key, value in names.items():
            setattr(sys.modules[name], key, value)
        return sys.modules[name]

    return place


@pytest.fixture
def run_snippet(blocks: Any, stand_in: Any) -> Callable[[str], dict[str, Any]]:
    """The names that a guide's file defines, with the trainer's modules standing by."""

    def run(guide: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": f"fade_{guide}"}
        exec(compile(blocks(guide)[0], f"{guide}.md", "exec"), names)
        return names

    return run
