"""pass@k against the enumeration of all ways to pick k answers."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from fade_trainer.evaluation import pass_at_k


def enumerated(right: int, samples: int, k: int) -> Fraction:
    """The share of all choices of k among the answers, the first ones right, that have a right one."""
    picks = list(combinations(range(samples), k))
    return Fraction(sum(min(pick) < right for pick in picks), len(picks))


@pytest.mark.parametrize("samples", [1, 2, 5, 8])
def test_the_estimate_is_the_share_of_choices_with_a_right_answer(samples: int) -> None:
    for k in range(1, samples + 1):
        for right in range(samples + 1):
            expected = float(enumerated(right, samples, k))
            assert pass_at_k(np.array([right]), samples, k) == pytest.approx(expected, abs=1e-15)


def test_prompts_count_alike() -> None:
    counts = [0, 1, 3, 6]
    expected = sum(enumerated(count, 6, 2) for count in counts) / 4
    assert pass_at_k(np.array(counts), 6, 2) == pytest.approx(float(expected), abs=1e-15)


@pytest.mark.parametrize("k", [0, 7])
def test_more_picks_than_answers_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=r"k must be in 1\.\.6"):
        pass_at_k(np.array([1]), 6, k)
