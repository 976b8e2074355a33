"""`fade runs`, `pin`, `unpin` and `mode`: the real command against a real server."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from tests.client.conftest import Front
from tests.client.terminal import FADE, Terminal, environment, fade
from tests.service.access.parts import make_server, secret, tokens_json, with_runs

from fade_client import FadeClient, RunConfig
from fade_client.operate import exits, rows, text
from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service.access.policy import Access
from fade_service.access.tokens import Tokens

Connect = Callable[..., FadeClient]

MIXED: Any = {
    "rewards": [1, 0, 1, 1],
    "groups": ["a", "a", "b", "b"],
    "environments": {"a": "code", "b": "math"},
    "entropy": {"code": (3.0, 4), "math": (1.0, 4)},
}


@pytest.fixture
def stub(server: str) -> Iterator[SchedulerServiceStub]:
    """The service, called without the command."""
    with grpc.insecure_channel(server) as channel:
        yield SchedulerServiceStub(channel)


@pytest.fixture
def mixed(server: str, connect: Connect) -> str:
    """A run with two observations of two environments, and its address."""
    client = connect(server, "mixed", config=RunConfig(alpha_max=2.5, group_size=4))
    for number in range(2):
        client.observe(f"batch-{number}", trainer_step=10 * number, **MIXED)
    return server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the test's own, without the server's file."""
    path = tmp_path / "output"
    path.mkdir()
    return path


def table(output: str) -> list[list[str]]:
    """Cells of an aligned table, without its header."""
    return [line.split() for line in output.splitlines()[1:]]


def complete(stub: SchedulerServiceStub, run: str) -> None:
    """Ends a run of the default project."""
    stub.CompleteRun(scheduler_pb2.CompleteRunRequest(name=f"projects/default/runs/{run}"), timeout=10)


# --- fade runs list


def test_the_run_that_reported_last_comes_first_with_a_line_per_environment(mixed: str, connect: Connect, batch: Any) -> None:
    connect(mixed, "younger").observe(**batch(3))
    done = fade("runs", "list", FADE_ADDRESS=mixed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[0].split()[:3] == ["RUN", "STATE", "MODE"]
    names = [row[0] for row in table(done.stdout)]
    assert names.index("younger") < names.index("mixed")
    code, math = [row for row in table(done.stdout) if "code" in row or "math" in row]
    assert code[:5] == ["mixed", "active", "active", "code", "exploring"] and "2" in code and math[0] == "math"
    # One of two code rollouts solved: the average stays 0.5; entropy 3 nats over 4 tokens, and half of it is the target.
    assert "0.500" in code and "0.750/0.375" in code and "0.250/0.125" in math


def test_completed_runs_are_listed_when_asked_for(server: str, connect: Connect, batch: Any, stub: SchedulerServiceStub) -> None:
    connect(server, "done").observe(**batch(1))
    complete(stub, "done")
    some = fade("runs", "list", "--server", server)
    assert some.stdout == "no run is active; --all lists the 1 that are completed too\n"
    assert table(fade("runs", "list", "--all", "--server", server).stdout)[0][:2] == ["done", "completed"]


def test_the_list_as_json_has_what_the_service_says(mixed: str, stub: SchedulerServiceStub, connect: Connect) -> None:
    listed = json.loads(fade("runs", "list", "--json", "--server", mixed).stdout)
    assert [item["name"] for item in listed] == ["projects/default/runs/mixed"]
    run = stub.GetRun(scheduler_pb2.GetRunRequest(name=listed[0]["name"]), timeout=10)
    schedule = stub.GetSchedule(scheduler_pb2.GetScheduleRequest(name=run.name), timeout=10)
    assert {key: listed[0][key] for key in ("state", "mode", "branch", "revision", "trainer_step", "config_revision")} == {
        "state": "active", "mode": "active", "branch": "main", "revision": 2, "trainer_step": 10, "config_revision": 1,
    }  # fmt: skip
    assert datetime.fromisoformat(listed[0]["observe_time"]) == run.observe_time.ToDatetime(tzinfo=timezone.utc)
    for shown, item in zip(listed[0]["environments"], schedule.schedules, strict=True):
        assert (shown["environment"], shown["alpha"], shown["delta"]) == (
            item.environment,
            item.schedule.alpha,
            item.schedule.delta,
        )
        assert shown["target_entropy_nats"] == item.schedule.target_entropy_nats
        assert (shown["average_solve_rate"], shown["average_entropy_nats"]) == (item.state.solve_rate, item.state.entropy_nats)


def test_the_project_is_an_option_or_comes_from_the_environment(server: str, connect: Connect, batch: Any) -> None:
    connect(server, "there", project="lab").observe(**batch(1))
    assert fade("runs", "list", "--server", server).stdout == "no runs in project default; --project - lists all projects' runs\n"
    for done in (
        fade("runs", "list", "--server", server, "--project", "lab"),
        fade("runs", "list", FADE_ADDRESS=server, FADE_PROJECT="lab"),
    ):
        assert table(done.stdout)[0][0] == "there"
    assert table(fade("runs", "list", "--project", "-", FADE_ADDRESS=server).stdout)[0][0] == "projects/lab/runs/there"
    for name, project in (("there", "lab"), ("projects/lab/runs/there", "other")):
        assert fade("runs", "show", name, FADE_ADDRESS=server, FADE_PROJECT=project).returncode == 0


@pytest.mark.heavy
def test_more_runs_than_a_page_are_all_listed(server: str, stub: SchedulerServiceStub) -> None:
    def create(number: int) -> None:
        request = scheduler_pb2.CreateRunRequest(parent="projects/default", run_id=f"run-{number}", run=run_pb2.Run())
        stub.CreateRun(request, timeout=60)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(1100)))
    listed = json.loads(fade("runs", "list", "--json", "--server", server).stdout)
    assert {item["name"] for item in listed} == {f"projects/default/runs/run-{number}" for number in range(1100)}


