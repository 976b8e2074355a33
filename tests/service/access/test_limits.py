"""Sizes: headers and free text past their limit are refused, by name, on both ports."""

from __future__ import annotations

from typing import Any

import grpc
import httpx
import pytest

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import GetRunRequest, UpdateRunRequest
from fade_service import FadeServer


def with_reason(client: Any, reason: str) -> UpdateRunRequest:
    """An UpdateRun with that reason."""
    request = UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(alpha_max=2.0)), reason=reason)
    request.update_mask.paths.append("config.alpha_max")
    return request


def test_a_reason_may_have_a_thousand_characters_and_no_more(client: Any, refused: Any) -> None:
    before = client.everything()
    refusal = refused(lambda: client.stub.UpdateRun(with_reason(client, "€" * 1001), timeout=10))
    assert (refusal.reason, refusal.field) == ("INVALID_FIELD", "reason") and "give up to 1000" in refusal.message
    assert client.everything() == before
    assert client.stub.UpdateRun(with_reason(client, "€" * 1000), timeout=10).config_revision == 2


def test_the_source_of_a_late_report_may_have_128_characters_and_no_more(client: Any, refused: Any) -> None:
    request = client.report("b1", [1.0, 0.0], [0, 0])
    request.late.config_revision, request.late.source = 1, "x" * 129
    assert refused(lambda: client.send(request)).field == "late.source"
    assert client.history() == []
    request.late.source = "x" * 128
    client.send(request)
    assert client.history()[0].late.source == "x" * 128


def test_metadata_past_16_kib_is_refused_and_less_is_taken(client: Any) -> None:
    get = GetRunRequest(name=client.name)
    client.stub.GetRun(get, timeout=10, metadata=[("x-note", "x" * 12_000)])
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.GetRun(get, timeout=10, metadata=[("x-note", "x" * 20_000)])
    error: Any = caught.value
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    client.stub.GetRun(get, timeout=10)


def test_http_headers_past_16_kib_are_refused_and_less_is_taken(server: FadeServer) -> None:
    with httpx.Client(base_url=server.http_url) as http:
        assert http.get("/healthz", headers={"x-note": "x" * 12_000}).status_code == 200
        assert http.get("/healthz", headers={"x-note": "x" * 20_000}).status_code == 431
        try:
            status = http.get("/healthz", headers={"x-note": "x" * 10**6}).status_code
        except httpx.TransportError:  # the connection was closed before all of it was sent
            status = 431
        assert status in (400, 431)
        assert http.get("/healthz").status_code == 200
