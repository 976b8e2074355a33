"""Traces, as OpenTelemetry's own launcher makes them for a server that knows nothing of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"  # pragma: allowlist secret
PARENT = (("traceparent", f"00-{TRACE}-{SPAN}-01"),)


def spans(text: str) -> list[dict[str, Any]]:
    """What the console exporter printed: objects of JSON, one after the other."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        span, end = decoder.raw_decode(text)
        found.append(span)
        text = text[end:]
    return found


def test_each_call_is_a_span_of_its_callers_trace_and_so_are_its_lines(tmp_path: Path, connect: Any) -> None:
    environment = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    command = [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "-m", "fade_service", "serve"]
    options = ["--store", "memory://", "--grpc-port", "0", "--http-port", "0", "--log-format", "json"]
    log = tmp_path / "log"
    with log.open("wb") as stderr, subprocess.Popen(
        [*command, *options], env=os.environ | environment, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:  # fmt: skip
        try:
            while not (serving := re.search(r"serving gRPC on (\S+) ", log.read_text("utf-8"))):
                assert process.poll() is None, log.read_text("utf-8")
                time.sleep(0.05)
            client = connect("r", at=serving[1])
            client.create()
            client.stub.Observe(client.report("b1", [1.0, 0.0], [0, 0]), timeout=10, metadata=PARENT)
            with pytest.raises(grpc.RpcError):
                client.stub.Observe(client.report("b2", [7.0], [0]), timeout=10, metadata=PARENT)
            process.terminate()
            told = process.communicate(timeout=30)[0]
        finally:
            process.kill()
    assert process.returncode == 0
    answered, refused = (span for span in spans(told) if span["parent_id"] == f"0x{SPAN}")
    for span, code in ((answered, grpc.StatusCode.OK), (refused, grpc.StatusCode.INVALID_ARGUMENT)):
        assert span["name"] == "/fade.v1.SchedulerService/Observe" and span["context"]["trace_id"] == f"0x{TRACE}"
        assert span["attributes"]["rpc.grpc.status_code"] == code.value[0]
    (line,) = (line for line in map(json.loads, log.read_text("utf-8").splitlines()) if line.get("event") == "call")
    assert (line["trace_id"], f"0x{line['span_id']}") == (TRACE, refused["context"]["span_id"])
