"""The slime shim against what slime 0.3.1 calls it with: its arguments, its samples and its data source, written down here."""

from __future__ import annotations

import enum
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest

import fade_client.shim
from fade_client import CheckpointError, RejectedError, TrainerError
from fade_proto.v1 import observation_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

ROOT = Path(__file__).parents[3]


class Status(enum.Enum):
    """slime/utils/types.py, ``Sample.Status``."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class Sample:
    """slime/utils/types.py, the fields that matter here."""

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    reward: float | dict[str, Any] | None = None
    remove_sample: bool = False
    status: Status = Status.COMPLETED
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, args: Any) -> Any:
        return self.reward if not args.reward_key else self.reward[args.reward_key]  # type: ignore[index]


class RolloutDataSourceWithBuffer:
    """slime/rollout/data_source.py: the two methods that slime calls with each of its checkpoints."""

    def __init__(self, args: Any) -> None:
        self.args = args
        self.calls: list[tuple[str, int | None]] = []

    def save(self, rollout_id: int) -> None:
        self.calls.append(("save", rollout_id))

    def load(self, rollout_id: int | None = None) -> None:
        self.calls.append(("load", rollout_id))


def arguments(**more: Any) -> Any:
    """slime's, as it parses them."""
    defaults: dict[str, Any] = {
        "advantage_estimator": "grpo",
        "normalize_advantages": False,
        "custom_advantage_function_path": None,
        "dynamic_sampling_filter_path": None,
        "reward_key": None,
        "save": None,
        "load": None,
    }
    return SimpleNamespace(**{**defaults, **more})


def samples(groups: dict[int, list[Any]], first: int = 0) -> list[Sample]:
    """Completed ones, numbered from ``first``."""
    rows = [(group, reward) for group, rewards in groups.items() for reward in rewards]
    return [Sample(group_index=group, index=first + row, reward=reward) for row, (group, reward) in enumerate(rows)]


def function(path: str) -> Any:
    """As slime finds a function by the path in its arguments."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def hook(args: Any, rows: list[Sample]) -> tuple[list[float], list[float]]:
    """The function that docs/trainers/slime.md names, called as slime calls it."""
    (path,) = re.findall(r"--custom-reward-post-process-path (\S+)", guide())
    raw, rewards = function(path)(args, rows)
    assert len(raw) == len(rewards) == len(rows) and isinstance(raw, list) and isinstance(rewards, list)
    return raw, rewards


def guide() -> str:
    return (ROOT / "docs/trainers/slime.md").read_text(encoding="utf-8")


class Service:
    """A server, and what slime's rollout manager starts with."""

    def __init__(self, address: str, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stub = SchedulerServiceStub(channel)
        self._patch = monkeypatch
        self._patch.setenv("FADE_ADDRESS", address)
        self.new_process("r")

    def new_process(self, run: str, **config: Any) -> None:
        """The environment variables of a run, and a client that has not called yet; a slow machine is no service away."""
        self.close_client()
        self._patch.setenv("FADE_RUN", run)
        self._patch.setenv("FADE_CONFIG", json.dumps(config))
        self._patch.setattr(fade_client.shim, "_shared", fade_client.shim.client_from_environment(timeout_seconds=30))

    def close_client(self) -> None:
        """Of the process that ends."""
        client = fade_client.shim._shared
        if client is not None:
            client.close()

    def observations(self, run: str = "r") -> list[Any]:
        """Along the run's current line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return list(self.stub.ListObservations(request, timeout=10).observations)

    def digest(self, run: str) -> str:
        """Of the run's newest state."""
        request = scheduler_pb2.GetScheduleRequest(name=f"projects/default/runs/{run}")
        return str(self.stub.GetSchedule(request, timeout=10).state_digest)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server on its own file, and this process as that of a run named r."""
    with (
        FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel,
    ):
        made = Service(f"127.0.0.1:{server.grpc_port}", channel, monkeypatch)
        yield made
        made.close_client()


@pytest.fixture
def data_source(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of docs/trainers/slime.md."""
    names = ("slime", "slime.rollout", "slime.rollout.data_source")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[names[-1]].__dict__["RolloutDataSourceWithBuffer"] = RolloutDataSourceWithBuffer
    (program,) = re.findall(r"```python\n(.*?)```", guide(), re.DOTALL)
    module = ModuleType("fade_data")
    exec(program, module.__dict__)
    return module.__dict__["DataSource"]


def test_rewards_become_the_advantages_of_fade(service: Service) -> None:
    service.new_process("r", ema_weight=0.5)
    raw, advantages = hook(arguments(), samples({7: [1, 0, 0, 0], 9: [1, 1, 1, 0]}))
    # p_hat = 0.5, so alpha = 1.5; no entropy, so delta = 1
    expected = [
        w * (r - p) for p, rewards in ((0.25, [1, 0, 0, 0]), (0.75, [1, 1, 1, 0])) for w in [(1 - p) ** 0.5] for r in rewards
    ]
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)
    assert raw == [1, 0, 0, 0, 1, 1, 1, 0]
    _, advantages = hook(arguments(), samples({11: [1, 0, 0, 0]}, first=8))
    # p_hat = 0.375, so alpha = 2.5
    np.testing.assert_allclose(advantages, 0.75**1.5 * np.array([0.75, -0.25, -0.25, -0.25]), rtol=1e-12)
    assert [item.observation_id for item in service.observations()] == ["samples-0-7", "samples-8-11"]


