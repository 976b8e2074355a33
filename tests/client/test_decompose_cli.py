"""`fade decompose`, and the registered advantages through the service."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import grpc
import pytest

from fade_client import FadeClientError
from fade_client.decompose import register
from fade_core import advantage_names, two_level_advantages
from fade_proto.v1 import observation_pb2, run_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

ROWS = [
    {"group": "a", "reward": 1, "advantage": 0.75},
    {"group": "a", "reward": 0, "advantage": -0.25},
    {"group": "a", "reward": 0, "advantage": -0.25},
    {"group": "a", "reward": 0, "advantage": -0.25},
    {"group": "b", "reward": 1, "advantage": 0.5},
    {"group": "b", "reward": 0, "advantage": -0.5},
    {"group": "b", "reward": None, "advantage": None},
]


@pytest.fixture
def fade(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `fade decompose` with these arguments: exit code, output, complaints."""

    def run(*arguments: object) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser(prog="fade")
        register(parser.add_subparsers())
        options = parser.parse_args(["decompose", *map(str, arguments)])
        code = options.handler(options)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_without_a_name_every_registered_advantage_is_a_row(fade: Any) -> None:
    code, out, _ = fade()
    head, *rows = cells(out)
    assert code == 0 and head == ["ADVANTAGE", "SIGN", "CENTRE", "SPREAD", "PEAK", "SCALE", "w(0.1)", "w(0.5)", "w(0.9)"]
    assert [row[0].partition(":")[0] for row in rows] == list(advantage_names())
    assert next(row for row in rows if row[0] == "rloo") == "rloo 1.000 0.500 0.224 0.500 1.143 1.000 1.000 1.000".split()


def test_one_name_shows_its_weights_for_every_number_of_solved_rollouts(fade: Any) -> None:
    code, out, _ = fade("fade:alpha=2,delta=0.5", "--group-size", 4)
    rows = cells(out)
    assert code == 0 and rows[1][:2] == ["fade:alpha=2,delta=0.5", "0.500"]
    assert rows[2] == ["SOLVED", "wS", "wF", "mS", "mF"] and len(rows) == 8
    assert rows[4] == ["1/4", "0.562", "0.375", "0.141", "0.281"]  # 0.75^2, 0.25 * 0.75 / 0.5 and their masses


def test_json_has_every_number_and_null_where_json_has_none(fade: Any) -> None:
    code, out, _ = fade("pass_at_k_training:k=3", "psr", "--json", "--group-size", 16)
    document = json.loads(out)
    first, second = document["advantages"]
    assert code == 0 and document["data"] is None
    assert (first["label"], first["parameters"], first["group_size"]) == ("pass_at_k_training:k=3", {"k": 3.0}, 16)
    assert first["formula"]["wS"] == "sqrt((1-rho)/rho), rho = rho_K(G,k)" and "2508.10751" in first["source"]
    none = math.comb(14, 3) / math.comb(16, 3)
    assert first["weight_success"][2] == pytest.approx(math.sqrt(none / (1 - none)), rel=1e-12)
    assert len(first["weight_failure"]) == 17 and len(first["population_weight"]) == len(first["solve_rate"]) == 201
    assert second["sign_ratio"] is None and second["parameters"] == {}


@pytest.mark.parametrize("suffix", ["json", "columns.json", "csv", "parquet"])
def test_the_users_own_numbers_are_read_from_every_format(fade: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"dump.{suffix}"
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    if suffix == "json":
        path.write_text(json.dumps(ROWS))
    elif suffix == "columns.json":
        path.write_text(json.dumps(columns))
    elif suffix == "csv":
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in ROWS]
        path.write_text("\n".join([",".join(columns), *lines]))
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)
    code, out, _ = fade("--data", path, "--json")
    seen = json.loads(out)["data"]
    assert code == 0 and (seen["row_count"], seen["group_count"], seen["missing_count"]) == (6, 2, 1)
    assert (seen["sign_ratio"], seen["scale"], seen["nearest"][0]["name"]) == (1.0, 1.0, "grpo_mean")
    assert seen["mass_success"][2] == pytest.approx(0.75 / 4)


def test_the_table_of_the_users_numbers_says_which_advantage_is_nearest(fade: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(ROWS))
    code, out, _ = fade("maxrl", "--data", path)
    rows = cells(out)
    assert code == 0 and [row[0] for row in rows[1:3]] == ["maxrl", "(data)"]
    assert "data: 6 rows in 2 groups, 1 rows without an outcome" in out
    assert rows[rows.index(["NEAREST", "DISTANCE", "SCALE"]) + 1] == ["grpo_mean", "0.000", "1.000"]


