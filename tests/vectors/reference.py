"""FADE (arXiv 2607.01490) in plain Python with exact fractions: what the vectors expect, without a line of the code under test.

A report is a dict in the words of README.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

SCORED = ("SCORED", "TRUNCATED", "STALE")


class Rules:
    """How a run maps rewards and moves its averages: the configuration fields that the vectors use, with their defaults."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = dict(config)
        self.low, self.high = self.exact("reward_min", 0), self.exact("reward_max", 1)
        self.threshold = self.exact("solve_threshold", (self.low + self.high) / 2)
        self.weight = self.exact("ema_weight", "0.02")

    def has(self, name: str) -> bool:
        """Whether the configuration sets a field."""
        return name in self._config

    def exact(self, name: str, default: Any) -> Fraction:
        """A number of the configuration as it is written there: 0.02 is 1/50."""
        return Fraction(str(self._config.get(name, default)))

    def change(self, values: dict[str, Any]) -> None:
        """A live change of the configuration."""
        self._config |= values

    def word(self, name: str, default: str) -> str:
        """A word of the configuration."""
        return str(self._config.get(name, default))


class Groups:
    """The scored rollouts of a report by group, rewards mapped to [0, 1]; rows of one rollout count once."""

    def __init__(self, rules: Rules, report: dict[str, Any]) -> None:
        count = len(report["rewards"])
        statuses = report.get("statuses", ["SCORED"] * count)
        rollouts = report.get("rollouts", range(count))
        oldest = report["current_policy_version"] - rules.exact("max_policy_lag", 0) if rules.has("max_policy_lag") else None
        self.flagged = "solved" in report
        self.labels = report["groups"]
        self.row_reward: list[Fraction | None] = []
        self.members: dict[Any, list[Fraction]] = defaultdict(list)
        self.solved: dict[Any, list[bool]] = defaultdict(list)
        self.fresh: dict[Any, list[bool]] = defaultdict(list)
        self.counted: list[bool] = []
        met = set()
        for row, (reward, label) in enumerate(zip(report["rewards"], report["groups"], strict=True)):
            scored = reward not in (None, "NaN") and statuses[row] in SCORED
            mapped = (Fraction(str(reward)) - rules.low) / (rules.high - rules.low) if scored else None
            self.row_reward.append(None if mapped is None else min(max(mapped, Fraction(0)), Fraction(1)))
            self.counted.append(rollouts[row] not in met)
            if mapped is not None and rollouts[row] not in met:
                solved = report["solved"][row] if self.flagged else Fraction(str(reward)) >= rules.threshold
                stale = statuses[row] == "STALE" or (oldest is not None and report["policy_versions"][row] < oldest)
                self.members[label].append(min(max(mapped, Fraction(0)), Fraction(1)))
                self.solved[label].append(solved)
                if not stale:
                    self.fresh[label].append(solved)
            met.add(rollouts[row])

    def rates(self, labels: Iterable[Any]) -> list[Fraction]:
        """The solve rate of each group that has fresh rollouts."""
        return [mean(map(Fraction, self.fresh[label])) for label in dict.fromkeys(labels) if self.fresh[label]]

    def advantages(
        self, weights: dict[Any, tuple[float, float]], estimator: str = "plug_in", likelihood: Fraction = Fraction(0)
    ) -> list[float]:
        """A_i per row, under (alpha, delta) of each group: (1 - rbar)^(alpha - 1) (r - rbar), failures divided by delta; all over
        rbar^likelihood."""
        return [self._advantage(label, reward, *weights[label], estimator, float(likelihood))
                for label, reward in zip(self.labels, self.row_reward, strict=True)]  # fmt: skip

    def _advantage(
        self, label: Any, reward: Fraction | None, alpha: float, delta: float, estimator: str, likelihood: float
    ) -> float:
        rewards, solved = self.members[label], self.solved[label]
        if reward is None or len(set(rewards)) < 2 or (self.flagged and len(set(solved)) < 2):
            return 0.0
        if estimator == "subset" and len(rewards) > alpha:
            success, failure = subset(len(rewards), sum(solved), alpha)
            return success if reward == 1 else -failure / delta
        rate = mean(map(Fraction, solved)) if self.flagged else mean(rewards)
        factor = min(float(1 - rate) ** (alpha - 1), 4.0) if rate != 1 else 1.0
        factor /= float(rate) ** likelihood if rate else 1.0
        centred = float(reward - mean(rewards))
        return factor * (centred if centred >= 0 else centred / delta)

    def mass(self, weights: dict[Any, tuple[float, float]], estimator: str = "plug_in") -> float:
        """sum |A| over rollouts."""
        pairs = zip(self.advantages(weights, estimator), self.counted, strict=True)
        return math.fsum(abs(value) for value, counted in pairs if counted)