def test_case_18_groups_of_different_sizes_keep_their_own_means(service: Service) -> None:
    service.new_process("r", mode="shadow")
    rows = samples({0: [1, 0, 0, 1], 1: [1, 0], 2: [0, 0, 1]})
    _, advantages = hook(arguments(), rows)
    expected = [0.5, -0.5, -0.5, 0.5, 0.5, -0.5, -1 / 3, -1 / 3, 2 / 3]
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)


def test_case_19_rows_may_come_in_any_order(service: Service) -> None:
    service.new_process("r", mode="shadow")
    rows = samples({0: [1, 0, 0, 1], 1: [1, 0], 2: [0, 0, 1]})
    order = [6, 0, 4, 1, 8, 5, 2, 7, 3]
    _, advantages = hook(arguments(), [rows[row] for row in order])
    expected = np.array([0.5, -0.5, -0.5, 0.5, 0.5, -0.5, -1 / 3, -1 / 3, 2 / 3])[order]
    np.testing.assert_allclose(advantages, expected, rtol=1e-12)


def test_aborted_samples_and_those_without_a_reward_are_out_of_the_baseline(service: Service) -> None:
    service.new_process("r", mode="shadow", quorum=0.1)
    rows = samples({0: [1, 0, 1, None]})
    rows[2].status = Status.ABORTED
    raw, advantages = hook(arguments(), rows)
    assert advantages == [0.5, -0.5, 0, 0]
    assert raw[:3] == [1, 0, 1] and np.isnan(raw[3])
    (observation,) = service.observations()
    assert observation.schedules[0].diagnostics.coverage == 0.5


@pytest.mark.parametrize("masked", ["truncated", "removed", "failed"])
def test_samples_that_slime_keeps_in_the_group_stay_in_its_baseline(service: Service, masked: str) -> None:
    service.new_process("r", mode="shadow")
    rows = samples({0: [1, 0, 0, 0]})
    if masked == "removed":
        rows[1].remove_sample = True
    else:
        rows[1].status = Status(masked)
    assert hook(arguments(), rows)[1] == [0.75, -0.25, -0.25, -0.25]


def test_samples_of_one_rollout_count_once(service: Service) -> None:
    service.new_process("r", mode="shadow")
    rows = samples({0: [1, 1, 1, 0]})
    for row in rows[:3]:
        row.rollout_id = 5
    assert hook(arguments(), rows)[1] == [0.5, 0.5, 0.5, -0.5]


def test_the_reward_key_chooses_among_rewards(service: Service) -> None:
    service.new_process("r", mode="shadow")
    rows = samples({0: [{"right": 1, "short": 0}, {"right": 0, "short": 1}]})
    assert hook(arguments(reward_key="right"), rows) == ([1, 0], [0.5, -0.5])


def test_groups_that_slime_dropped_before_hold_the_solve_rate(service: Service) -> None:
    hook(arguments(dynamic_sampling_filter_path="filters.mixed"), samples({0: [1, 1, 1, 0]}))
    (observation,) = service.observations()
    assert observation.outcome == observation_pb2.OUTCOME_FROZEN
    assert observation.schedules[0].state.solve_rate == 0.5


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ({"advantage_estimator": "reinforce_plus_plus_baseline"}, "--advantage-estimator"),
        ({"normalize_advantages": True}, "--normalize-advantages"),
        ({"custom_advantage_function_path": "mine.advantages"}, "--custom-advantage-function-path"),
    ],
)
def test_settings_that_undo_the_schedule_are_refused(service: Service, setting: dict[str, Any], flag: str) -> None:
    with pytest.raises(TrainerError, match=flag):
        hook(arguments(**setting), samples({0: [1, 0]}))


def test_a_sample_without_a_group_is_refused_by_its_row(service: Service) -> None:
    rows = samples({0: [1, 0, 0]})
    rows[1].group_index = None
    with pytest.raises(TrainerError, match="sample 1 has no group_index"):
        hook(arguments(), rows)


def test_rewards_off_the_declared_range_are_refused_at_the_first_rollout(service: Service) -> None:
    with pytest.raises(RejectedError, match="rewards"):
        hook(arguments(), samples({0: [5, 0]}))