# --- fade runs show


def test_show_marks_what_differs_from_the_default(mixed: str) -> None:
    some = fade("runs", "show", "mixed", "--server", mixed)
    assert (some.returncode, some.stderr) == (0, "")
    rows = [line.split() for line in some.stdout.splitlines()]
    assert ["*", "alpha_max", "2.5", "3.0"] in rows and ["*", "group_size", "4", "unset"] in rows
    assert "alpha_min" not in some.stdout
    everything = [line.split() for line in fade("runs", "show", "mixed", "--all", "--server", mixed).stdout.splitlines()]
    assert ["*", "alpha_max", "2.5", "3.0"] in everything and ["alpha_min", "1.0", "1.0"] in everything


def test_show_tells_branches_writers_last_observations_and_warnings(mixed: str, connect: Connect) -> None:
    resumed = connect(mixed, "mixed", writer="second-attempt")
    resumed.restore(1)
    resumed.observe("batch-again", trainer_step=11, **MIXED)
    shown = fade("runs", "show", "mixed", "--server", mixed).stdout
    document = json.loads(fade("runs", "show", "mixed", "--json", "--server", mixed).stdout)
    first, second = document["branches"]
    assert (first["branch"], second["parent"], second["parent_revision"]) == ("main", "main", 1)
    assert second["writer"] == "second-attempt" and document["branch"] == second["branch"]
    assert f"* {second['branch']}" in shown and "main at 1" in shown
    assert [item["observation_id"] for item in document["observations"]] == ["batch-0", "batch-again"]
    assert document["config"]["alpha_max"] == 2.5 and document["config_not_default"] == ["alpha_max", "group_size"]
    warned = {(item["reason"], item["subject"]): item["count"] for item in document["warnings"]}
    assert warned["PARTIAL_GROUPS", "code"] == warned["PARTIAL_GROUPS", "math"] == 2
    assert "PARTIAL_GROUPS (code), 2x, last at revision 2: " in shown


# --- fade runs export


