"""Small inputs from what users of such trainers met in public, under fixed alpha and delta, with the advantages given by hand."""

from __future__ import annotations

from typing import Any

from play import Play

THIRD = 1 / 3
SCORED, PADDING = "SCORED", "PADDING"


def case(name: str, report: dict[str, Any], values: list[float], alpha: float = 1.0, delta: float = 1.0, **more: Any) -> Play:
    """One observation of one case; ``values`` are what its own numbers say, against the formula's."""
    expect = {key: more.pop(key) for key in ("hold", "degraded", "warnings") if key in more}
    config = {"alpha_rule": "fixed", "alpha": alpha, "delta_rule": "fixed", "delta": delta, **more}
    play = Play(name, config).observe({"id": "batch", **report}, **expect)
    made = play.scenario["steps"][0]["expect"]["advantages"]
    assert all(abs(a - b) <= 1e-14 and (a == 0) == (b == 0) for a, b in zip(made, values, strict=True)), (name, made, values)
    return play.state()


def plays() -> list[Play]:
    """Numbered as in the list of cases."""
    down = [1, 0, 1] * 8 + [None] * 40
    down_values = ([THIRD, -2 * THIRD, THIRD] * 8) + [0.0] * 40
    uneven, labels = [1, 0, 0, 1, 1, 0, 0, 0, 1], ["g0"] * 4 + ["g1"] * 2 + ["g2"] * 3
    uneven_values = [0.5, -0.5, -0.5, 0.5, 0.5, -0.5, -THIRD, -THIRD, 2 * THIRD]
    order = [0, 6, 4, 1, 2, 7, 5, 3, 8]
    return [
        case(
            "case 1: a missing reward is not a zero",
            {"rewards": [1, 0, None, 0, 1, None], "groups": ["g"] * 6},
            [0.5, -0.25, 0, -0.25, 0.5, 0],
            delta=2.0,
        ),
        case(
            "case 2: a NaN stays in its group",
            {"rewards": [1, 0, "NaN", 1, 0], "groups": ["A", "A", "A", "B", "B"]},
            [0.5, -0.5, 0, 0.5, -0.5],
        ),
        case(
            "case 4: under the quorum the averages are held and advantages still come",
            {"rewards": down, "groups": ["g"] * 64},
            down_values,
            hold="all",
            degraded=True,
            warnings=["LOW_COVERAGE"],
        ),
        case(
            "case 5: rewards of -1 and 1",
            {"rewards": [-1, -1, 1, -1], "groups": ["g"] * 4},
            [-0.1875, -0.1875, 0.5625, -0.1875],
            alpha=2.0,
            reward_min=-1,
        ),
        case("case 7: a constant group of shaped rewards", {"rewards": [0.37] * 4, "groups": ["g"] * 4}, [0.0] * 4, alpha=0.5),
        case(
            "case 8: shaped differences inside an all-failed group carry nothing",
            {"rewards": [-0.02, -0.11, -0.3, -0.05], "groups": ["g"] * 4, "solved": [False] * 4},
            [0.0] * 4,
            reward_min=-1,
        ),
        case(
            "case 9: parts that cancel",
            {"rewards": [-3] * 4, "groups": ["g"] * 4},
            [0.0] * 4,
            reward_min=-13,
            reward_max=7,
        ),
        case(
            "case 11: all solved and all failed get zeros under a static alpha below 1",
            {"rewards": [1] * 4 + [0] * 4, "groups": ["a"] * 4 + ["b"] * 4},
            [0.0] * 8,
            alpha=0.5,
        ),
        case(
            "case 12: an only success and an only failure keep their signal",
            {"rewards": [1, 0, 0, 0, 1, 1, 1, 0], "groups": ["a"] * 4 + ["b"] * 4},
            [0.75, -0.125, -0.125, -0.125, 0.25, 0.25, 0.25, -0.375],
            delta=2.0,
        ),
        case(
            "case 14: everything filtered, no rows",
            {"rewards": [], "groups": [], "filtered_all_solved": 3, "filtered_all_failed": 1},
            [],
        ),
        case(
            "case 15: equal prompts in two groups stay two",
            {"rewards": [0] * 4 + [1] * 4, "groups": ["g1"] * 4 + ["g2"] * 4},
            [0.0] * 8,
        ),
        case(
            "case 16: siblings that became singletons get zeros and a warning",
            {"rewards": [1, 0, 1, 0], "groups": ["a", "b", "c", "d"]},
            [0.0] * 4,
            warnings=["SINGLETON_GROUPS"],
        ),
        case("case 18: uneven groups have means of their own", {"rewards": uneven, "groups": labels}, uneven_values),
        case(
            "case 19: interleaved rows get the same values",
            {"rewards": [uneven[row] for row in order], "groups": [labels[row] for row in order]},
            [uneven_values[row] for row in order],
        ),
        case(
            "case 21: padding is no rollout",
            {"rewards": [1, 0, 1, 0, 1, 0, 0, 0], "groups": ["g"] * 8, "statuses": [SCORED] * 6 + [PADDING] * 2},
            [0.5, -0.5, 0.5, -0.5, 0.5, -0.5, 0, 0],
        ),
        case(
            "case 23: a partial group is warned about where the size is declared",
            {"rewards": [1, 0, 1, 0, 1], "groups": ["a", "a", "b", "b", "b"]},
            [0.5, -0.5, THIRD, -2 * THIRD, THIRD],
            group_size=2,
            warnings=["PARTIAL_GROUPS"],
        ),
        case(
            "a static alpha below 1 is capped at a factor of 4",
            {"rewards": [1] * 31 + [0], "groups": ["g"] * 32},
            [4 / 32] * 31 + [-4 * 31 / 32],
            alpha=0.5,
        ),
        case(
            "a static alpha of 2.5 with a delta of a half",
            {"rewards": [1, 0, 0, 0], "groups": [7, 7, 7, 7]},
            [0.75**2.5] + [-0.5 * 0.75**1.5] * 3,
            alpha=2.5,
            delta=0.5,
        ),
        case(
            "flags decide the difficulty, the mapped mean stays the baseline",
            {"rewards": [0.9, 0.5, 0.2, 0.4], "groups": ["g"] * 4, "solved": [True, True, False, False]},
            [0.2, 0.0, -0.15, -0.05],
            alpha=2.0,
        ),
        case(
            "rows of one rollout count once and share its advantage",
            {"rewards": [1, 1, 1, 0, 0], "groups": ["g"] * 5, "rollouts": ["x", "x", "x", "y", "z"]},
            [2 * THIRD, 2 * THIRD, 2 * THIRD, -THIRD, -THIRD],
        ),
        case(
            "a truncated row counts, an error does not",
            {"rewards": [1, 0, 0, 0], "groups": ["g"] * 4, "statuses": [SCORED, "TRUNCATED", "ERROR", "MISSING"]},
            [0.5, -0.5, 0, 0],
        ),
        case(
            "stale rows are in the baseline and not in the solve rate",
            {"rewards": [1, 0, 0, 0], "groups": ["g"] * 4, "policy_versions": [9, 9, 3, 3], "current_policy_version": 10},
            [0.75, -0.25, -0.25, -0.25],
            max_policy_lag=2,
        ),
        case(
            "a reward a float32 sum outside the range is taken as its end",
            {"rewards": [1.0000001, 0, 1, 0], "groups": ["g"] * 4},
            [0.5, -0.5, 0.5, -0.5],
        ),
    ]
