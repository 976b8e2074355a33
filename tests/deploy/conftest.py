"""The stack of deploy/, running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.stack import Balanced


@pytest.fixture
def balanced(own_redis: Any, tmp_path: Path) -> Iterator[Balanced]:
    """Two servers behind the load balancer, on this test's own Redis."""
    stack = Balanced(tmp_path, own_redis.url)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
