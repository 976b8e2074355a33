"""Moving house: `fade export` and `fade import` between stores of any kind."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fade_proto.storage.v1.storage_pb2 import ObservationRecord, RunHead, RunRecord
from fade_proto.v1.run_pb2 import HistoryPoint, Run, RunConfig
from fade_proto.v1.scheduler_pb2 import CompleteRunRequest, ObserveResponse, RestoreRunRequest, UpdateRunRequest
from fade_service import FadeServer
from fade_service.cli import main
from fade_service.errors import StoreUnavailableError
from fade_service.moving import LeftBehindError, check_runs, export_runs, import_runs
from fade_service.store import MemoryStore, RedisStore, Store, StoredObservation, StoredRun, open_store

ROWS = ([1.0, 0.0, 0.0, 1.0], [0, 0, 1, 1])

Connect = Callable[..., Any]
Answer = TypeVar("Answer")


def serving(store: str) -> FadeServer:
    return FadeServer(store, grpc_port=0, http_port=0)


def lived(connect: Connect, server: FadeServer) -> None:
    """Three runs: one plain, one with a changed configuration and a second branch, one completed."""
    for run in ("plain", "branched", "done"):
        client = connect(run, at=f"127.0.0.1:{server.grpc_port}")
        client.create(ema_weight=0.25, entropy_warmup=2)
        for number in range(8):
            client.observe(f"b{number}", *ROWS, 1 / (number + 1))
    client.stub.CompleteRun(CompleteRunRequest(name=client.name))
    client = connect("branched", at=f"127.0.0.1:{server.grpc_port}", writer="second")
    update = UpdateRunRequest(run=Run(name=client.name, config=RunConfig(alpha_max=2.0)))
    update.update_mask.paths.append("config.alpha_max")
    client.stub.UpdateRun(update)
    point = HistoryPoint(branch="main", revision=3)
    client.stub.RestoreRun(RestoreRunRequest(name=client.name, writer="second", branch_id="second", point=point))
    for number in range(3, 6):
        client.observe(f"b{number}", *ROWS, 2.0)


def told(connect: Connect, server: FadeServer) -> dict[str, Any]:
    """All that a server shows of the three runs but the uid, and the etag that covers it."""
    shown = {}
    for run in ("plain", "branched", "done"):
        client = connect(run, at=f"127.0.0.1:{server.grpc_port}")
        message = client.get()
        message.uid = message.etag = ""
        lines = [client.history(branch.id) for branch in message.branches]
        digests = [client.schedule(branch.id).state_digest for branch in message.branches]
        shown[run] = (message, lines, digests, client.schedule())
    return shown


def everything(store: Store) -> list[Any]:
    runs = store.list_runs("", "", 99)
    branches = ("main", "second")
    return [(run, [store.list_observations(run.uid, branch, 0, 99, 99) for branch in branches]) for run in runs]


@pytest.fixture
def filled(tmp_path: Path, connect: Connect) -> tuple[str, dict[str, Any]]:
    """The URL of a store with the three runs, and what its server showed of them."""
    url = f"sqlite:///{tmp_path}/old.db"
    with serving(url) as server:
        lived(connect, server)
        return url, told(connect, server)


@pytest.fixture
def exported(tmp_path: Path, filled: tuple[str, dict[str, Any]]) -> Path:
    """A file with the three runs."""
    assert main(["export", "--store", filled[0], str(tmp_path / "runs")]) == 0
    return tmp_path / "runs"


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz"])
def test_runs_that_moved_twice_show_the_same_and_go_on(
    tmp_path: Path, connect: Connect, refused: Callable[..., Any], filled: tuple[str, dict[str, Any]], name: str
) -> None:
    old, before = filled
    memory = MemoryStore()
    assert main(["export", "--store", old, str(tmp_path / name)]) == 0
    moved = import_runs(memory, tmp_path / name)
    assert (moved.runs, moved.observations) == (3, 27)
    assert export_runs(memory, tmp_path / f"again-{name}") == moved
    new = f"sqlite:///{tmp_path}/new.db"
    with serving(new) as server:  # a server may be running
        assert main(["import", "--store", new, str(tmp_path / f"again-{name}")]) == 0
        assert told(connect, server) == before
        address = f"127.0.0.1:{server.grpc_port}"
        client = connect("plain", at=address)
        for number in range(8):
            response, replayed = client.send(client.report(f"b{number}", *ROWS, 1 / (number + 1)))
            assert replayed and response.revision == number + 1
        conflict = refused(lambda: client.observe("b2", [1.0, 1.0], [0, 0]))
        assert conflict.reason == "OBSERVATION_CONFLICT"
        assert client.observe("b8", *ROWS, 1 / 9).revision == 9
        assert refused(lambda: connect("plain", at=address, writer="other").observe("b9", *ROWS)).reason == "WRITER_FENCED"
        assert refused(lambda: connect("branched", at=address).observe("b9", *ROWS, branch="main")).reason == "WRITER_FENCED"
        assert refused(lambda: connect("done", at=address).observe("b9", *ROWS)).reason == "RUN_COMPLETED"
    with serving(old) as server:
        twin = connect("plain", at=f"127.0.0.1:{server.grpc_port}")
        assert twin.observe("b8", *ROWS, 1 / 9).revision == 9
        digest = twin.schedule().state_digest
    with serving(new) as server:
        assert connect("plain", at=f"127.0.0.1:{server.grpc_port}").schedule().state_digest == digest


def test_redis_is_a_store_like_any_other(
    tmp_path: Path, connect: Connect, filled: tuple[str, dict[str, Any]], exported: Path, redis_url: str
) -> None:
    assert main(["import", "--store", redis_url, str(exported)]) == 0
    with serving(redis_url) as server:
        assert told(connect, server) == filled[1]
    assert main(["export", "--store", redis_url, str(tmp_path / "back")]) == 0
    assert (tmp_path / "back").read_bytes() == exported.read_bytes()


def test_only_the_runs_named_move(tmp_path: Path, filled: tuple[str, dict[str, Any]]) -> None:
    names = ["projects/test/runs/plain", "projects/test/runs/done"]
    path = tmp_path / "runs"
    assert main(["export", "--store", filled[0], "--run", names[0], "--run", names[1], "--run", names[0], str(path)]) == 0
    store = MemoryStore()
    import_runs(store, path)
    assert [run.name for run in store.list_runs("", "", 9)] == sorted(names)


def test_what_a_server_commits_meanwhile_is_in_the_file_up_to_one_moment_or_not_at_all(tmp_path: Path, connect: Connect) -> None:
    url = f"sqlite:///{tmp_path}/fade.db"
    done, revisions = threading.Event(), [0]
    with serving(url) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()

        def write() -> None:
            while not done.is_set():
                revisions.append(client.observe(f"b{revisions[-1]}", *ROWS).revision)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(5):
                while revisions[-1] < 20 * (number + 1):
                    done.wait(0.01)
                assert main(["export", "--store", url, str(tmp_path / f"{number}.gz")]) == 0
        finally:
            done.set()
            writer.join()
        whole = client.history()
    for number in range(5):
        new = f"sqlite:///{tmp_path}/new-{number}.db"
        assert main(["import", "--store", new, str(tmp_path / f"{number}.gz")]) == 0
        with serving(new) as server:
            again = connect("r", at=f"127.0.0.1:{server.grpc_port}")
            revision = again.get().revision
            assert revision >= 20 * (number + 1)
            assert again.history() == whole[:revision]
            assert again.observe(f"b{revision}", *ROWS).revision == revision + 1


def test_a_run_that_exists_is_refused_and_nothing_changes(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    store = open_store(url)
    store.create_run("projects/test/runs/plain", "uid", b"record", b"head")
    before = everything(store)
    assert main(["import", "--store", url, str(exported)]) == 1
    assert "has a run projects/test/runs/plain already" in capsys.readouterr().err
    assert everything(store) == before
    store.close()


class Failing(MemoryStore):
    """A store that breaks off at one of its commits."""

    def __init__(self, commits: int) -> None:
        super().__init__()
        self._left = commits

    def commit(self, *arguments: Any, **options: Any) -> int | None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return super().commit(*arguments, **options)


@pytest.mark.parametrize("commits", [0, 7, 8, 20, 26, 27, 28, 29])
def test_an_import_that_is_broken_off_leaves_nothing(exported: Path, commits: int) -> None:
    store = Failing(commits)
    with pytest.raises(KeyboardInterrupt):
        import_runs(store, exported)
    assert everything(store) == []


class Mute(MemoryStore):
    """A store that does what it is told, but whose answer to one call is lost on the way."""

    def __init__(self, call: str, number: int) -> None:
        super().__init__()
        self._call = call
        self._left = number

    def create_run(self, *arguments: Any) -> StoredRun:
        return self._answered("create_run", super().create_run(*arguments))

    def commit(self, *arguments: Any, **options: Any) -> int | None:
        return self._answered("commit", super().commit(*arguments, **options))

    def _answered(self, call: str, answer: Answer) -> Answer:
        self._left -= call == self._call
        if self._left < 0 and call == self._call:
            self._left = 10**9
            raise StoreUnavailableError("no answer")
        return answer


@pytest.mark.parametrize(
    ("call", "number"), [("create_run", 0), ("create_run", 2), ("commit", 3), ("commit", 26), ("commit", 28)]
)
def test_what_was_written_though_the_answer_was_lost_is_deleted_again(exported: Path, call: str, number: int) -> None:
    store = Mute(call, number)
    with pytest.raises(StoreUnavailableError):
        import_runs(store, exported)
    assert everything(store) == []


def test_runs_that_could_not_be_deleted_again_are_named(
    exported: Path, own_redis: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits: list[str] = []

    class Dying(RedisStore):
        """Loses its Redis after some commits."""

        def commit(self, uid: str, *arguments: Any, **options: Any) -> int | None:
            commits.append(uid)
            if len(commits) == 20:
                own_redis.kill()
            return super().commit(uid, *arguments, **options)

    monkeypatch.setattr("fade_service.store.RedisStore", Dying)
    assert main(["import", "--store", own_redis.url, str(exported)]) == 1
    said = capsys.readouterr().err
    own_redis.start()
    store = RedisStore(own_redis.url)
    left = store.list_runs("", "", 9)
    assert len(left) == 3 and {run.uid for run in left} == set(commits)
    assert f"{', '.join(run.name for run in left)}; delete it (DeleteRun)" in said and said.count("\n") == 1
    for run in left:
        assert store.delete_run(run.name, run.version)
    store.close()
    monkeypatch.undo()
    assert main(["import", "--store", own_redis.url, str(exported)]) == 0


def test_a_run_that_somebody_used_meanwhile_is_named_and_left(exported: Path) -> None:
    class Used(Failing):
        """Fails to open the second run, after a trainer reported to the first."""

        def commit(self, uid: str, *arguments: Any, **options: Any) -> int | None:
            if self._left == 0:
                (run,) = [item for item in self.list_runs("", "", 9) if not RunRecord.FromString(item.record).completed]
                MemoryStore.commit(self, run.uid, run.version, head=b"moved")
            return super().commit(uid, *arguments, **options)

    store = Used(28)
    with pytest.raises(LeftBehindError, match="KeyboardInterrupt; .*could not be deleted again") as caught:
        import_runs(store, exported)
    assert [(run.name, run.head) for run in store.list_runs("", "", 9)] == [(caught.value.names[0], b"moved")]
    assert len(caught.value.names) == 1


def test_until_all_of_it_is_there_a_run_takes_no_observation(
    tmp_path: Path, filled: tuple[str, dict[str, Any]], connect: Connect, refused: Callable[..., Any]
) -> None:
    path = tmp_path / "runs"
    assert main(["export", "--store", filled[0], "--run", "projects/test/runs/plain", str(path)]) == 0
    url = f"sqlite:///{tmp_path}/new.db"
    reasons: list[str] = []
    with serving(url) as server:
        client = connect("plain", at=f"127.0.0.1:{server.grpc_port}")

        class Watched(MemoryStore):
            """Passes on to the server's store, and tries to report between the commits."""

            def __getattribute__(self, name: str) -> Any:
                if name == "commit" and store.get_run(client.name) is not None:
                    reasons.append(refused(lambda: client.observe("new", *ROWS)).reason)
                return getattr(store, name)

        store = open_store(url)
        import_runs(Watched(), path)
        store.close()
        assert set(reasons) == {"RUN_COMPLETED"} and len(reasons) == 9
        assert client.observe("new", *ROWS).revision == 9


