"""Statistics over seeds against hand-worked examples and scipy-free independent computations."""

from __future__ import annotations

import math
import statistics as standard
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_trainer.compare.statistics import best, difference, estimate, race, smooth, steps_to

values = st.floats(-10, 10).map(lambda value: round(value, 3))
by_seed = st.dictionaries(st.integers(0, 20), values, min_size=2, max_size=8)


def test_a_mean_with_its_deviation_and_error() -> None:
    found = estimate({4: 2.0, 1: 4.0, 2: 4.0, 3: 6.0})
    assert (found.mean, found.seeds) == (4.0, (1, 2, 3, 4))
    assert found.standard_deviation == pytest.approx(standard.stdev([2, 4, 4, 6]), rel=1e-14)
    assert found.standard_error == pytest.approx(standard.stdev([2, 4, 4, 6]) / 2, rel=1e-14)


def test_the_interval_is_that_of_all_resamples_of_three_seeds() -> None:
    """27 equally likely resamples can be written down: the lowest has 1/27 > 2.5 %, so the interval's ends are min and max."""
    means = sorted(sum(drawn) / 3 for drawn in product([1.0, 2.0, 6.0], repeat=3))
    found = estimate({0: 1.0, 1: 2.0, 2: 6.0})
    assert (found.low, found.high) == (pytest.approx(means[0]), pytest.approx(means[-1]))


def test_a_single_seed_has_no_interval() -> None:
    found = estimate({3: 0.5})
    assert (found.mean, found.standard_error, found.low, found.high, found.seeds) == (0.5, None, None, None, (3,))
    with pytest.raises(ValueError, match="at least one seed"):
        estimate({})


@given(by_seed)
def test_the_order_of_seeds_does_not_matter(found: dict[int, float]) -> None:
    assert estimate(found) == estimate(dict(sorted(found.items(), reverse=True)))


@given(by_seed, by_seed, st.floats(-5, 5))
def test_a_shift_of_one_method_shifts_its_difference(mine: dict[int, float], theirs: dict[int, float], shift: float) -> None:
    plain = difference(mine, theirs)
    shifted = difference({seed: value + shift for seed, value in mine.items()}, theirs)
    assert (plain is None) == (shifted is None) == (not mine.keys() & theirs.keys())
    if plain is not None and shifted is not None:
        assert shifted.mean == pytest.approx(plain.mean + shift, abs=1e-9)
        assert plain.seeds == tuple(sorted(mine.keys() & theirs.keys()))
        if plain.low is not None:
            assert shifted.low == pytest.approx(plain.low + shift, abs=1e-9)


def test_pairing_removes_what_seeds_have_in_common() -> None:
    mine, theirs = {0: 1.0, 1: 5.0, 2: 9.0}, {0: 0.5, 1: 4.5, 2: 8.5}
    found = difference(mine, theirs)
    assert found is not None and (found.mean, found.standard_error, found.low, found.high) == (0.5, 0.0, 0.5, 0.5)


def test_the_best_is_compared_on_shared_seeds_and_needs_half_of_the_most() -> None:
    assert best({"few": {0: 9.0}, "a": {0: 1.0, 1: 3.0, 2: 2.0}, "b": {0: 2.0, 1: 3.0, 2: 2.0}}) == "b"
    assert best({"lucky": {0: 5.0, 9: 9.0}, "b": {0: 6.0, 1: 1.0}}) == "b"
    assert best({"b": {0: 1.0}, "a": {0: 1.0}}) == "a"


def test_smoothing_takes_the_neighbours_and_fewer_at_the_ends() -> None:
    assert smooth(np.array([0.0, 3.0, 6.0, 0.0])).tolist() == [1.5, 3.0, 3.0, 3.0]


def test_steps_are_interpolated_and_infinite_where_a_level_is_not_reached() -> None:
    steps, curves = np.array([0.0, 10.0, 20.0]), np.array([[0.0, 0.2, 0.6], [0.0, 0.1, 0.2], [0.5, 0.1, 0.9]])
    assert steps_to(steps, curves, np.array([0.4, 0.4, 0.4])).tolist() == [pytest.approx(15.0), math.inf, 0.0]


def test_a_race_against_a_baseline_worked_by_hand() -> None:
    steps = np.array([0.0, 10.0, 20.0, 30.0])
    slow, fast = np.array([0.0, 0.1, 0.2, 0.3]), np.array([0.0, 0.2, 0.4, 0.6])
    found = race(steps, {0: fast, 1: fast}, {0: slow, 1: slow}, 1.0)
    assert found is not None
    # smoothed: slow .05 .1 .2 .25, fast .1 .2 .4 .5; the peak .25 is met by fast at 10 + 10 * .05 / .2
    assert (found.level, found.baseline_steps, found.steps) == (pytest.approx(0.25), 30.0, pytest.approx(12.5))
    assert found.ratio == pytest.approx(12.5 / 30) and found.reached == 1.0
    behind = race(steps, {0: slow, 1: slow}, {0: fast, 1: fast}, 1.0)
    assert behind is not None and (behind.steps, behind.reached) == (math.inf, 0.0)
    assert race(steps, {0: slow}, {1: fast}, 1.0) is None
