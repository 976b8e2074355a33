"""The client behind an event loop: the same policies, single groups at any time, and a loop that never waits for the service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from fade_client import CheckpointError, ClosedError, FadeClient, InvalidBatchError, RejectedError, RunConfig
from fade_client.aio import AsyncFadeClient

Batch = Callable[[int], dict[str, Any]]
GROUP = [1.0, 0.0, 0.0, 1.0, 0.0]


def fade(rewards: list[float], alpha: float, delta: float) -> Any:
    """FADE.md, section 2, for one group of rewards in [0, 1]."""
    centred = np.array(rewards) - np.mean(rewards)
    return (1 - np.mean(rewards)) ** (alpha - 1) * np.where(centred >= 0, centred, centred / delta)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_groups_are_weighed_by_the_schedule_of_the_last_batch(server: str, batch: Batch) -> None:
    async def test() -> None:
        config = RunConfig(ema_weight=0.25, target_entropy_nats=0.6)
        async with AsyncFadeClient(FadeClient(server, run="r", config=config)) as client:
            assert client.schedule.source == "NEUTRAL"
            np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, 1, 1), rtol=1e-12)
            p_hat, h_hat = 0.5, None
            for number in range(4):
                report = batch(number)
                nats = report["entropy"][0] / report["entropy"][1]
                p_hat = 0.75 * p_hat + 0.25 * np.mean(report["rewards"])  # its groups are of one size
                h_hat = nats if h_hat is None else 0.75 * h_hat + 0.25 * nats
                alpha, delta = np.clip(1.5 * (1 - p_hat) / p_hat, 1, 3), np.clip(1 + h_hat - 0.6, 0.3, 1)
                schedule = await client.observe(**report)
                assert schedule.source == client.schedule.source == "SERVER"
                np.testing.assert_allclose([schedule.alpha, schedule.delta], [alpha, delta], rtol=1e-12)
                np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, alpha, delta), rtol=1e-12)
            assert client.schedule.revision == 4 and alpha > 1 and delta < 1

    run(test())


def test_a_group_comes_back_as_it_was_given_and_refused_by_field_and_row() -> None:
    async def test() -> None:
        local = FadeClient.local(RunConfig(reward_min=-1), advantage_units="declared", on_rejected="raise")
        async with AsyncFadeClient(local) as client:
            await client.observe("a", rewards=[-1.0, 1.0], groups=[0, 0])
            half = await client.advantages(np.array([-1.0, 1.0, np.nan], np.float32))
            np.testing.assert_allclose(half, [-1 * 0.5**0.5, 1 * 0.5**0.5, 0], rtol=1e-12)  # p_hat 0.5: alpha 1.5; width 2
            flagged = await client.advantages([0.1, 0.3, -0.2], solved=[False, False, False])
            assert flagged.tolist() == [0, 0, 0]
            with pytest.raises(InvalidBatchError) as caught:
                await client.advantages([0.0, 4.0])
            assert (caught.value.field, caught.value.row) == ("rewards", 1)

    run(test())


def test_a_reward_that_the_run_refuses_weighs_its_group_neutrally_and_stops_nothing() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0))) as client:
            await client.observe("a", rewards=[1.0, 0, 0, 0], groups=[0] * 4)
            odd = await client.advantages([0.0, 4.0, 1.0])
            np.testing.assert_allclose(odd, np.array([0, 4, 1]) - 5 / 3, rtol=1e-12)
            np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, 3, 1), rtol=1e-12)
            with pytest.raises(InvalidBatchError, match="solved"):
                await client.advantages([0.0, 1.0], solved=[True])

    run(test())


def test_each_environment_keeps_the_schedule_of_its_own_last_observation() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0))) as client:
            rewards, groups = [1.0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]
            await client.observe("a", rewards=rewards, groups=groups, environments={0: "math", 1: "code"})
            await client.observe("b", rewards=[1.0, 1, 0, 0, 0], groups=[0] * 5, environments={0: "math"})
            for environment, alpha in (("math", 2.25), ("code", 1.5), ("never seen", 1.0)):  # solve rates 2/5 and 1/2
                own = await client.advantages(GROUP, environment=environment)
                np.testing.assert_allclose(own, fade(GROUP, alpha, 1), rtol=1e-12)
            assert client.schedule["code"].alpha == 1.5

    run(test())


def test_a_factor_that_belongs_to_one_batch_weighs_no_other_group() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0, scale="match_grpo"))) as client:
            schedule = await client.observe("a", rewards=[1.0, 0, 0, 0], groups=[0] * 4)
            assert schedule.scale > 1.5 and client.schedule.scale == 1
            np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, 3, 1), rtol=1e-12)

    run(test())


def test_the_loop_goes_on_while_the_service_hangs(front: Any, batch: Batch) -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient(front.address, run="r", timeout_seconds=1)) as client:
            await client.observe(**batch(0))
            front.mode = "hang"
            report = asyncio.create_task(client.observe(**batch(1)))
            beats = 0
            while front.calls["Observe"] < 2 or beats < 20:
                await asyncio.sleep(0.001)
                beats += 1
            weights = await client.advantages(GROUP)
            assert not report.done()  # twenty beats and a group, and the service still hangs
            assert (await report).source == client.schedule.source == "LOCAL"
            assert (await client.advantages(GROUP)).tolist() != weights.tolist()
            front.mode = "pass"

    run(test())


def test_reports_go_out_in_the_order_of_the_calls(server: str, batch: Batch, history: Any) -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient(server, run="r")) as client:
            schedules = await asyncio.gather(*[client.observe(**batch(number)) for number in range(20)])
        assert [schedule.revision for schedule in schedules] == list(range(1, 21))

    run(test())
    assert history("r").ids() == [f"batch-{number}" for number in range(20)]


def test_reports_kept_while_the_service_is_away_go_out_in_order_too(front: Any, batch: Batch, history: Any) -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient(front.address, run="r", timeout_seconds=5)) as client:
            await client.observe(**batch(0))
            front.mode = "down"
            schedules = await asyncio.gather(*[client.observe(**batch(number)) for number in range(1, 8)])
            assert {schedule.source for schedule in schedules} == {"LOCAL"}
            front.mode = "pass"

    run(test())  # leaving the context flushes
    assert history("r").ids() == [f"batch-{number}" for number in range(8)]


def test_a_cancelled_call_leaves_the_client_usable_and_its_report_counts_once(front: Any, batch: Batch, history: Any) -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient(front.address, run="r", timeout_seconds=1)) as client:
            await client.observe(**batch(0))
            front.mode = "hang"
            tasks = [asyncio.create_task(client.observe(**batch(number))) for number in (1, 2)]
            while front.calls["Observe"] < 2:  # the first waits for the service, the second for the first
                await asyncio.sleep(0.005)
            for task in tasks:
                task.cancel()
            assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
            front.mode = "pass"
            schedules = [await client.observe(**batch(number)) for number in (3, 1, 2)]  # asked again, the two tell theirs
            assert [schedule.revision for schedule in schedules] == [4, 2, 3]

    run(test())
    assert history("r").ids() == ["batch-0", "batch-1", "batch-2", "batch-3"]


def test_a_checkpoint_is_gone_on_from_with_its_schedule_in_force(server: str, batch: Batch) -> None:
    async def test() -> None:
        config = RunConfig(ema_weight=0.25, entropy_warmup=2)
        first = AsyncFadeClient(FadeClient(server, run="r", config=config))
        for number in range(3):
            await first.observe(**batch(number))
        saved, weights = json.loads(json.dumps(first.state_dict())), await first.advantages(GROUP)
        await first.observe(**batch(3))
        await first.aclose()
        async with AsyncFadeClient(FadeClient(server, run="r", config=config)) as second:
            await second.load_state_dict(saved)
            assert (second.schedule.source, second.schedule.revision) == ("HELD", 3)
            assert (await second.advantages(GROUP)).tolist() == weights.tolist()
            resumed = await second.observe(**batch(3))
            assert (resumed.source, resumed.revision) == ("SERVER", 4)
            assert resumed.alpha == first.schedule.alpha

    run(test())


def test_a_damaged_checkpoint_changes_nothing() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0))) as client:
            await client.observe("a", rewards=[1.0, 0, 0, 0], groups=[0] * 4)
            before, saved = client.schedule, client.state_dict()
            with pytest.raises(CheckpointError):
                await client.load_state_dict({**saved, "state_digest": "0"})
            assert client.schedule is before

    run(test())


def test_a_refused_report_weighs_neutrally_until_the_next_one() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0))) as client:
            with pytest.raises(RejectedError):
                await client.observe("first", rewards=[7.0], groups=[0])
            await client.observe("good", rewards=[1.0, 0, 0, 0], groups=[0] * 4)
            refused = await client.observe("bad", rewards=[7.0], groups=[0])
            assert refused.rejection == client.schedule.rejection == "INVALID_FIELD"
            np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, 1, 1), rtol=1e-12)
            await client.observe("next", rewards=[1.0, 1, 0, 0, 0], groups=[0] * 5)
            np.testing.assert_allclose(await client.advantages(GROUP), fade(GROUP, 2.25, 1), rtol=1e-12)

    run(test())


def test_an_evaluation_changes_no_weights() -> None:
    async def test() -> None:
        async with AsyncFadeClient(FadeClient.local(RunConfig(ema_weight=1.0))) as client:
            await client.observe("train", rewards=[1.0, 0, 0, 0], groups=[0] * 4)
            before = client.schedule
            await client.observe("eval", rewards=[1.0, 1.0], groups=[0, 0], evaluation=True)
            assert client.schedule is before

    run(test())


def test_a_closed_client_says_so_and_closing_twice_is_fine(batch: Batch) -> None:
    async def test() -> None:
        client = AsyncFadeClient(FadeClient.local())
        await client.aclose()
        await client.aclose()
        with pytest.raises(ClosedError):
            await client.observe(**batch(0))

    run(test())