def test_the_same_samples_again_count_once(service: Service) -> None:
    first = hook(arguments(), samples({0: [1, 0, 0, 0]}))
    assert hook(arguments(), samples({0: [1, 0, 0, 0]})) == first
    assert len(service.observations()) == 1


def test_samples_without_numbers_are_counted_in_the_process(service: Service) -> None:
    for _ in range(2):
        rows = samples({0: [1, 0]})
        rows[0].index = rows[1].index = None
        hook(arguments(), rows)
    assert len({item.observation_id for item in service.observations()}) == 2


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(service: Service, data_source: Any, tmp_path: Path) -> None:
    batches = [samples({0: [1, 0, 0, 0]}), samples({1: [1, 1, 0, 0]}, first=4), samples({2: [1, 1, 1, 0]}, first=8)]
    whole = [hook(arguments(), batch) for batch in batches]

    args = arguments(save=str(tmp_path), load=str(tmp_path))
    service.new_process("cut")
    source = data_source(args)
    source.load(-1)  # as slime calls it where there is no checkpoint
    cut = [hook(args, batch) for batch in batches[:2]]
    source.save(1)
    hook(args, samples({5: [0, 0, 0, 1]}, first=8))  # after the checkpoint: on a branch that the resumed job leaves

    service.new_process("cut")
    source = data_source(args)
    source.load(1)
    assert source.calls == [("load", 1)]
    cut.append(hook(args, batches[2]))
    assert cut == whole
    assert service.digest("cut") == service.digest("r")


def test_a_checkpoint_without_the_state_is_said_and_loaded(
    service: Service, data_source: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data_source(arguments(load=str(tmp_path))).load(3)
    assert "fade_3.json is missing" in caplog.text


DAMAGE: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[:-20],
    "empty": lambda text: "",
    "a list": lambda text: "[]",
    "no entry": lambda text: "{}",
    "no state": lambda text: '{"state": null}',
    "a state alone": lambda text: json.dumps(json.loads(text)["state"]),
    "a state that was changed": lambda text: text.replace('"solve_rate": 0.', '"solve_rate": 0.0'),
    "another format": lambda text: text.replace('"format_version": 1', '"format_version": 2'),
    "no text": lambda text: "\udcff",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state_is_refused_by_its_file(service: Service, data_source: Any, tmp_path: Path, damage: str) -> None:
    source = data_source(arguments(save=str(tmp_path), load=str(tmp_path)))
    hook(arguments(), samples({0: [1, 0, 0, 0]}))
    source.save(1)
    path = tmp_path / "rollout/fade_1.json"
    damaged = DAMAGE[damage](path.read_text())
    assert damaged != path.read_text()
    path.write_bytes(damaged.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"rollout/fade_1\.json.*resume from another checkpoint"):
        source.load(1)


def test_a_state_that_is_a_folder_is_refused_by_its_name(service: Service, data_source: Any, tmp_path: Path) -> None:
    (tmp_path / "rollout/fade_1.json").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"rollout/fade_1\.json"):
        data_source(arguments(load=str(tmp_path))).load(1)


def test_a_state_that_cannot_be_written_is_said_and_stops_nothing(
    service: Service, data_source: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rollout").write_text("a file where a folder should be")
    source = data_source(arguments(save=str(tmp_path)))
    source.save(1)
    assert source.calls == [("save", 1)]
    assert "fade_1.json was not written" in caplog.text


def test_a_state_is_written_whole_or_not_at_all(service: Service, data_source: Any, tmp_path: Path) -> None:
    source = data_source(arguments(save=str(tmp_path)))
    hook(arguments(), samples({0: [1, 0, 0, 0]}))
    source.save(1)
    path = tmp_path / "rollout/fade_1.json"
    before = path.read_text()
    (tmp_path / "twin").hardlink_to(path)  # shows what a reader that opened the file in time sees
    hook(arguments(), samples({1: [1, 0, 0, 0]}, first=4))
    source.save(1)
    assert path.read_text() != before == (tmp_path / "twin").read_text()
    assert [item.name for item in path.parent.iterdir()] == ["fade_1.json"]


def test_division_by_the_standard_deviation_is_said_to_have_no_effect(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    fade_client.shim.say_undivided.cache_clear()
    args = arguments(rewards_normalization=True, grpo_std_normalization=True)
    for first in (0, 4):
        hook(args, samples({first: [1, 0, 0, 0]}, first=first))
    assert caplog.text.count("--disable-grpo-std-normalization") == 1
    fade_client.shim.say_undivided.cache_clear()
    caplog.clear()
    hook(arguments(rewards_normalization=True, grpo_std_normalization=False), samples({8: [1, 0]}, first=8))
    assert "standard deviation" not in caplog.text
