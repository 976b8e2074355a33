"""The floor: a server that does nothing but parse the same request and build an answer of the same size.

`python -m tests.bench.floor sync|aio ANSWER_FILE` serves on a free port of the loopback and prints it. The answer is parsed once
per call from the file's bytes, so that building it costs what building any answer of that size costs.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from fade_proto.v1.scheduler_pb2 import ObserveRequest, ObserveResponse
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceServicer, add_SchedulerServiceServicer_to_server

_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class _Echo(SchedulerServiceServicer):
    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def Observe(self, request: ObserveRequest, context: object) -> ObserveResponse:
        return ObserveResponse.FromString(self._answer)


class _AioEcho(_Echo):
    async def Observe(self, request: ObserveRequest, context: object) -> ObserveResponse:  # type: ignore[override]
        return ObserveResponse.FromString(self._answer)


def _serve_sync(answer: bytes) -> None:
    server = grpc.server(ThreadPoolExecutor(16), options=_OPTIONS)
    add_SchedulerServiceServicer_to_server(_Echo(answer), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


async def _serve_aio(answer: bytes) -> None:
    server = grpc.aio.server(options=_OPTIONS)
    add_SchedulerServiceServicer_to_server(_AioEcho(answer), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    content = Path(sys.argv[2]).read_bytes()
    if sys.argv[1] == "sync":
        _serve_sync(content)
    else:
        asyncio.run(_serve_aio(content))
