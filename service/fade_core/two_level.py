"""Advantages that see only success or failure: wS on a success, -wF on a failure (FADE.md, sections 1 and 5).

Every formula here takes k, the solved rollouts of each group, and G, its scored ones, as float64 (M,), with p = k / G and
q = 1 - p, and gives wS and wF, float64 (M,) each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fade_core.config import SMALLEST_ALPHA, SMALLEST_DELTA
from fade_core.errors import InvalidBatchError

FACTOR_CAP = 4.0
"""Largest difficulty factor of a static alpha below 1 (FADE.md, section 2)."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Weights = tuple[Floats, Floats]
Given = Mapping[str, float]
Formula = Callable[[Floats, Floats, Given], Weights]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that an advantage takes.

    Attributes:
        default: Its value where none is given.
        smallest, largest: The bounds, inside; an infinite one means any finite number.
        draws: It counts rollouts drawn from a group: whole, and no more than the group has.
    """

    default: float
    smallest: float = 0.0
    largest: float = 1e6
    draws: bool = False

    def problem(self, value: float) -> str | None:
        """What is wrong with a value; None where nothing is."""
        if not (self.smallest <= value <= self.largest and math.isfinite(value)):
            if self.largest == math.inf:
                return f"is {value}; give a finite number of {self.smallest:g} or more"
            return f"is {value}; give a number from {self.smallest:g} to {self.largest:g}"
        return f"is {value}; give a whole number" if self.draws and value != int(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """A registered advantage by its weights.

    Attributes:
        name: What it is called here.
        success, failure: wS and wF in words of p, q, G and k.
        source: Where it comes from.
        parameters: By name.
        formula: wS and wF of k and G.
    """

    name: str
    success: str
    failure: str
    source: str
    parameters: Mapping[str, Parameter]
    formula: Formula

    def given(self, parameters: Given) -> dict[str, float]:
        """All its parameters: those given, checked, and the others' defaults.

        Raises:
            InvalidBatchError: A parameter is unknown or out of bounds.
        """
        for key, value in parameters.items():
            if key not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                problem = f"{key!r} is no parameter of {self.name!r}, which takes: {known}"
                raise InvalidBatchError("advantage.parameters", problem)
            wrong = self.parameters[key].problem(value)
            if wrong:
                raise InvalidBatchError("advantage.parameters", f"{key!r} {wrong}")
        return {key: parameters.get(key, parameter.default) for key, parameter in self.parameters.items()}

    def weights(self, solved: Integers, sizes: Integers, parameters: Given) -> Weights:
        """wS and wF of M groups.

        Args:
            solved: int (M,), k.
            sizes: int (M,), G, 1 or more.
            parameters: As :meth:`given` takes them.

        Returns:
            float64 (M,) each; wS is 0 where nothing was solved and wF where nothing failed, as no rollout carries them.

        Raises:
            InvalidBatchError: As :meth:`given`; or a group has fewer rollouts than are drawn from it.
        """
        given = self.given(parameters)
        for key, parameter in self.parameters.items():
            if parameter.draws and (sizes < given[key]).any():
                group = int(np.argmax(sizes < given[key]))
                problem = f"{key!r} is {given[key]:g}, but a group has {sizes[group]} scored rollouts; draw no more than it has"
                raise InvalidBatchError("advantage.parameters", problem)
        success, failure = self.formula(solved.astype(np.float64), sizes.astype(np.float64), given)
        return np.where(solved > 0, success, 0.0), np.where(solved < sizes, failure, 0.0)


_REGISTRY: dict[str, TwoLevel] = {}


def two_level_advantages() -> Mapping[str, TwoLevel]:
    """Every registered advantage by name, in alphabetical order."""
    return dict(sorted(_REGISTRY.items()))


def registered(name: str) -> TwoLevel:
    """The advantage of that name.

    Raises:
        InvalidBatchError: There is none.
    """
    if name not in _REGISTRY:
        raise InvalidBatchError("advantage.name", f"is {name!r}; choose one of {', '.join(sorted(_REGISTRY))}")
    return _REGISTRY[name]


def _register(name: str, success: str, failure: str, source: str, **parameters: Parameter) -> Callable[[Formula], Formula]:
    def add(formula: Formula) -> Formula:
        _REGISTRY[name] = TwoLevel(
            name=name, success=success, failure=failure, source=source, parameters=parameters, formula=formula
        )
        return formula

    return add


_DRAWS = Parameter(default=4.0, smallest=1.0, draws=True)


@_register("reinforce", "1", "0", "rewards 0 and 1, no baseline")
@_register("psr", "1", "0", "positive samples only, arXiv 2506.01347")
def _success_only(k: Floats, g: Floats, given: Given) -> Weights:
    return np.ones_like(k), np.zeros_like(k)


@_register("reinforce_signed", "1", "1", "rewards -1 and 1, no baseline")
def _reinforce_signed(k: Floats, g: Floats, given: Given) -> Weights:
    return np.ones_like(k), np.ones_like(k)


@_register("nsr", "0", "1", "negative samples only, arXiv 2506.01347")
def _nsr(k: Floats, g: Floats, given: Given) -> Weights:
    return np.zeros_like(k), np.ones_like(k)


@_register("w_reinforce", "lambda", "1", "W-REINFORCE, arXiv 2506.01347", **{"lambda": Parameter(default=0.1)})
def _w_reinforce(k: Floats, g: Floats, given: Given) -> Weights:
    return np.full_like(k, given["lambda"]), np.ones_like(k)


@_register("grpo_mean", "q", "p", "GRPO without standard deviation: Dr. GRPO, arXiv 2503.20783")
def _grpo_mean(k: Floats, g: Floats, given: Given) -> Weights:
    return (g - k) / g, k / g


@_register("rloo", "(G-k)/(G-1)", "k/(G-1)", "REINFORCE leave-one-out; 0 for a group of one")
def _rloo(k: Floats, g: Floats, given: Given) -> Weights:
    return _over(g - k, g - 1), _over(k, g - 1)


@_register("grpo_std", "sqrt(q/p)", "sqrt(p/q)", "GRPO by the population's standard deviation: DAPO, GSPO, CISPO on policy")
def _grpo_std(k: Floats, g: Floats, given: Given) -> Weights:
    return np.sqrt(_over(g - k, k)), np.sqrt(_over(k, g - k))


@_register(
    "grpo_std_ddof1",
    "sqrt((G-1)/G) sqrt(q/p)",
    "sqrt((G-1)/G) sqrt(p/q)",
    "GRPO by the sample's standard deviation (torch.std)",
)
def _grpo_std_ddof1(k: Floats, g: Floats, given: Given) -> Weights:
    return _scaled(np.sqrt((g - 1) / g), _grpo_std(k, g, given))


@_register("maxrl", "q/p", "1 (0 if k = 0)", "MaxRL: r - rbar over rbar")
def _maxrl(k: Floats, g: Floats, given: Given) -> Weights:
    return _over(g - k, k), np.where(k > 0, 1.0, 0.0)


@_register("pass_at_k", "K q^K", "K p q^(K-1)", "pass@K with its mean as baseline", k=Parameter(default=4.0, smallest=1.0))
def _pass_at_k(k: Floats, g: Floats, given: Given) -> Weights:
    return _scaled(given["k"], _power(k, g, {"alpha": given["k"]}))


@_register("pkpo", "(K/G) C(G-k,K-1)/C(G-1,K-1)", "0", "PKPO, leave-one-out minus one, arXiv 2505.15201", k=_DRAWS)
def _pkpo(k: Floats, g: Floats, given: Given) -> Weights:
    draws = given["k"]
    return draws / g * _all_fail(g - 1, np.maximum(k - 1, 0), draws - 1), np.zeros_like(k)


@_register(
    "pass_at_k_training",
    "sqrt((1-rho)/rho), rho = rho_K(G,k)",
    "(rho_K(G,k) - rho_{K-1}(G-1,k)) / sqrt(rho(1-rho))",
    "pass@k training, arXiv 2508.10751",
    k=_DRAWS,
)
def _pass_at_k_training(k: Floats, g: Floats, given: Given) -> Weights:
    draws = given["k"]
    none = _all_fail(g, k, draws)  # 1 - rho_K(G, k)
    of_the_others = _all_fail(g - 1, np.minimum(k, g - 1), draws - 1)
    return np.sqrt(_over(none, 1 - none)), _over(of_the_others - none, np.sqrt(none * (1 - none)))


@_register("leave_one_out_pass_at_g", "1 if k = 1 else 0", "0", "best of the group minus best of the others, arXiv 2503.19595")
def _leave_one_out_pass_at_g(k: Floats, g: Floats, given: Given) -> Weights:
    return np.where(k == 1, 1.0, 0.0), np.zeros_like(k)


@_register(
    "log_mean_exp",
    "q (e^b - 1)/(b Z), Z = 1 + p (e^b - 1)",
    "p (e^b - 1)/(b Z)",
    "log-mean-exp of the reward at temperature b, arXiv 2509.24261",
    b=Parameter(default=1.0, smallest=1e-6, largest=100.0),
)
def _log_mean_exp(k: Floats, g: Floats, given: Given) -> Weights:
    growth = np.expm1(given["b"])
    return _scaled(growth / (given["b"] * (1 + k / g * growth)), _grpo_mean(k, g, given))


@_register(
    "quantile",
    "1/sqrt(pq) if p <= 1 - K else 0",
    "0 if p <= 1 - K else 1/sqrt(pq)",
    "QAE: the K-quantile as baseline, arXiv 2509.22611",
    level=Parameter(default=0.4, largest=1.0),
)
def _quantile(k: Floats, g: Floats, given: Given) -> Weights:
    weight = _over(g, np.sqrt(k * (g - k)))
    baseline_fails = (g - k) / g >= given["level"]
    return np.where(baseline_fails, weight, 0.0), np.where(baseline_fails, 0.0, weight)


@_register("f_grpo", "q^gamma sqrt(q/p)", "q^gamma sqrt(p/q)", "F-GRPO, arXiv 2602.06717", gamma=Parameter(default=1.0))
def _f_grpo(k: Floats, g: Floats, given: Given) -> Weights:
    return _scaled(((g - k) / g) ** given["gamma"], _grpo_std(k, g, given))


@_register("wapo", "q", "0", "WAPO, arXiv 2606.16154")
def _wapo(k: Floats, g: Floats, given: Given) -> Weights:
    return (g - k) / g, np.zeros_like(k)


@_register(
    "ha_dw",
    "lambda e^-(p-C) sqrt(q/p)",
    "lambda e^(p-C) sqrt(p/q)",
    "HA-DW with anchor C, arXiv 2601.08521",
    anchor=Parameter(default=0.5, largest=1.0),
    **{"lambda": Parameter(default=1.3)},
)
def _ha_dw(k: Floats, g: Floats, given: Given) -> Weights:
    success, failure = _scaled(given["lambda"], _grpo_std(k, g, given))
    above = k / g - given["anchor"]
    return np.exp(-above) * success, np.exp(above) * failure


@_register(
    "asym_grpo",
    "q",
    "p/delta",
    "AsymGRPO, the sign probe, arXiv 2607.01490",
    delta=Parameter(default=0.5, smallest=SMALLEST_DELTA, largest=math.inf),
)
def _asym_grpo(k: Floats, g: Floats, given: Given) -> Weights:
    return (g - k) / g, k / g / given["delta"]


@_register(
    "power",
    "q^alpha",
    "p q^(alpha-1)",
    "Power, the difficulty probe, arXiv 2607.01490; q^(alpha-1) is at most 4",
    alpha=Parameter(default=2.0, smallest=SMALLEST_ALPHA, largest=math.inf),
)
def _power(k: Floats, g: Floats, given: Given) -> Weights:
    q = np.where(k < g, (g - k) / g, 1.0)  # nothing failed: wS is 0 whatever the factor
    return _scaled(np.minimum(q ** (given["alpha"] - 1), FACTOR_CAP), _grpo_mean(k, g, given))


@_register(
    "fade",
    "q^alpha",
    "p q^(alpha-1)/delta",
    "FADE at one alpha and delta, arXiv 2607.01490; q^(alpha-1) is at most 4",
    alpha=Parameter(default=1.0, smallest=SMALLEST_ALPHA, largest=math.inf),
    delta=Parameter(default=1.0, smallest=SMALLEST_DELTA, largest=math.inf),
)
def _fade(k: Floats, g: Floats, given: Given) -> Weights:
    success, failure = _power(k, g, given)
    return success, failure / given["delta"]


@_register(
    "beta",
    "q^(a+1) p^-b",
    "q^a p^(1-b)",
    "grpo_mean (0, 0), power (alpha-1, 0), maxrl (0, 1) and grpo_std (-1/2, 1/2) as one family; 0 if k = 0 or k = G",
    a=Parameter(default=0.25, smallest=-1.0),
    b=Parameter(default=1.0, smallest=-1.0, largest=1.0),
)
def _beta(k: Floats, g: Floats, given: Given) -> Weights:
    mixed = (k > 0) & (k < g)
    p, q = np.where(mixed, k / g, 0.5), np.where(mixed, (g - k) / g, 0.5)
    return _scaled(np.where(mixed, q ** given["a"] * p ** -given["b"], 0.0), (q, p))


def _scaled(factor: Floats | float, weights: Weights) -> Weights:
    return factor * weights[0], factor * weights[1]


def _over(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient; 0 where the denominator is 0."""
    quotient: Floats = np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)
    return quotient


def _all_fail(n: Floats, c: Floats, draws: float) -> Floats:
    """C(n - c, K) / C(n, K) = 1 - rho_K(n, c): the chance that K of n rollouts, c of them solved, all failed.

    As a running product, so that nothing overflows; it needs K <= n.
    """
    chance = np.ones_like(n)
    for drawn in range(int(draws)):
        chance = chance * np.maximum(n - c - drawn, 0.0) / (n - drawn)
    return chance
