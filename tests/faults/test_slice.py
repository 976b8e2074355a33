"""A slice of `make faults` for each store, and all seeds that ever found something."""

from __future__ import annotations

import pytest
from tests.faults.harness import run
from tests.faults.seeds import SEEDS

FAULTS = 120


@pytest.mark.heavy
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("store", "seed"), [(store, seed) for store, seeds in SEEDS.items() for seed in seeds])
def test_nothing_is_lost_and_nothing_doubled_whatever_goes_wrong(store: str, seed: str) -> None:
    result = run(store, seed, FAULTS, seconds=200.0)
    assert result.findings == [], result.report()
    assert result.faults.total() >= FAULTS, result.report()
    assert result.counts["acknowledged"] > result.counts["observations"] > 0, result.report()
