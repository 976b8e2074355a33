"""The ms-swift shim, inside ms-swift itself: see inside.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_ms_swift_trains_on_the_schedule(trainer_environment: Callable[..., Any], tmp_path: Path) -> None:
    trainer_environment("swift", "ms-swift==4.6.0").check(tmp_path)