def test_a_solved_column_wins_over_shaped_rewards(fade: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump.csv"
    path.write_text("group,reward,solved,advantage\nx,0.9,True,0.5\nx,0.2,false,-0.5\n")
    code, out, _ = fade("--data", path, "--json")
    assert code == 0 and json.loads(out)["data"]["nearest"][0]["name"] == "grpo_mean"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group,reward,advantage\nx,0.5,1\n", "outcome[0]: is 0.5, neither 0 nor 1"),
        ("group,reward,advantage\nx,1,1\nx,0,much\n", "advantage[1] is 'much', which is no number"),
        ("group,reward,advantage\nx,1,1\n,0,1\n", "group[1] is empty"),
        ("group,reward,advantage\nx,1,\n", "advantage[0]: is nan"),
        ("prompt,reward,advantage\nx,1,1\n", "no column group"),
        ("group,advantage\nx,1\n", "no column reward"),
        ("", "no column group"),
        ("group,reward,advantage\nx,,1\n", "outcome: is missing in every row"),
    ],
)
def test_a_wrong_table_is_refused_by_column_and_row(fade: Any, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "dump.csv"
    path.write_text(text)
    with pytest.raises(FadeClientError) as caught:
        fade("--data", path)
    assert str(path) in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[1, 2]", "3", '{"group": ["a"], "reward": [1, 0], "advantage": [1]}'])
def test_json_that_is_no_table_is_refused(fade: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump.json"
    path.write_text(text)
    with pytest.raises(FadeClientError, match="dump.json"):
        fade("--data", path)


def test_a_file_that_is_not_there_is_said_so(fade: Any, tmp_path: Path) -> None:
    with pytest.raises(FadeClientError, match="No such file"):
        fade("--data", tmp_path / "dump.json")


def test_parquet_without_its_library_says_what_to_install(fade: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FadeClientError, match="pip install pyarrow"):
        fade("--data", tmp_path / "dump.parquet")


MODULE = """
def centred(rewards):
    return rewards - rewards.mean()

def by_place(rewards):
    return list(range(len(rewards)))

def broken(rewards):
    raise RuntimeError("no GPU today")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current directory."""
    name = f"module_of_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_a_callable_of_the_users_is_a_row_beside_the_registered(fade: Any, module: str) -> None:
    code, out, _ = fade("grpo_mean", "--callable", f"{module}:centred")
    _, known, theirs = cells(out)
    assert code == 0 and theirs[0] == f"{module}:centred" and theirs[1:] == known[1:]


@pytest.mark.parametrize(("function", "words"), [("by_place", "only success or failure"), ("broken", "RuntimeError: no GPU")])
def test_a_callable_that_cannot_be_taken_apart_says_why(fade: Any, module: str, function: str, words: str) -> None:
    with pytest.raises(FadeClientError, match=words):
        fade("--callable", f"{module}:{function}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "choose one of asym_grpo"),
        (["fade:alpha"], "'alpha' is not of the form param=number"),
        (["fade:alpha=high"], "'alpha=high' is not of the form"),
        (["fade:alpha=0.1"], "a finite number of 0.5 or more"),
        (["pkpo:k=9"], "a group has 8 scored rollouts"),
        (["fade", "--group-size", "1"], "group_size: is 1"),
        (["--group-size", "3"], "'k' is 4, but a group has 3"),
        (["--callable", "json"], "give MODULE:FUNCTION"),
        (["--callable", "json:nothing"], "no attribute 'nothing'"),
        (["--callable", "no_such_module:f"], "No module named"),
        (["--data", "dump.txt"], "ends in .json or .csv or .parquet"),
        (["--plot", "axes.pdf"], "ends in .png or .svg"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_code_2(fade: Any, arguments: list[str], words: str) -> None:
    code, out, complaint = fade(*arguments)
    assert (code, out) == (2, "") and complaint.startswith("fade decompose: ") and words in complaint


def test_the_picture_has_a_curve_and_a_name_for_every_advantage(fade: Any, tmp_path: Path) -> None:
    picture, data = tmp_path / "axes.svg", tmp_path / "dump.json"
    data.write_text(json.dumps(ROWS))
    code, _, _ = fade(*advantage_names(), "--plot", picture, "--data", data)
    text = picture.read_text()
    ElementTree.fromstring(text)
    assert code == 0
    for word in [*advantage_names(), "data", "solve rate p", "mS(p)", "mF(p)"]:
        assert word in text
    assert text.count('id="line2d_') >= 3 * len(advantage_names())


def test_a_picture_can_be_a_png(fade: Any, tmp_path: Path) -> None:
    code, _, _ = fade("fade", "--plot", tmp_path / "axes.png")
    assert code == 0 and (tmp_path / "axes.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FadeClientError, match="axes.png"):
        fade("fade", "--plot", tmp_path / "nowhere" / "axes.png")


def test_a_picture_without_matplotlib_says_what_to_install(fade: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "fade_client.decompose_plot", raising=False)
    code, _, complaint = fade("fade", "--plot", tmp_path / "axes.png")
    assert code == 2 and "pip install 'fade-scheduler[plot]'" in complaint


def test_the_command_imports_no_plotting_and_no_tables() -> None:
    code = "import sys, fade_client.decompose; print(*{'matplotlib', 'pyarrow', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_service_weighs_rows_by_every_name(server: str) -> None:
    name = "projects/default/runs/decompose"
    rewards, size, solved = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], 8, 2
    with grpc.insecure_channel(server) as channel:
        stub = SchedulerServiceStub(channel)
        create = scheduler_pb2.CreateRunRequest(parent="projects/default", run_id="decompose", run=run_pb2.Run())
        stub.CreateRun(create, timeout=10)

        def advantages(advantage: str, **parameters: float) -> list[float]:
            named = observation_pb2.NamedAdvantage(name=advantage, parameters=parameters)
            request = scheduler_pb2.ComputeAdvantagesRequest(name=name, advantage=named)
            request.rows.rewards.extend(rewards)
            request.rows.group_index.extend([0] * size)
            request.groups.count = 1
            return list(stub.ComputeAdvantages(request, timeout=10).advantages)

        for known in two_level_advantages():
            assert advantages(known)[0] >= 0 >= advantages(known)[1]
        assert advantages("maxrl") == pytest.approx([3.0 if reward else -1.0 for reward in rewards], rel=1e-14)
        success = 3 / size * math.comb(size - solved, 2) / math.comb(size - 1, 2)
        assert advantages("pkpo", k=3.0) == pytest.approx([success if reward else 0.0 for reward in rewards], rel=1e-14)
        rewards[1] = 0.5
        with pytest.raises(grpc.RpcError) as caught:
            advantages("maxrl")
        failure: Any = caught.value
        assert failure.code() == grpc.StatusCode.INVALID_ARGUMENT and "rewards[1]" in failure.details()
