"""Environments with a trainer beside the project's own packages, for the tests that run a shim inside its trainer."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


class TrainerEnvironment:
    """A virtual environment on top of the one that runs the tests: what is installed there is not installed again."""

    def __init__(self, folder: Path, name: str, *trainer: str) -> None:
        """Installs ``<name>/requirements.txt``, and ``trainer`` without what it asks for."""
        venv.create(folder, with_pip=True)
        self.name = name
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        outer = sysconfig.get_paths()["purelib"]
        (self.site / "_outer.pth").write_text(f"import site; site.addsitedir({outer!r})\n")
        install = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", HERE / name / "requirements.txt"], check=True)
        subprocess.run([*install, "--no-deps", "--ignore-requires-python", *trainer], check=True)

    def check(self, folder: Path) -> str:
        """Runs ``<name>/inside.py``, tests that the outer pytest does not collect, and expects them to pass."""
        pytest = [
            self.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "filterwarnings=default",
            "-o",
            "timeout=400",
        ]
        command = [*pytest, f"--basetemp={folder / 'inside'}", HERE / self.name / "inside.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
        return done.stdout


@pytest.fixture(scope="session")
def trainer_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainerEnvironment]:
    """Makes one: the folder's name under tests/trainers, then the trainer's own requirements."""

    def make(name: str, *trainer: str) -> TrainerEnvironment:
        return TrainerEnvironment(tmp_path_factory.mktemp("environment") / name, name, *trainer)

    return make