def test_export_has_a_line_per_observation_and_environment_with_the_services_numbers(
    mixed: str, stub: SchedulerServiceStub, folder: Path
) -> None:
    stored = stub.ListObservations(scheduler_pb2.ListObservationsRequest(parent="projects/default/runs/mixed"), timeout=10)
    wanted = [(item, answered) for item in stored.observations for answered in item.schedules]
    assert len(wanted) == 4
    jsonl = [json.loads(line) for line in fade("runs", "export", "mixed", "--server", mixed).stdout.splitlines()]
    file = folder / "history.csv"
    done = fade("runs", "export", "mixed", "--format", "csv", "--output", str(file), "--server", mixed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(folder.iterdir()) == [file]
    lines = list(csv.DictReader(file.read_text().splitlines()))
    for row, line, (item, answered) in zip(jsonl, lines, wanted, strict=True):
        assert list(row) == list(line)
        assert (row["observation_id"], row["revision"]) == (item.observation_id, item.revision)
        assert row["environment"] == answered.environment
        numbers: dict[str, Any] = {
            "alpha": answered.schedule.alpha,
            "delta": answered.schedule.delta,
            "average_solve_rate": answered.state.solve_rate,
            "average_entropy_nats": answered.state.entropy_nats,
            "target_entropy_nats": answered.schedule.target_entropy_nats,
            "batch_solve_rate": answered.diagnostics.solve_rate,
            "batch_entropy_nats": answered.diagnostics.entropy_nats,
        }
        diagnostics = MessageToDict(answered.diagnostics, preserving_proto_field_name=True)
        numbers |= {key: float(value) for key, value in diagnostics.items() if key not in ("solve_rate", "entropy_nats")}
        assert {key: row[key] for key in numbers} == numbers
        assert {key: float(line[key]) for key in numbers} == numbers
        assert row["warnings"] == [warning.reason for warning in item.warnings]
        assert line["warnings"] == " ".join(row["warnings"])
        assert (row["late_alpha"], line["late_alpha"]) == (None, "")
        assert datetime.fromisoformat(line["create_time"]) == item.create_time.ToDatetime(tzinfo=timezone.utc)


def test_late_reports_are_exported_with_what_was_trained_on(front: Front, connect: Connect, batch: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    trained = client.observe(**batch(1))
    front.mode = "pass"
    assert client.flush(30)
    rows = [json.loads(line) for line in fade("runs", "export", "r", "--server", front.address).stdout.splitlines()]
    assert [row["source"] for row in rows] == ["SERVER", "LOCAL"]
    assert (rows[1]["late_alpha"], rows[1]["late_delta"], rows[1]["late_config_revision"]) == (trained.alpha, trained.delta, 1)


def test_a_run_without_observations_is_a_table_without_lines(server: str, connect: Connect, batch: Any) -> None:
    client = connect(server)
    client.observe(**batch(0), evaluation=True)  # makes the run, and is not kept
    assert fade("runs", "export", "r", "--server", server).stdout == ""
    assert fade("runs", "export", "r", "--format", "csv", "--server", server).stdout.startswith("run,branch,revision,")
    assert fade("runs", "export", "r", "--format", "csv", "--server", server).stdout.count("\n") == 1


class _BreaksAfterAPage(Front):
    """Answers one ListObservations, and then nothing."""

    def service(self, details: Any) -> Any:
        if details.method.endswith("/ListObservations") and self.calls["ListObservations"]:
            self.mode = "down"
        return super().service(details)


@pytest.mark.heavy
def test_a_history_of_several_pages_is_exported_whole_or_not_at_all(
    server: str, connect: Connect, batch: Any, folder: Path
) -> None:
    client = connect(server, timeout_seconds=10.0)
    for number in range(1050):
        client.observe(**batch(number))
    lines = fade("runs", "export", "r", "--server", server).stdout.splitlines()
    assert [json.loads(line)["revision"] for line in lines] == list(range(1, 1051))
    script = f"set -o pipefail; {FADE} runs export r --server {server} | head -n 1"
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (1, "", lines[0] + "\n")  # the reader may leave
    before = folder / "history.jsonl"
    before.write_text("of yesterday")
    front = _BreaksAfterAPage(server)
    try:
        broken = fade("runs", "export", "r", "--output", str(before), "--server", front.address)
    finally:
        front.close()
    assert (broken.returncode, list(folder.iterdir()), before.read_text()) == (3, [before], "of yesterday")


def test_what_cannot_be_written_is_told_and_leaves_nothing(mixed: str, folder: Path) -> None:
    done = fade("runs", "export", "mixed", "--output", str(folder / "absent" / "x.jsonl"), "--server", mixed)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No such file or directory" in done.stderr
    assert fade("runs", "export", "mixd", "--output", str(folder / "x.jsonl"), "--server", mixed).returncode == 4
    assert list(folder.iterdir()) == []


# --- errors and exit codes


def test_a_server_that_is_away_is_code_3_in_one_line() -> None:
    for command in (["runs", "list"], ["watch", "r"], ["status"]):
        done = fade(*command, "--server", "127.0.0.1:1")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert "127.0.0.1:1" in done.stderr and "--server or FADE_ADDRESS" in done.stderr


def test_an_unknown_run_is_code_4_with_the_nearest_names(server: str, connect: Connect, batch: Any) -> None:
    for run in ("qwen-math", "qwen-maths", "llama"):
        connect(server, run).observe(**batch(1))
    done = fade("runs", "show", "qwen-mth", "--server", server)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)
    assert "no run qwen-mth in project default" in done.stderr and done.stderr.endswith("the nearest: qwen-math, qwen-maths\n")
    assert "lists the 3 that there are" in fade("watch", "zzz", "--server", server).stderr
    assert "which has none" in fade("unpin", "projects/empty/runs/x", "--server", server).stderr


class _Deletes(Front):
    """Deletes the run before it passes a GetSchedule on."""

    delete: Callable[[], object]

    def service(self, details: Any) -> Any:
        if details.method.endswith("/GetSchedule"):
            self.delete()
        return super().service(details)


def test_a_run_that_is_deleted_meanwhile_is_code_4_and_not_in_the_list(mixed: str, stub: SchedulerServiceStub) -> None:
    front = _Deletes(mixed)
    request = scheduler_pb2.DeleteRunRequest(name="projects/default/runs/mixed")
    front.delete = lambda: stub.DeleteRun(request, timeout=10)
    try:
        done = fade("runs", "show", "mixed", "--server", front.address)
        assert (done.returncode, done.stderr) == (4, "fade: the run was deleted meanwhile\n")
        create = scheduler_pb2.CreateRunRequest(parent="projects/default", run_id="mixed", run=run_pb2.Run())
        stub.CreateRun(create, timeout=10)
        assert fade("runs", "list", "--json", "--server", front.address).stdout == "[]\n"
    finally:
        front.close()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["runs"], "required"),
        (["runs", "show", "projects/x/r"], "is no run; give its id"),
        (["pin", "r", "--alpha", "1"], "--delta"),
        (["mode", "r", "pinned"], "invalid choice"),
        (["watch", "r", "--interval", "0"], "more than 0"),
    ],
)
def test_a_wrong_command_line_is_code_2(command: list[str], problem: str) -> None:
    done = fade(*command)
    assert done.returncode == 2 and problem in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "show", "BAD_NAME"],
        ["runs", "show", "projects/Bad!/runs/r"],
        ["runs", "list", "--project", "Bad!"],
        ["simulate", "r", "--alpha-rule", "foo"],
        ["simulate", "r", "--points", "-1"],
        ["simulate", "r", "--points", "0"],
        ["simulate", "r", "--points", "99999999999"],
        ["simulate", "r", "--set", "alpha_max=2,alpha_max=3"],
        ["pin", "r", "--alpha", "0", "--delta", "1"],
        ["pin", "r", "--alpha", "1", "--delta", "inf"],
        ["status", "--timeout-seconds", "nan"],
        ["status", "--timeout-seconds", "-1"],
        ["status", "--timeout-seconds", "1e30"],
    ],
)
def test_a_value_out_of_bounds_is_a_wrong_command_line(command: list[str]) -> None:
    done = fade(*command, FADE_ADDRESS="localhost:1")
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
    assert command[-1] in done.stderr or "argument" in done.stderr


