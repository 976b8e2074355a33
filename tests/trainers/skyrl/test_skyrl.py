"""The SkyRL shim, inside SkyRL itself: see inside.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# SkyRL asks for Python 3.12; what runs here of it runs on 3.11 too, with the TypedDict of 3.12.
TYPED_DICT = "import typing, typing_extensions; typing.TypedDict = typing_extensions.TypedDict\n"


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_skyrl_trains_on_the_schedule(trainer_environment: Callable[..., Any], tmp_path: Path) -> None:
    environment = trainer_environment("skyrl", "skyrl==0.4.0", "skyrl-gym==0.4.0")
    if sys.version_info < (3, 12):
        (environment.site / "_typed_dict.pth").write_text(TYPED_DICT)
    environment.check(tmp_path)
