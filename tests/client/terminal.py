"""The real command `fade` as people call it: in pipes, and at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

FADE = str(Path(sys.executable).with_name("fade"))
"""The console entry point of this environment."""

TAKES_CTRL_C = ("env", "--default-signal=INT")
"""Before a command: a test run in the background of a script ignores SIGINT, and what it starts would too."""

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would change what the command does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FADE_")}
    return {**kept, "TZ": "UTC", "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color", **more}


def fade(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs it without a terminal, with these environment variables."""
    command = [FADE, *arguments]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
    )


class Terminal:
    """It runs at a terminal of its own, 100 by 40. A context manager."""

    def __init__(self, *command: str, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        # A shell that leads a session opens the terminal: that makes it the controlling one, and Ctrl-C typed there a signal.
        script = 'exec "$@" <>"$TERMINAL" >&0 2>&0'
        self.process = subprocess.Popen(
            [*TAKES_CTRL_C, "sh", "-c", script, "sh", *command],
            env=environment(TERMINAL=os.ttyname(theirs), **more),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        self._theirs = theirs
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def type(self, keys: str) -> None:
        """Types."""
        os.write(self._ours, keys.encode())

    def wait_for(self, words: str) -> str:
        """Reads until ``words`` were shown since the last wait, and returns what was shown up to their end."""
        end = time.monotonic() + 40
        while words not in self.shown:
            assert time.monotonic() < end and self._read(), f"{words!r} was not shown, but {self.shown!r}"
        before, _, self.shown = self.shown.partition(words)
        return before + words

    def ended(self) -> tuple[int, str]:
        """The exit code, and what was shown until then since the last wait."""
        code = self.process.wait(timeout=40)
        while self._ready() and self._read():
            pass
        return code, self.shown

    def _ready(self) -> bool:
        return bool(select.select([self._ours], [], [], 0.1)[0])

    def _read(self) -> bool:
        if not self._ready():
            return self.process.poll() is None
        self.shown = _CODES.sub("", self.shown + os.read(self._ours, 65_536).decode(errors="replace")).replace("\r", "")
        return True


def line_of(stream: IO[str] | None, wanted: Callable[[str], bool]) -> str:
    """The next line of a process's output that is wanted; the test's own timeout bounds the wait."""
    assert stream is not None
    for line in stream:
        if wanted(line):
            return line
    raise AssertionError("the process ended without the line")
