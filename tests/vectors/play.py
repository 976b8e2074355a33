"""Writes a scenario step by step; what each step must give comes from reference.py."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from reference import Averages, Groups, Rules, mean

Step = dict[str, Any]
NEUTRAL = (1.0, 1.0)


class Play:
    """One scenario: its configuration, how its clients are set up, and the steps so far."""

    def __init__(self, name: str, config: Step | None = None, **settings: Any) -> None:
        self.scenario: Step = {"name": name, "config": config or {}, **settings, "steps": []}
        self.rules = Rules(config or {})
        self.averages: dict[str, Averages] = {}
        self.answered: dict[str, tuple[float, float]] = {}
        self.revision = 0

    def step(self, **step: Any) -> Play:
        """Adds a step as it is."""
        self.scenario["steps"].append(step)
        return self

    def observe(self, report: Step, *, hold: str = "", source: str = "SERVER", client: str = "", **expect: Any) -> Play:
        """Adds an observation that moves the run once. ``hold``: "" moves all, "solve_rate" holds that average, "all" both."""
        groups, names = Groups(self.rules, report), self._environments(report)
        moved: dict[str, tuple[float, float]] = {}
        facts: dict[str, Step] = {}
        for name in sorted(set(names.values())):
            own = self.averages.setdefault(name, Averages(self.rules))
            rates = groups.rates(label for label in names if names[label] == name) + self._filtered(report, name)
            entropy = self._entropy(report, name)
            own.move([] if hold else rates, None if hold == "all" else entropy)
            moved[name] = (own.alpha, own.delta)
            facts[name] = {"alpha": own.alpha, "delta": own.delta, "phase": own.phase}
            if source in ("SERVER", "PINNED"):
                facts[name]["metrics"] = self._metrics(own, rates, entropy)
        self.revision += 1
        if source in ("SERVER", "PINNED"):
            self.answered |= moved
            expect = {"outcome": "frozen" if hold else "applied", "degraded": False, "warnings": [], **expect}
        else:
            moved = {name: self.answered.get(name, NEUTRAL) if source == "HELD" else NEUTRAL for name in moved}
            facts = {name: {"alpha": alpha, "delta": delta} for name, (alpha, delta) in moved.items()}
        trained = moved if self.rules.word("mode", "active") != "shadow" else dict.fromkeys(moved, NEUTRAL)
        of_group = {label: trained.get(name, NEUTRAL) for label, name in names.items()}
        applied = source in ("SERVER", "PINNED") and self.rules.word("mode", "active") == "active"
        likelihood = self.rules.exact("likelihood", 0) if applied else Fraction(0)
        values = groups.advantages(of_group, self.rules.word("estimator", "plug_in"), likelihood)
        if self.rules.word("scale", "none") == "match_grpo":
            mass = groups.mass(of_group)
            scale = groups.mass(dict.fromkeys(of_group, NEUTRAL)) / mass if mass else 1.0
            values = [scale * value for value in values]
            for fact in facts.values():
                fact["scale"] = scale
        shown = next(iter(facts.values())) if len(facts) == 1 else {"environments": facts}
        step: Step = {"observe": report, "expect": {"source": source, "revision": self.revision, **shown, **expect}}
        step["expect"]["advantages"] = values
        return self.step(**({"client": client} if client else {}), **step)

    def refused(self, report: Step, reason: str, *, client: str = "", **error: Any) -> Play:
        """Adds an observation that is refused, and changes nothing."""
        return self.step(**({"client": client} if client else {}), observe=report, error={"reason": reason, **error})

    def lost(self, report: Step) -> Play:
        """Adds an observation that trains on neutral weights and never reaches the service."""
        values = Groups(self.rules, report).advantages(dict.fromkeys(report["groups"], NEUTRAL))
        expect = {"source": "NEUTRAL", "revision": None, "alpha": 1.0, "delta": 1.0, "advantages": values}
        return self.step(observe=report, expect=expect)

    def again(self, report: Step, step: int, client: str = "") -> Play:
        """Adds a report that was answered at ``step`` (from 0), and gets that same answer."""
        expect = self.scenario["steps"][step]["expect"]
        return self.step(**({"client": client} if client else {}), observe=report, expect=expect)

    def evaluate(self, report: Step, **expect: Any) -> Play:
        """Adds an evaluation: answered from the averages as they are, of one environment."""
        own = self.averages.get("default", Averages(self.rules))
        expect = {"source": "SERVER", "revision": self.revision, "alpha": own.alpha, "delta": own.delta, **expect}
        return self.step(evaluate=report, expect=expect)

    def state(self) -> Play:
        """Adds what the service must stand at."""
        environments = {
            name: {
                "solve_rate": float(own.solve_rate),
                "entropy_nats": None if own.entropy is None else float(own.entropy),
                "observation_count": own.count,
            }
            for name, own in sorted(self.averages.items())
        }
        return self.step(state={"revision": self.revision, "environments": environments})

    def history(self, *entries: Step | str) -> Play:
        """Adds what the service must have recorded, oldest first; a string is the id of a report in time."""
        whole = [{"id": entry} if isinstance(entry, str) else entry for entry in entries]
        return self.step(history=[{"late": "", "lost_reports": 0, **entry} for entry in whole])

    def _environments(self, report: Step) -> dict[Any, str]:
        """The environment of each group that has a rollout, and those of filtered groups under keys of their own."""
        given = report.get("environments", {})
        padding = report.get("statuses", [""] * len(report["rewards"]))
        live = [label for label, status in zip(report["groups"], padding, strict=True) if status != "PADDING"]
        names = {label: given.get(label, "default") for label in live}
        if not names:
            return {None: "default"}
        return names

    @staticmethod
    def _filtered(report: Step, name: str) -> list[Fraction]:
        counts = [report.get("filtered_all_solved", 0), report.get("filtered_all_failed", 0)]
        solved, failed = (count.get(name, 0) if isinstance(count, dict) else count for count in counts)
        return [Fraction(1)] * solved + [Fraction(0)] * failed

    @staticmethod
    def _entropy(report: Step, name: str) -> Fraction | None:
        given = report.get("entropy")
        given = given.get(name) if isinstance(given, dict) and "sum_nats" not in given else given
        return Fraction(str(given["sum_nats"])) / given["token_count"] if given and given["token_count"] else None

    @staticmethod
    def _metrics(own: Averages, rates: list[Fraction], entropy: Fraction | None) -> Step:
        known = {
            "p_hat": own.solve_rate,
            "h_hat": own.entropy,
            "h_target": own.target,
            "p_step": mean(rates) if rates else None,
            "h_step": entropy,
            "lr_scale": own.lr_scale if own.rules.has("lr_rule") else None,
        }
        return {"observations": own.count} | {name: float(value) for name, value in known.items() if value is not None}


def text_of(plays: list[Play]) -> str:
    """The scenarios as JSON, one step a line."""

    def line(value: Any) -> str:
        return json.dumps(value, allow_nan=False)

    parts = []
    for play in plays:
        head = {key: value for key, value in play.scenario.items() if key != "steps"}
        steps = ",\n    ".join(line(step) for step in play.scenario["steps"])
        parts.append(f'  {line(head)[:-1]}, "steps": [\n    {steps}\n  ]}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"