def test_a_file_that_is_cut_off_or_changed_anywhere_is_refused_and_nothing_changes(tmp_path: Path, exported: Path) -> None:
    sound = exported.read_bytes()
    store, path = MemoryStore(), tmp_path / "damaged"
    cuts = [0, 1, len(sound) // 2, len(sound) - 2, *(place + 1 for place in range(len(sound) - 1) if sound[place] == 10)]
    damaged = [sound[:cut] for cut in cuts]
    damaged += [sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :] for place in range(0, len(sound) - 1, 997)]
    lines = sound.splitlines(keepends=True)
    damaged += [b"".join(lines[:5] + lines[6:]), b"".join(lines[:5] + lines[4:]), sound + lines[3], sound + sound]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match="damaged"):
            import_runs(store, path)
    assert everything(store) == []


Lines = list[dict[str, Any]]


def signed(lines: Lines) -> bytes:
    """An export of these lines, its end made to match."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    runs = sum("run" in line for line in lines)
    footer = {"runs": runs, "observations": len(lines) - 1 - runs, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(footer).encode() + b"\n"


def put(place: int, **values: Any) -> Callable[[Lines], Lines]:
    """Other values in one line."""
    return lambda lines: [line | values if number == place else line for number, line in enumerate(lines)]


def rewritten(place: int, name: str, kind: type[Any], edit: Callable[[Any], None]) -> Callable[[Lines], Lines]:
    """Another message in one line."""

    def change(lines: Lines) -> Lines:
        message = kind.FromString(base64.b64decode(lines[place][name]))
        edit(message)
        return put(place, **{name: base64.b64encode(message.SerializeToString()).decode()})(lines)

    return change


def record(edit: Callable[[Any], None]) -> Callable[[Lines], Lines]:
    """Another record of the first run, which has two branches, two configurations and 11 observations."""
    return rewritten(1, "record", RunRecord, edit)


def head(edit: Callable[[Any], None]) -> Callable[[Lines], Lines]:
    """Another head of the first run."""
    return rewritten(1, "head", RunHead, edit)


def answer(edit: Callable[[Any], None]) -> Callable[[Lines], Lines]:
    """Another answer to its third observation."""

    def change(kept: Any) -> None:
        response = ObserveResponse.FromString(kept.answer)
        edit(response)
        kept.answer = response.SerializeToString()

    return rewritten(4, "payload", ObservationRecord, change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put(1, run="../../etc"), "'../../etc'; give projects/{project}/runs/{run}"),
        (put(1, run=5), "damaged at line 2"),
        (put(1, record="AAAA"), "the record or head of projects/test/runs/branched cannot be read"),
        (put(1, record=""), "the record or head of projects/test/runs/branched cannot be read"),
        (put(1, head="//8="), "the record or head of projects/test/runs/branched cannot be read"),
        (record(lambda run: run.config_changes[1].config.__setattr__("ema_weight", 2.0)), "ema_weight"),
        (record(lambda run: run.config_changes[1].__setattr__("config_revision", 1)), "has configurations out of order"),
        (record(lambda run: run.branches[1].branch.__setattr__("id", "main")), "branch 'main' of .*branched is there twice"),
        (record(lambda run: run.branches[1].branch.__setattr__("id", "No")), "branch 'No' of .*branched cannot be read"),
        (record(lambda run: run.branches[0].branch.__setattr__("parent", "second")), "hangs on 'second', which is no older one"),
        (record(lambda run: run.branches[1].branch.__setattr__("parent_revision", -1)), "starts at revision -1"),
        (record(lambda run: run.branches[1].__setattr__("start_config_revision", 9)), "a configuration that is not there"),
        (record(lambda run: run.branches[0].__setattr__("end_revision", 7)), "revision 8 of branch 'main' where revision 4"),
        (record(lambda run: run.ClearField("branches")), "does not stand on its newest branch"),
        (head(lambda run: run.__setattr__("branch", "main")), "does not stand on its newest branch"),
        (head(lambda run: run.__setattr__("revision", 2)), "stands before its branch began"),
        (head(lambda run: run.__setattr__("revision", 2**62)), "has the next run where|ends where revision 7 of branch 'second'"),
        (head(lambda run: run.state.environments[0].__setattr__("solve_rate", float("nan"))), "the state of .* cannot be read"),
        (head(lambda run: run.watches[0].ClearField("environment")), "the record or head of .* cannot be read"),
        (put(4, payload="//8="), "revision 3 of branch 'main' of projects/test/runs/branched cannot be read"),
        (put(4, digest="AAAA"), "has a digest of 3 bytes"),
        (put(4, revision="x"), "damaged at line 5"),
        (put(4, revision=True), "damaged at line 5"),
        (put(4, revision=2**70), f"has revision {2**70} of branch 'main' where revision 3"),
        (put(4, branch="\ud800"), "where revision 3 of branch 'main' belongs"),
        (put(4, observation_id="b1"), "has the id of an older one"),
        (put(4, observation_id="x" * 999), "its id: has 999 characters"),
        (put(4, observation_id="other"), "has the answer to another"),
        (answer(lambda response: response.__setattr__("revision", 4)), "has the answer to another"),
        (answer(lambda response: response.__setattr__("config_revision", 9)), "under a configuration that is not there"),
        (lambda lines: [*lines[:4], *lines[5:]], "has revision 4 of branch 'main' where revision 3"),
        (lambda lines: [*lines[:5], *lines[4:]], "has revision 3 of branch 'main' where revision 4"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "has revision 4 of branch 'main' where revision 3"),
        (lambda lines: lines[:-1], "ends where revision 8 of branch 'main' belongs"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "observation 'b0' is there before the first run"),
        (lambda lines: [*lines, *lines[1:]], "branched is there twice"),
        (put(0, version="1"), "damaged at line 1"),
    ],
)  # fmt: skip
def test_an_intact_file_with_runs_that_no_server_could_serve_is_refused_and_makes_no_store(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Lines], Lines], says: str
) -> None:
    lines = [json.loads(line) for line in exported.read_text().splitlines()[:-1]]
    path, url = tmp_path / "crafted", f"sqlite:///{tmp_path}/new.db"
    path.write_bytes(signed(change(lines)))
    assert main(["import", "--store", url, str(path)]) == 1
    said = capsys.readouterr().err
    assert re.search(says, said) and said.startswith(f"fade import: {path}") and said.count("\n") == 1, said
    assert not (tmp_path / "new.db").exists()
    path.write_bytes(signed(lines))
    assert main(["import", "--store", url, str(path)]) == 0


@pytest.mark.parametrize("counts", [{"runs": 99}, {"observations": 0}, {"runs": "3"}])
def test_a_file_whose_counts_are_wrong_is_damaged(tmp_path: Path, exported: Path, counts: dict[str, Any]) -> None:
    *lines, footer = exported.read_text().splitlines()
    path = tmp_path / "counted"
    path.write_text("\n".join([*lines, json.dumps(json.loads(footer) | counts)]) + "\n")
    with pytest.raises(ValueError, match=f"damaged at line {len(lines) + 1}"):
        check_runs(path)


@pytest.mark.parametrize("line", ["[" * 100_000, '{"run":' + "9" * 5000 + "}", '"sha256"', "17"])
def test_a_line_that_is_no_object_is_damage(tmp_path: Path, exported: Path, line: str) -> None:
    first, *rest = exported.read_text().splitlines()
    path = tmp_path / "odd"
    path.write_text("\n".join([first, line, *rest]) + "\n")
    with pytest.raises(ValueError, match="damaged at line 2"):
        check_runs(path)


def test_a_file_that_is_not_there_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--store", f"sqlite:///{tmp_path}/new.db", str(tmp_path / "none")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_store_where_no_option_does(
    tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FADE_STORE", f"sqlite:///{tmp_path}/named.db")
    assert main(["import", str(exported)]) == 0 and (tmp_path / "named.db").is_file()
    monkeypatch.setenv("FADE_STORE", "redis://localhost:1/0")
    assert main(["export", "--store", f"sqlite:///{tmp_path}/named.db", str(tmp_path / "again")]) == 0
    counts = [line.partition(" were ")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts[-1] == counts[-2]


def test_runs_are_not_read_into_a_memory_that_ends_with_the_command(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--store", "memory://", str(exported)]) == 1
    assert "ends with this command" in capsys.readouterr().err


def test_a_compressed_file_that_is_cut_off_or_changed_is_refused(tmp_path: Path, exported: Path) -> None:
    sound = gzip.compress(exported.read_bytes())
    store, path = MemoryStore(), tmp_path / "runs.gz"
    places = range(0, len(sound) - 1, 199)
    for content in [exported.read_bytes(), *(sound[:place] for place in places)]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"runs\.gz (is damaged|is cut off)"):
            import_runs(store, path)
    for place in places[1:]:
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(ValueError, match=r"runs\.gz (is damaged|is cut off)"):
            import_runs(store, path)
    assert everything(store) == []


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (
            {"format": "fade-runs", "version": 2},
            "has format version 2, and this fade-scheduler knows versions up to 1; import it with",
        ),
        ({"format": "songs", "version": 1}, "holds songs, not fade-runs"),
        ({"title": "Song"}, "damaged at line 1, or no export"),
        ([], "damaged at line 1, or no export"),
    ],
)
def test_a_newer_or_foreign_file_is_refused(tmp_path: Path, exported: Path, header: Any, says: str) -> None:
    store, path = MemoryStore(), tmp_path / "other"
    _, _, rest = exported.read_text().partition("\n")
    path.write_text(json.dumps(header) + "\n" + rest)
    with pytest.raises(ValueError, match=says):
        import_runs(store, path)
    assert everything(store) == []


def test_a_history_that_is_not_whole_is_not_exported(tmp_path: Path, exported: Path) -> None:
    class Forgetful(MemoryStore):
        """Keeps the newest of each branch only, as Redis does where it was told to."""

        def list_observations(self, *arguments: Any) -> list[StoredObservation]:
            return [item for item in super().list_observations(*arguments) if item.revision > 5]

    store, path = Forgetful(), tmp_path / "partial"
    import_runs(store, exported)
    with pytest.raises(ValueError, match="branched: revision 1 of branch main is not there any more"):
        export_runs(store, path)
    assert not list(tmp_path.glob("partial*"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--run", "projects/test/runs/none", "{0}/new"], "the store has no run projects/test/runs/none"),
        (["{0}/runs"], "runs exists; choose another file"),
        (["{0}/no/such/folder"], "No such file or directory"),
    ],
)
def test_an_export_that_cannot_be_says_why_and_leaves_no_file(
    tmp_path: Path, filled: tuple[str, dict[str, Any]], exported: Path, capsys: pytest.CaptureFixture[str],
    arguments: list[str], says: str,
) -> None:  # fmt: skip
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert main(["export", "--store", filled[0], *(part.format(tmp_path) for part in arguments)]) == 1
    assert says in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_store_that_is_not_there_is_not_made_by_an_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--store", f"sqlite:///{tmp_path}/none.db", str(tmp_path / "runs")]) == 1
    assert "none.db is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
