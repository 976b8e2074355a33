"""The tunix shim, inside tunix itself: see inside.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_tunix_trains_on_the_schedule(trainer_environment: Callable[..., Any], tmp_path: Path) -> None:
    trainer_environment("tunix", "google-tunix==0.1.7").check(tmp_path)
