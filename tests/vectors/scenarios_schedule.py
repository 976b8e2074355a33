"""The scheduled controller over some steps: alpha, delta and the averages behind them."""

from __future__ import annotations

from typing import Any

from play import Play


def report(number: int, solved: int, entropy: float | None = None, **more: Any) -> dict[str, Any]:
    """A batch of 8 rows in two groups, the first ``solved`` solved; entropy in nats per token, over 40 tokens."""
    body: dict[str, Any] = {"id": f"batch-{number}", "rewards": [1] * solved + [0] * (8 - solved)}
    body["groups"] = [f"prompt {row % 2}" for row in range(8)]
    if entropy is not None:
        body["entropy"] = {"sum_nats": entropy * 40, "token_count": 40}
    return body | more


def _run(name: str, config: dict[str, Any], batches: list[tuple[int, float | None]], **more: Any) -> Play:
    play = Play(name, config)
    for number, (solved, entropy) in enumerate(batches):
        play.observe(report(number, solved, entropy, **more))
    return play.state()


def plays() -> list[Play]:
    """Rules, entropy, environments, modes."""
    mixed = {"id": "mixed", "rewards": [1, 0, 1, 1, 0, 0, 0, 1], "groups": ["m"] * 4 + ["c"] * 4,
             "environments": {"m": "math", "c": "code"}}  # fmt: skip
    fast = {"ema_weight": 0.25}
    return [
        _run(
            "the defaults over eight steps",
            {},
            [(s, h) for s, h in zip([4, 0, 2, 8, 5, 3, 6, 1], [2, 1.5, 1.25] * 3, strict=False)],
        ),
        _run(
            "alpha from alpha_max to alpha_min as the run learns",
            {"ema_weight": 0.5},
            [(0, None), (0, None), (4, None), (8, None), (8, None)],
        ),
        _run("a solve rate of 0 gives alpha_max", {"ema_weight": 1}, [(0, None), (8, None)]),
        _run(
            "delta falls with entropy to its floor, and comes back",
            {"ema_weight": 0.5},
            [(4, 2.5), (4, 0.5), (4, 0.25), (4, 0.125), (4, 2.5)],
        ),
        _run("an absolute target", {"ema_weight": 0.5, "target_entropy_nats": 1.0}, [(4, 0.75), (4, 0.5), (4, 1.5)]),
        _run("a declared initial entropy", {"ema_weight": 0.5, "initial_entropy_nats": 2.0}, [(4, 0.75), (4, 0.5)]),
        _run("the ratio rule", {**fast, "delta_rule": "ratio", "target_entropy_nats": 1.0}, [(4, 0.9), (4, 0.4), (4, 0.1)]),
        _run("a warm-up of three entropies", {**fast, "entropy_warmup": 3}, [(4, 3.0), (4, None), (4, 2.0), (4, 1.0), (4, 0.5)]),
        _run(
            "logarithmic decay of both",
            {"alpha_rule": "log_decay", "delta_rule": "log_decay", "decay_observations": 4},
            [(4, 1.0)] * 5,
        ),
        _run(
            "other bounds",
            {**fast, "alpha_min": 1.25, "alpha_max": 2, "delta_min": 0.5, "delta_max": 0.9},
            [(8, 2.0), (8, 0.25), (0, 0.25), (0, 0.1)],
        ),
        _run("match_grpo keeps the total mass", {**fast, "scale": "match_grpo"}, [(3, 2.0), (1, 0.5), (0, 0.5)]),
        _run("the subset estimator", {**fast, "estimator": "subset"}, [(3, None), (5, None), (2, None)]),
        _run("the likelihood exponent", {**fast, "likelihood": 0.5}, [(3, 2.0), (1, 0.5), (0, 0.5), (7, 0.5)]),
        _run("the exponents of GRPO with std", {"alpha_rule": "fixed", "alpha": 0.5, "likelihood": 0.5}, [(2, None), (6, None)]),
        _run(
            "the learning rate along a line",
            {"lr_rule": "linear", "lr_observations": 4, "lr_min": 0.25},
            [(4, 1.0)] * 5,
        ),
        _run("the learning rate along a cosine", {"lr_rule": "cosine", "lr_observations": 3}, [(4, 1.0)] * 4),
        _run("the learning rate by entropy", {**fast, "lr_rule": "entropy"}, [(4, 2.0), (4, 1.0), (4, 0.0), (4, 3.0)]),
        _run("a likelihood exponent in shadow", {"likelihood": 1, "mode": "shadow", "lr_rule": "linear"}, [(2, 2.0)]),
        _run("shadow is computed and applied as neutral", {"ema_weight": 1, "mode": "shadow"}, [(2, 2.0), (3, 0.5)]),
        Play("case 24: entropy over no tokens is none", {"ema_weight": 0.5})
        .observe(report(0, 4, entropy=None) | {"entropy": {"sum_nats": 31.14, "token_count": 9}})
        .observe(report(1, 4) | {"entropy": {"sum_nats": 0.0, "token_count": 0}})
        .observe(report(2, 4) | {"entropy": {"sum_nats": 3.0, "token_count": 9}})
        .state(),
        Play("filtered groups count in the solve rate", {"ema_weight": 0.5})
        .observe(report(0, 4, filtered_all_solved=2, filtered_all_failed=4))
        .state(),
        Play("a prefiltered report holds the solve rate, not the entropy", {"ema_weight": 0.5})
        .observe(report(0, 2, 2.0))
        .observe(report(1, 6, 0.5, prefiltered=True), hold="solve_rate")
        .state(),
        Play("evaluation answers and moves nothing", {"ema_weight": 0.5})
        .observe(report(0, 3, 2.0))
        .evaluate(report(1, 8, 0.1))
        .observe(report(1, 3, 2.0))
        .history("batch-0", "batch-1")
        .state(),
        Play("environments have averages and schedules of their own", {"ema_weight": 0.5})
        .observe(
            mixed
            | {
                "entropy": {"math": {"sum_nats": 8.0, "token_count": 4}, "code": {"sum_nats": 3.0, "token_count": 4}},
                "filtered_all_failed": {"code": 2},
            }
        )
        .observe(
            {
                "id": "math alone",
                "rewards": [0, 0, 1, 0],
                "groups": ["m"] * 4,
                "environments": {"m": "math"},
                "entropy": {"sum_nats": 2.0, "token_count": 4},
            }
        )
        .observe(mixed | {"id": "both again"})
        .state(),
        Play("environments under match_grpo share one factor", {"ema_weight": 0.5, "scale": "match_grpo"}).observe(mixed),
        _pinned(),
    ]


def _pinned() -> Play:
    play = Play("an operator pins the weights live", {"ema_weight": 0.5}).observe(report(0, 2, 2.0))
    change = {"mode": "pinned", "pinned_alpha": 2.0, "pinned_delta": 0.5}
    play.step(update=change)
    play.rules.change(change)
    return play.observe(report(1, 2, 0.5), source="PINNED").state()