@pytest.mark.parametrize("command", [["runs", "list"], ["runs", "show", "r"]])
def test_a_project_in_the_environment_that_is_none_is_code_2(command: list[str]) -> None:
    done = fade(*command, FADE_ADDRESS="localhost:1", FADE_PROJECT="Bad!")
    assert done.returncode == 2 and "FADE_PROJECT" in done.stderr


def test_what_the_service_cannot_take_and_an_output_that_cannot_be_written_are_one_line(mixed: str, folder: Path) -> None:
    huge = fade("simulate", "mixed", "--decay-observations", "99999999999999999999", FADE_ADDRESS=mixed)
    assert (huge.returncode, huge.stderr) == (2, "fade: decay_observations is 99999999999999999999, which is out of any range\n")
    onto_a_folder = fade("runs", "export", "mixed", "--output", str(folder), FADE_ADDRESS=mixed)
    assert onto_a_folder.returncode == 2 and "it is a folder" in onto_a_folder.stderr and not list(folder.iterdir())
    for command in (["runs", "list"], ["runs", "export", "mixed"], ["runs", "show", "mixed", "--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [FADE, *command], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(FADE_ADDRESS=mixed), timeout=60
            )
        assert (done.returncode, done.stderr) == (1, "fade: [Errno 28] No space left on device\n")


def test_absurd_weights_are_told_short_and_said_to_be_far_out(mixed: str) -> None:
    done = fade("pin", "mixed", "--alpha", "1e308", "--delta", "1e308", "--yes", FADE_ADDRESS=mixed)
    assert done.returncode == 0 and "1e+308" in done.stdout and "far outside what is usual" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 100
    listed = fade("runs", "list", FADE_ADDRESS=mixed).stdout
    assert max(map(len, listed.splitlines())) < 200
    usual = fade("pin", "mixed", "--alpha", "2", "--delta", "0.5", "--yes", FADE_ADDRESS=mixed)
    assert usual.returncode == 0 and "far outside" not in usual.stdout


def test_a_table_keeps_its_lines_and_the_terminal_whatever_is_in_it() -> None:
    made = text.table(("A", "B"), [["a\x1b[31m", "b\nc"], ["\u202ed", "ü ▁"]])
    assert [line.split("  ")[0] for line in made.splitlines()] == ["A", "a\\x1b[31m", "\\u202ed"]
    assert made.splitlines()[1].endswith("b\\nc") and made.splitlines()[2].endswith("ü ▁")


def test_help_tells_what_each_simulated_setting_does() -> None:
    told = " ".join(fade("simulate", "--help").stdout.split())
    assert "Weight of the new value in both averages" in told and "In observations." in told
    assert re.fullmatch(r"fade-scheduler \S+ \(maths \d+\)\n", fade("--version").stdout)


def test_a_token_that_is_refused_says_what_to_do() -> None:
    with make_server(Access(tokens=Tokens(tokens_json()))) as running:
        address = with_runs(running).address

        def refused(*command: str, **more: str) -> str:
            done = fade(*command, FADE_ADDRESS=address, **more)
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            return done.stderr

        name = "projects/lab/runs/r"
        assert refused("runs", "show", name).endswith("; set FADE_TOKEN\n")
        mistyped = refused("runs", "show", name, FADE_TOKEN="secret-mistyped")
        assert "TOKEN_INVALID" in mistyped and "FADE_TOKEN" in mistyped and "secret-mistyped" not in mistyped
        pinned = ("pin", name, "--alpha", "2", "--delta", "1", "--yes")
        assert "ROLE_TOO_LOW" in refused(*pinned, FADE_TOKEN=secret("lab-write"))
        assert "--project" in refused("runs", "list", FADE_TOKEN=secret("lab-read"))
        assert fade("runs", "list", "--project", "lab", FADE_ADDRESS=address, FADE_TOKEN=secret("lab-read")).returncode == 0
        assert fade(*pinned, FADE_ADDRESS=address, FADE_TOKEN=secret("lab-admin")).returncode == 0


def test_tls_files_that_cannot_be_used_are_code_2(tmp_path: Path) -> None:
    done = fade("runs", "list", FADE_TLS_CA=str(tmp_path / "absent.pem"))
    assert done.returncode == 2 and "TLS cannot be used" in done.stderr and done.stderr.count("\n") == 1


# --- fade runs complete, delete


def test_a_run_is_ended_for_good_and_stays_readable(mixed: str) -> None:
    done = fade("runs", "complete", "mixed", "--yes", "--server", mixed)
    assert done.returncode == 0 and "revision 2, last report" in done.stdout and done.stdout.endswith("\ncompleted\n")
    assert "completed" in fade("runs", "show", "mixed", "--server", mixed).stdout
    assert "no run is active" in fade("runs", "list", "--server", mixed).stdout
    assert "completed already" in fade("runs", "complete", "mixed", "--yes", "--server", mixed).stdout


def test_a_run_is_deleted_only_after_a_yes(mixed: str) -> None:
    unasked = fade("runs", "delete", "mixed", "--server", mixed)
    assert unasked.returncode == 2 and "give --yes" in unasked.stderr
    with Terminal(FADE, "runs", "delete", "mixed", "--server", mixed) as terminal:
        assert "revision 2" in terminal.wait_for("go on? [y/N] ")
        terminal.type("n\n")
        assert terminal.ended()[0] == 1
    assert fade("runs", "show", "mixed", "--server", mixed).returncode == 0
    assert fade("runs", "delete", "mixed", "--yes", "--server", mixed).stdout.endswith("\ndeleted\n")
    assert fade("runs", "delete", "mixed", "--yes", "--server", mixed).returncode == 4


def test_help_has_the_exit_codes() -> None:
    for command in ([], ["watch"]):
        assert "  3    the server cannot be reached" in fade(*command, "--help").stdout
    assert "`fade export` is another command" in fade("runs", "export", "--help").stdout


# --- fade pin, unpin, mode


def test_a_pin_shows_what_changes_and_needs_yes_without_a_terminal(mixed: str, history: Any) -> None:
    command = ["pin", "mixed", "--alpha", "1.5", "--delta", "0.5", "--reason", "entropy fell at step 10", "--server", mixed]
    asked = fade(*command)
    assert (asked.returncode, asked.stderr.count("\n")) == (2, 1) and "--yes" in asked.stderr
    assert history("mixed").get().config_revision == 1
    done = fade(*command, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"  mode: active -> pinned", "  pinned_alpha: 1.0 -> 1.5", "  pinned_delta: 1.0 -> 0.5"} <= set(
        done.stdout.splitlines()
    )
    # The average solve rate of code stayed 0.5, and alpha = 1.5 (1 - p) / p.
    assert "  code: alpha 1.500, delta 1.000 -> alpha 1.500, delta 0.500" in done.stdout
    assert "configuration revision 2" in done.stdout
    again = fade(*command, "--yes")
    assert (again.returncode, history("mixed").get().config_revision) == (0, 2) and "nothing was changed" in again.stdout


def test_the_reason_is_kept_and_unpin_and_mode_change_the_mode_alone(
    server: str, connect: Connect, batch: Any, history: Any
) -> None:
    client = connect(server)
    client.observe(**batch(0))
    steps = [
        (["pin", "r", "--alpha", "2", "--delta", "0.5", "--reason", "collapse"], "pinned", "PINNED"),
        (["unpin", "r", "--reason", "it recovered"], "active", "SERVER"),
        (["mode", "r", "shadow"], "shadow", "SERVER"),
        (["mode", "r", "active"], "active", "SERVER"),
    ]
    for number, (command, mode, source) in enumerate(steps, 1):
        done = fade(*command, "--yes", "--server", server)
        assert (done.returncode, done.stderr) == (0, "")
        schedule = client.observe(**batch(number))
        assert (schedule.mode, schedule.source) == (mode, source)
    document = json.loads(fade("runs", "show", "r", "--json", "--server", server).stdout)
    reasons = [item["reason"] for item in document["config_changes"]]
    assert reasons == ["", "collapse", "it recovered", "", ""]
    assert [item["source"] for item in document["observations"]] == ["SERVER", "PINNED", "SERVER", "SERVER", "SERVER"]
    assert document["config"]["pinned_alpha"] == 2 and "collapse" in fade("runs", "show", "r", "--server", server).stdout
    unpinned = fade("unpin", "r", "--server", server)
    assert (unpinned.returncode, unpinned.stdout) == (0, "projects/default/runs/r is not pinned; nothing was changed\n")
    assert history("r").get().config_revision == 5


def test_values_out_of_bounds_are_refused_before_the_question(mixed: str, history: Any) -> None:
    done = fade("pin", "mixed", "--alpha", "0.2", "--delta", "1", "--server", mixed)
    assert (done.returncode, done.stdout) == (2, "") and "--alpha: give a finite number, 0.5 or more" in done.stderr
    assert history("mixed").get().config_revision == 1


@pytest.mark.parametrize(
    ("answer", "code", "revision"), [("y\n", 0, 2), ("\n", 1, 1), ("no\n", 1, 1), ("\x04", 1, 1), ("\x03", 130, 1)]
)
def test_at_a_terminal_it_asks(mixed: str, history: Any, answer: str, code: int, revision: int) -> None:
    with Terminal(FADE, "mode", "mixed", "shadow", "--server", mixed) as terminal:
        assert "  mode: active -> shadow" in terminal.wait_for("go on? [y/N] ")
        terminal.type(answer)
        assert terminal.ended()[0] == code
    assert history("mixed").get().config_revision == revision


def test_a_change_by_somebody_else_while_it_asks_is_not_overwritten(mixed: str, history: Any) -> None:
    with Terminal(FADE, "mode", "mixed", "shadow", "--server", mixed) as terminal:
        terminal.wait_for("[y/N] ")
        history("mixed").update(alpha_max=2.0)
        terminal.type("y\n")
        code, said = terminal.ended()
    assert code == 1 and "somebody else changed the configuration meanwhile; nothing was changed" in said
    run = history("mixed").get()
    assert (run.config_revision, run.config.mode, run.config.alpha_max) == (2, 1, 2.0)


class _LosesAnswers(Front):
    """Passes calls on, and loses the answers to the first ones that make a change, of which only the very first arrives."""

    def __init__(self, target: str, losses: int) -> None:
        self.losses = losses
        self.made = False
        super().__init__(target)

    def service(self, details: Any) -> Any:
        passing = super().service(details)

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            change = (
                details.method.endswith("/UpdateRun") and not scheduler_pb2.UpdateRunRequest.FromString(request).validate_only
            )
            losing = change and self.losses > 0
            answer: bytes = b"" if losing and self.made else passing.unary_unary(request, context)
            if losing:
                self.losses, self.made = self.losses - 1, True
                context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
            return answer

        return grpc.unary_unary_rpc_method_handler(handle)


def test_a_change_whose_answer_was_lost_is_not_taken_for_somebody_elses(mixed: str, history: Any) -> None:
    front = _LosesAnswers(mixed, losses=1)
    try:
        done = fade("mode", "mixed", "shadow", "--yes", "--server", front.address)
    finally:
        front.close()
    assert front.losses == 0 and (done.returncode, done.stderr) == (0, "")
    assert "configuration revision 2" in done.stdout and history("mixed").get().config_revision == 2


def test_a_change_that_is_never_answered_is_said_to_be_unknown(mixed: str) -> None:
    front = _LosesAnswers(mixed, losses=1000)
    try:
        done = fade("mode", "mixed", "shadow", "--yes", "--server", front.address)
    finally:
        front.close()
    assert (done.returncode, done.stderr.count("\n")) == (3, 1) and "whether the change was made is not known" in done.stderr


# --- fade completion


def test_bash_completes_commands_options_and_choices() -> None:
    script = f"""
        source <({FADE} completion bash)
        try() {{ COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_fade; echo "${{COMPREPLY[@]}}"; }}
        try fade run; try fade runs e; try fade runs export --form; try fade mode r s
    """
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split("\n")[:4], done.stderr) == (["runs", "export", "--format", "shadow"], "")
    for shell, word in (("zsh", "#compdef fade"), ("fish", "complete -c fade")):
        assert word in fade("completion", shell).stdout


