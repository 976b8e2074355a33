"""What is refused, by reason, field and row; a refusal changes nothing."""

from __future__ import annotations

from typing import Any

from play import Play

GOOD = {"id": "good", "rewards": [1, 0, 0, 0], "groups": ["g"] * 4, "entropy": {"sum_nats": 8.0, "token_count": 4}}


def _refused(name: str, report: dict[str, Any], config: dict[str, Any] | None = None, **error: Any) -> Play:
    """The report is refused, and the run stands where it stood: the next one is its first."""
    bad = {"id": "bad", "groups": ["g"] * len(report.get("rewards", [0, 1])), "rewards": [0, 1], **report}
    error = {"reason": "INVALID_FIELD", "code": "INVALID_ARGUMENT", **error}
    return Play(name, {"ema_weight": 0.5, **(config or {})}).step(observe=bad, error=error).observe(GOOD).history("good").state()


def plays() -> list[Play]:
    """One field at a time, then what a run refuses because of what came before."""
    return [
        _refused("an infinite reward", {"rewards": [1, 0, "Infinity"]}, field="rewards", row=2),
        _refused("a reward of minus infinity", {"rewards": ["-Infinity", 0]}, field="rewards", row=0),
        _refused("a reward above the range", {"rewards": [1, 2.5, 0]}, field="rewards", row=1),
        _refused("a reward below the range", {"rewards": [0, -1, 1]}, field="rewards", row=1),
        _refused("a NaN under strict_rewards", {"rewards": [1, 0, "NaN"]}, {"strict_rewards": True}, field="rewards", row=2),
        _refused("fewer labels than rewards", {"rewards": [1, 0, 0], "groups": ["g", "g"]}, field="groups", row=None),
        _refused("fewer statuses than rewards", {"statuses": ["SCORED"]}, field="statuses", row=None),
        _refused("more flags than rewards", {"solved": [True, False, False]}, field="solved", row=None),
        _refused(
            "fewer versions than rewards",
            {"policy_versions": [1], "current_policy_version": 1},
            field="policy_versions",
            row=None,
        ),
        _refused("versions without the current one", {"policy_versions": [1, 1]}, field="current_policy_version", row=None),
        _refused("fewer rollouts than rewards", {"rollouts": ["x"]}, field="rollout_index", row=None),
        _refused("rewards that differ within a rollout", {"rewards": [1, 0], "rollouts": ["x", "x"]}, field="rewards", row=1),
        _refused("a group without its environment", {"environments": {"other": "math"}}, field="environments", row=None),
        _refused("nothing that counts", {"statuses": ["PADDING", "PADDING"]}, field="rewards", row=None),
        _refused("no rows at all", {"rewards": []}, field="rewards", row=None),
        _refused("shaped rewards under subset", {"rewards": [0.5, 1]}, {"estimator": "subset"}, field="rewards", row=0),
        _refused("negative entropy", {"entropy": {"sum_nats": -4.0, "token_count": 2}}, field="entropy.sum_nats"),
        _refused("a negative token count", {"entropy": {"sum_nats": 4.0, "token_count": -2}}, field="entropy.token_count"),
        _refused("entropy that no policy has", {"entropy": {"sum_nats": 4001.0, "token_count": 4}}, field="entropy.sum_nats"),
        _refused("an empty id", {"id": ""}, field="observation_id", row=None),
        _refused("an id of 129 characters", {"id": "x" * 129}, field="observation_id", row=None),
        Play("entropy above the logarithm of the vocabulary's size", {"vocabulary_size": 8})
        .refused(
            GOOD | {"id": "bits", "entropy": {"sum_nats": 12.0, "token_count": 4}}, "INVALID_FIELD", field="entropy.sum_nats"
        )
        .observe(GOOD),
        Play("case 26: entropy of another kind")
        .observe(GOOD | {"entropy": {"sum_nats": 2.4, "token_count": 4, "kind": "A"}})
        .refused(
            GOOD | {"id": "b", "entropy": {"sum_nats": 4.0, "token_count": 4, "kind": "B"}},
            "ENTROPY_KIND_CHANGED",
            code="FAILED_PRECONDITION",
        )
        .observe(GOOD | {"id": "c", "entropy": {"sum_nats": 2.0, "token_count": 4, "kind": "A"}})
        .state(),
        Play("a trainer's step that went back")
        .observe(GOOD | {"trainer_step": 6})
        .refused(GOOD | {"id": "b", "trainer_step": 5}, "TRAINER_STEP_DECREASED", code="FAILED_PRECONDITION")
        .observe(GOOD | {"id": "c", "trainer_step": 6}),
        Play("another writer is fenced")
        .observe(GOOD)
        .refused(GOOD | {"id": "theirs"}, "WRITER_FENCED", client="another", code="FAILED_PRECONDITION")
        .observe(GOOD | {"id": "ours"})
        .history("good", "ours"),
    ]
