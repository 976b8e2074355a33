"""`make fuzz N=1000000`: requests changed at random against a live server, until so many were answered or refused.

Ends with a line of counts, and with exit code 1 where the service failed itself, answered without a reason, or a refusal changed
something; what was sent is printed then, and the seed makes it again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
from google.protobuf.message import Message
from tests.fuzz.http import HttpFuzzer
from tests.fuzz.requests import METHODS, mutate, mutate_bytes, turn_to_new_run, valid
from tests.service.conftest import Client, Refusal

from fade_proto.v1 import scheduler_pb2
from fade_service import FadeServer

_RUN_REQUESTS = 500
"""Requests about one run, before another takes its place."""

_SERVER_RUNS = 20
"""Runs of one server, before another takes its place: what is compared after each request grows with them."""

_SERVICE = scheduler_pb2.DESCRIPTOR.services_by_name["SchedulerService"].full_name


@dataclass
class Tally:
    """What came of the requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """All of them."""
        return self.outcomes.total()


def fuzz(requests: int, seed: int, say: Any = None) -> Tally:
    """Sends so many requests."""
    random, tally = Random(seed), Tally()
    while tally.requests < requests and not tally.faults:
        _on_one_server(random, requests, tally)
        if say is not None:
            say(tally)
    return tally


def _on_one_server(random: Random, requests: int, tally: Tally) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        FadeServer(f"sqlite:///{Path(folder) / 'fuzz.db'}", grpc_port=0, http_port=0) as server,
        closing(Client(f"127.0.0.1:{server.grpc_port}", "first")) as client,
        closing(HttpFuzzer(server.http_url)) as http,
    ):
        for _ in range(_SERVER_RUNS):
            if tally.requests < requests and not tally.faults:
                turn_to_new_run(client)
                _about_one_run(client, http, random, min(_RUN_REQUESTS, requests - tally.requests), tally)


def _about_one_run(client: Client, http: HttpFuzzer, random: Random, count: int, tally: Tally) -> None:
    requests = {method: valid(method, client) for method in METHODS}
    before, all_before = client.get(), client.everything()
    untouched = True
    for _ in range(count):
        if random.randrange(5) == 0:
            told, outcome = _over_http(http, random, client.run)
        else:
            told, outcome = _over_grpc(client, random, requests)
        tally.outcomes[outcome] += 1
        now = client.get()
        refused = outcome not in ("OK", "200", "204")
        if refused and now != before or outcome.split()[0] in ("INTERNAL", "UNKNOWN", "500", "502", "unexplained"):
            tally.faults.append(f"{outcome} for {told}; the run before: {before}; after: {now}")
            return
        untouched = untouched and now == before
        before = now
    if untouched and client.everything() != all_before:
        tally.faults.append(f"the history of {client.name} changed, though every request that changes something was refused")


def _over_grpc(client: Client, random: Random, requests: dict[str, Message]) -> tuple[str, str]:
    method = random.choice(METHODS)
    request = type(requests[method])()
    request.CopyFrom(requests[method])
    for _ in range(random.randrange(1, 4)):
        mutate(request, random)
    sent = request.SerializeToString()
    if random.randrange(8) == 0:
        sent = mutate_bytes(sent, random)
    call = client.channel.unary_unary(f"/{_SERVICE}/{method.split()[0]}", bytes, bytes)
    told = f"{method} {sent[:2000].hex()}"
    try:
        call(sent, timeout=30)
    except grpc.RpcError as error:
        try:
            refusal = Refusal(error)
        except AssertionError:
            return told, f"unexplained {error}"
        return told, refusal.code if refusal.reason and refusal.message else f"unexplained {refusal.code}"
    return told, "OK"


def _over_http(http: HttpFuzzer, random: Random, run: str) -> tuple[str, str]:
    told, answer = http.ask(random, run)
    return told, str(answer.status_code)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()

    def say(tally: Tally) -> None:
        if tally.requests % 20_000 == 0:
            print(f"{tally.requests} requests in {time.monotonic() - started:.0f} s", flush=True)

    tally = fuzz(options.requests, options.seed, say)
    for fault in tally.faults:
        print(fault)
    counts = ", ".join(f"{outcome} {count}" for outcome, count in tally.outcomes.most_common())
    seconds = time.monotonic() - started
    print(f"seed {options.seed}: {tally.requests} requests in {seconds:.0f} s, {len(tally.faults)} faults; {counts}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
