"""What `pip install` gives: a light client, also beside an old protobuf and grpcio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fade_service import FadeServer

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]


UV = Path(sys.executable).with_name("uv")

PATHS = [os.environ["PATH"], *(str(folder) for folder in sorted(Path.home().glob(".pyenv/versions/*/bin")))]
"""Where uv looks for a Python of another version, before it fetches one."""


class Environment:
    """A new virtual environment with the distribution's wheel and what is asked for beside it; any version of Python by uv."""

    def __init__(self, folder: Path, wheel: Path, *requirements: str, python: str = sys.executable) -> None:
        self.bin = folder / "bin"
        uv = {"check": True, "timeout": 300, "env": {**os.environ, "PATH": os.pathsep.join(PATHS)}}
        subprocess.run([UV, "venv", "--quiet", "--python", python, folder], **uv)
        subprocess.run([UV, "pip", "install", "--quiet", "--python", self.bin / "python", wheel, *requirements], **uv)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, outside the checkout, and expects it to succeed."""
        done = self.start(program, *arguments)
        assert done.returncode == 0, done.stderr
        return done

    def start(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, outside the checkout."""
        return subprocess.run([self.bin / program, *arguments], cwd=self.bin, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (made,) = folder.glob("*.whl")
    return made


OBSERVE = """
import sys
from fade_client import FadeClient, RunConfig

with FadeClient(sys.argv[1], run=sys.argv[2], config=RunConfig(ema_weight=0.5), timeout_seconds=20) as fade:
    schedule = fade.observe("batch", rewards=[1, 0, 0, 0], groups=list("aabb"), entropy=(8.0, 10))
    assert schedule.source == "SERVER", schedule.metrics()
    assert abs(schedule.alpha - 1.5 * (1 - 0.375) / 0.375) < 1e-12, schedule.alpha
    state = fade.state_dict()
    fade.load_state_dict(state)
    assert fade.observe("batch", rewards=[1, 0], groups=[0, 0]).revision == 2
"""


def test_the_base_install_is_a_client_without_torch_web_framework_or_redis(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "base", wheel)
    listing = "from importlib.metadata import distributions; print(*[item.name for item in distributions()], sep='\\n')"
    names = {name.lower() for name in environment.run("python", "-c", listing).stdout.split()}
    assert names <= {
        "fade-scheduler",
        "grpcio",
        "numpy",
        "protobuf",
        "typing-extensions",
        "typing_extensions",
    }
    assert environment.run("fade", "version").stdout.startswith("fade-scheduler ")
    local = "from fade_client import FadeClient; print(FadeClient.local().observe('b', rewards=[1, 0], groups=[0, 0]).source)"
    assert environment.run("python", "-c", local).stdout.strip() == "LOCAL"


def test_commands_of_parts_that_are_not_installed_say_what_to_install(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "base", wheel)
    for command, extra in (("serve", "service"), ("train", "trainer")):
        done = environment.start("fade", command)
        assert done.returncode == 2
        assert f"pip install 'fade-scheduler[{extra}]'" in done.stderr


OLDEST = ("grpcio==1.62.3", "protobuf==4.25.8", "numpy==1.26.4")


@pytest.mark.parametrize(
    ("python", "requirements"),
    [
        ("3.10", OLDEST),
        ("3.10", ()),
        ("3.11", OLDEST),
        ("3.11", ("protobuf==5.29.5",)),
        ("3.12", OLDEST),
        ("3.12", ("protobuf==6.33.5",)),
        ("3.13", ("grpcio==1.66.2", "protobuf==5.29.5")),
        ("3.13", ("protobuf==7.36.2",)),
    ],
    ids=str,
)
def test_case_38_the_client_works_beside_what_trainers_bring(
    wheel: Path, tmp_path: Path, python: str, requirements: tuple[str, ...]
) -> None:
    environment = Environment(tmp_path / "trainer", wheel, *requirements, python=python)
    with FadeServer(store=f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as server:
        environment.run("python", "-c", OBSERVE, f"127.0.0.1:{server.grpc_port}", "skew")
