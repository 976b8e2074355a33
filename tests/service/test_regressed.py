"""A writer that saw more acknowledged than the store has: it is told, and nothing is applied over the gap."""

from __future__ import annotations

from typing import Any


def test_a_store_that_lost_observations_is_not_written_over_the_gap(client: Any, refused: Any) -> None:
    for number in range(3):
        client.observe(f"batch-{number}", [1.0, 0.0], [0, 0])
    before = client.everything()
    refusal = refused(lambda: client.observe("batch-7", [1.0, 0.0], [0, 0], seen_revision=7))
    assert (refusal.code, refusal.reason) == ("FAILED_PRECONDITION", "STATE_REGRESSED")
    assert (refusal.metadata["revision"], refusal.metadata["seen"], refusal.metadata["branch"]) == ("3", "7", "main")
    assert client.everything() == before


def test_a_writer_that_saw_what_is_there_or_less_is_served(client: Any) -> None:
    for number, seen in enumerate((0, 1, 1, 0)):
        assert client.observe(f"batch-{number}", [1.0, 0.0], [0, 0], seen_revision=seen).revision == number + 1


def test_an_observation_that_is_there_is_answered_even_so(client: Any) -> None:
    first = client.observe("batch-0", [1.0, 0.0], [0, 0])
    again, replayed = client.send(client.report("batch-0", [1.0, 0.0], [0, 0], seen_revision=5))
    assert replayed and again == first