class Averages:
    """p_hat and h_hat of one environment, and the alpha and delta that they give."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.solve_rate = Fraction(1, 2)
        self.entropy: Fraction | None = None
        self.initial: Fraction | None = None
        self.warmup: list[Fraction] = []
        self.count = 0

    def move(self, rates: list[Fraction], entropy: Fraction | None) -> None:
        """One observation: the solve rates of its groups, its mean token entropy in nats; none of them: held."""
        self.count += 1
        weight = self.rules.weight
        if rates:
            self.solve_rate = (1 - weight) * self.solve_rate + weight * mean(rates)
        if entropy is None:
            return
        if self.entropy is not None:
            self.entropy = (1 - weight) * self.entropy + weight * entropy
            return
        self.warmup.append(entropy)
        if len(self.warmup) == self.rules.exact("entropy_warmup", 1):
            self.entropy = self.initial = mean(self.warmup)

    @property
    def alpha(self) -> float:
        """clip(1.5 (1 - p) / p, alpha_min, alpha_max), alpha_max at p = 0; or what the rule says."""
        rules, smallest, largest = self.rules, self.rules.exact("alpha_min", 1), self.rules.exact("alpha_max", 3)
        if rules.word("mode", "active") == "pinned":
            return float(rules.exact("pinned_alpha", 1))
        if rules.word("alpha_rule", "solve_rate") == "fixed":
            return float(rules.exact("alpha", 1))
        if rules.word("alpha_rule", "solve_rate") == "log_decay":
            return float(largest) - float(largest - smallest) * self._decay()
        if self.solve_rate == 0:
            return float(largest)
        return float(min(max(Fraction(3, 2) * (1 - self.solve_rate) / self.solve_rate, smallest), largest))

    @property
    def delta(self) -> float:
        """clip(1 + h - target, delta_min, delta_max), delta_max without an entropy; or what the rule says."""
        rules, smallest, largest = self.rules, self.rules.exact("delta_min", "0.3"), self.rules.exact("delta_max", 1)
        rule, target = rules.word("delta_rule", "additive"), self.target
        if rules.word("mode", "active") == "pinned":
            return float(rules.exact("pinned_delta", 1))
        if rule == "fixed":
            return float(rules.exact("delta", 1))
        if rule == "log_decay":
            return float(largest) - float(largest - smallest) * self._decay()
        if target is None or self.entropy is None:
            return float(largest)
        raw = 1 + self.entropy - target if rule == "additive" else self.entropy / target
        return float(min(max(raw, smallest), largest))

    @property
    def target(self) -> Fraction | None:
        """h_target in nats per token, where it is known."""
        if self.rules.has("target_entropy_nats"):
            return self.rules.exact("target_entropy_nats", 0)
        initial = self.rules.exact("initial_entropy_nats", 0) if self.rules.has("initial_entropy_nats") else self.initial
        return None if initial is None else self.rules.exact("target_entropy_fraction", "0.5") * initial

    @property
    def phase(self) -> str:
        """exploring at delta_max, floor at delta_min, exploiting between them."""
        if self.delta >= self.rules.exact("delta_max", 1):
            return "exploring"
        return "floor" if self.delta <= float(self.rules.exact("delta_min", "0.3")) else "exploiting"

    @property
    def lr_scale(self) -> float:
        """1, or from 1 to lr_min as the rule says."""
        rules, rule = self.rules, self.rules.word("lr_rule", "none")
        smallest = float(rules.exact("lr_min", "0.05"))
        if rule == "none" or rules.word("mode", "active") == "shadow":
            return 1.0
        if rule == "entropy":
            return (
                1.0
                if self.entropy is None or self.initial is None
                else min(max(float(self.entropy / self.initial), smallest), 1.0)
            )
        done = min(1.0, self.count / float(rules.exact("lr_observations", 1000)))
        return smallest + (1 - smallest) * (1 - done if rule == "linear" else math.cos(math.pi * done / 2) ** 2)

    def _decay(self) -> float:
        return min(1.0, math.log(max(1, self.count)) / math.log(self.rules.exact("decay_observations", 1000)))


def mean(values: Iterable[Fraction]) -> Fraction:
    """Exactly."""
    known = list(values)
    return sum(known, Fraction(0)) / len(known)


def subset(size: int, solved: int, alpha: float) -> tuple[float, float]:
    """A_S and |A_F| (delta = 1) of the subset estimator; C(n, a) = Gamma(n + 1) / (Gamma(a + 1) Gamma(n - a + 1))."""

    def binomial(n: int, a: float) -> float:
        return 0.0 if n <= a - 1 or n < 0 else math.gamma(n + 1) / (math.gamma(a + 1) * math.gamma(n - a + 1))

    whole = binomial(size - solved, alpha) / binomial(size, alpha)
    part = binomial(size - solved - 1, alpha - 1) / binomial(size - 1, alpha - 1)
    return size / (size - alpha) * whole, size / (size - alpha) * (part - whole)
