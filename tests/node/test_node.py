"""The Node client, installed by npm into a folder of its own, against live servers."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_service import FadeServer

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

OBSERVE = """
import { FadeClient } from "fade-client";

const fade = new FadeClient({ address: process.argv[1], run: "packed", config: { emaWeight: 0.5 }, timeoutMs: 20_000 });
const rewards = [1, 0, 0, 0];
const groups = ["a", "a", "b", "b"];
const schedule = await fade.observe("batch", { rewards, groups, entropy: { sumNats: 8, tokenCount: 10 } });
console.log(JSON.stringify({ advantages: [...schedule.advantages(rewards, groups)], ...schedule.metrics() }));
await fade.close();
"""


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in ``folder``; past the time limit it ends with all that it started."""
    environment = os.environ | {"npm_config_audit": "false", "npm_config_fund": "false"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=400)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def done(finished: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of the contract, installed; nothing is written into the checkout."""
    copied = tmp_path_factory.mktemp("checkout")
    folder = copied / "clients" / "node"
    ignored = shutil.ignore_patterns("node_modules", "proto", "types", "*.tgz", "package-lock.json")
    shutil.copytree(ROOT / "clients" / "node", folder, ignore=ignored)
    shutil.copytree(ROOT / "proto" / "fade", copied / "proto" / "fade")
    done(run(folder, "npm", "install"))
    return folder


@pytest.fixture
def play(package: Path) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """Runs the package's own runner over a folder of vectors, with a server that it may stop and start."""

    def play(vectors: Path) -> subprocess.CompletedProcess[str]:
        runner = ("node", "--test-reporter=tap", "test/vectors.js", "--vectors", vectors)
        return run(package, *runner, "--", sys.executable, "-m", "fade_service")

    return play


def test_every_vector_passes(play: Callable[[Path], subprocess.CompletedProcess[str]]) -> None:
    output = done(play(VECTORS))
    names = [scenario["name"] for file in sorted(VECTORS.glob("*.json")) for scenario in json.loads(file.read_text())]
    passed = [line for line in output.splitlines() if line.startswith("ok ")]
    assert len(names) > 80 and [line.partition(" - ")[2] for line in passed] == names


@pytest.mark.parametrize("tests", ["settings", "reports"])
def test_its_own_tests_pass(package: Path, tests: str) -> None:
    output = done(run(package, "node", "--test-reporter=tap", f"test/{tests}.js"))
    assert len([line for line in output.splitlines() if line.lstrip().startswith("ok ")]) > 30


def test_what_it_does_without_the_service_passes(package: Path) -> None:
    done(run(package, "node", "test/policies.js", "--", sys.executable, "-m", "fade_service"))


def test_a_wrong_vector_fails(play: Callable[[Path], subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    scenarios = {item["name"]: item for file in VECTORS.glob("*.json") for item in json.loads(file.read_text())}
    wrong: dict[str, Callable[[list[Any]], Any]] = {
        "case 12: an only success and an only failure keep their signal": lambda steps: steps[0]["expect"].update(delta=2 + 1e-9),
        "case 16: siblings that became singletons get zeros and a warning": lambda steps: steps[0]["expect"]["warnings"].clear(),
        "case 21: padding is no rollout": lambda steps: steps[0]["expect"]["advantages"].__setitem__(7, 1e-300),
        "a reward above the range": lambda steps: steps[0]["error"].update(row=2),
        "an empty id": lambda steps: steps[1].update(error={"reason": "INVALID_FIELD"}),
        "neutral weights, and the reports are kept": lambda steps: steps[-2]["history"][1].update(late="HELD"),
        "environments have averages and schedules of their own": lambda steps: steps[-1]["state"].update(revision=2),
    }
    changed = [copy.deepcopy(scenarios[name]) for name in wrong]
    for scenario in changed:
        wrong[scenario["name"]](scenario["steps"])
    (tmp_path / "wrong.json").write_text(json.dumps([scenarios["case 14: everything filtered, no rows"], *changed]))
    finished = play(tmp_path)
    assert finished.returncode != 0
    lines = [line for line in finished.stdout.splitlines() if line.startswith(("ok ", "not ok "))]
    assert [line.partition(" - ")[0] for line in lines] == ["ok 1", *(f"not ok {2 + number}" for number in range(len(wrong)))]


def test_the_packed_package_works_where_it_is_installed(package: Path, tmp_path: Path) -> None:
    done(run(package, "npm", "pack", "--pack-destination", tmp_path))
    (packed,) = tmp_path.glob("*.tgz")
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert {"package/proto/fade/v1/scheduler.proto", "package/types/index.d.ts", "package/src/index.js"} <= set(names)
    assert not [name for name in names if "/test/" in name]
    elsewhere = tmp_path / "trainer"
    elsewhere.mkdir()
    (elsewhere / "package.json").write_text('{"private": true}')
    done(run(elsewhere, "npm", "install", packed))
    with FadeServer(store="memory://", grpc_port=0, http_port=0) as server:
        address = f"127.0.0.1:{server.grpc_port}"
        output = done(run(elsewhere, "node", "--input-type=module", "--eval", OBSERVE, address))
    answer = json.loads(output)
    # p_step = 1/4, p_hat = 3/8, alpha = 1.5 * (5/8) / (3/8); group a has rbar = 1/2, and b, all failed, no signal
    assert answer["fade/source"] == "SERVER" and answer["fade/alpha"] == pytest.approx(2.5, rel=1e-12)
    assert answer["advantages"] == pytest.approx([0.5**2.5, -(0.5**2.5), 0, 0], rel=1e-12)


def test_no_lock_file_and_no_host_in_what_is_checked_in() -> None:
    files = [file for file in (ROOT / "clients" / "node").iterdir() if file.is_file()]
    assert "package-lock.json" not in [file.name for file in files]
    assert not [file.name for file in files if "registry" in file.read_text() or "://" in file.read_text()]
