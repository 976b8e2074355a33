"""What a server tells Prometheus after traffic in which everything happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.observability.traffic import Traffic

from fade_service import FadeServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FadeServer]:
    """A server of the module's own."""
    with FadeServer(f"sqlite:///{tmp_path_factory.mktemp('server') / 'fade.db'}", grpc_port=0, http_port=0) as running:
        yield running


@pytest.fixture(scope="module")
def traffic(server: FadeServer) -> Iterator[Traffic]:
    """Traffic on it."""
    made = Traffic(f"127.0.0.1:{server.grpc_port}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def families(server: FadeServer, traffic: Traffic) -> list[Metric]:
    """The metrics of a scrape, without the times of creation that the library adds to each."""
    traffic.step()
    text = httpx.get(f"{server.http_url}/metrics").raise_for_status().text
    return [family for family in text_string_to_metric_families(text) if not family.name.endswith("_created")]


@pytest.fixture(scope="module")
def root() -> Path:
    """The repository."""
    return Path(__file__).parents[3]
