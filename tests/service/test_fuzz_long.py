"""A slice of what `make fuzz` does for as long as you like."""

from __future__ import annotations

import pytest
from tests.fuzz.__main__ import fuzz


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_twenty_thousand_requests_make_no_fault() -> None:
    tally = fuzz(20_000, seed=7)
    assert tally.faults == [] and tally.requests == 20_000
    assert tally.outcomes["OK"] > 1000 and tally.outcomes["INVALID_ARGUMENT"] > 1000 and tally.outcomes["200"] > 500