def test_without_shtab_completion_says_what_to_install() -> None:
    code = "import sys; sys.modules['shtab'] = None; from fade_client.cli import main; sys.exit(main(['completion', 'bash']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "pip install 'fade-scheduler[cli]'" in done.stderr


# --- words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (0, "now"), (1, "1 s ago"), (59, "59 s ago"), (60, "1 min ago"), (200, "3 min ago"), (3600, "1 h ago"),
     (172_799, "47 h ago"), (172_800, "2 days ago"), (10 * 86_400, "10 days ago")],
)  # fmt: skip
def test_times_are_told_in_the_unit_that_fits(seconds: int, said: str) -> None:
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    assert text.ago(now - timedelta(seconds=seconds), now) == said


def test_sparklines_go_from_the_smallest_to_the_largest_and_show_gaps() -> None:
    assert text.sparkline([9, 0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert text.sparkline([None, 0.5, None, 0.1], 8) == " █ ▁"
    assert text.sparkline([2.0, 2.0], 8) == "▁▁"
    assert text.sparkline([None], 8) == text.sparkline([], 8) == ""


def test_the_guide_names_every_column_and_the_exit_codes() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    table = [line for line in guide.partition("## fade runs export")[2].splitlines() if line.startswith("| `")]
    assert [name for line in table for name in re.findall("`([a-z_]+)`", line.split(" | ")[0])] == list(rows.COLUMNS)
    assert re.findall(r"^\| (\d+) \| ", guide, re.MULTILINE) == re.findall(r"^  (\d+) ", exits.EXIT_CODES, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "more", "told"),
    [
        (("--server", "http://localhost:50051"), {}, "give HOST:PORT"),
        (("--server", "localhost"), {}, "give HOST:PORT"),
        ((), {"FADE_TOKEN": "two\nlines"}, "token has characters"),
    ],
)
def test_an_address_or_a_token_that_is_none_is_told_before_any_call(
    arguments: tuple[str, ...], more: dict[str, str], told: str
) -> None:
    done = fade("runs", "list", *arguments, **more)
    assert done.returncode == 2 and told in done.stderr and "lines" not in done.stderr
