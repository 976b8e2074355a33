"""Exit codes of `fade`, and what it says of an error: one line, with what to do."""

from __future__ import annotations

from fade_client.errors import FadeClientError, RejectedError, SettingsError, UnavailableError
from fade_core import FadeError

DONE = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NO_SUCH_RUN = 4
INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0    done
  1    refused, or failed
  2    the command line is wrong, or an environment variable that it takes a default from
  3    the server cannot be reached, or cannot answer now
  4    there is no such run
  130  interrupted by Ctrl-C (`fade watch` ends with 0)"""

_REACH = "is it running (`fade serve`), and do --server or FADE_ADDRESS, and FADE_TLS_CA where it speaks TLS, lead to it?"

_WAYS_OUT = {
    "TOKEN_MISSING": "set FADE_TOKEN",
    "TOKEN_INVALID": "and set FADE_TOKEN to it",
    "ROLE_TOO_LOW": "set FADE_TOKEN to one of that role",
    "PROJECT_DENIED": "say which by --project, FADE_PROJECT or the run's full name",
}


class UsageError(FadeClientError):
    """The command line asks for what cannot be done."""


class NoSuchRunError(FadeClientError):
    """The server knows no run of that name."""


def explain(error: FadeClientError | FadeError) -> tuple[int, str]:
    """The exit code and the line for an error."""
    line = " ".join(str(error).split())
    if isinstance(error, UnavailableError):
        if not error.reason:
            return UNREACHABLE, f"{line}; {_REACH}"
        return UNREACHABLE, line if line.endswith("try again") else f"{line}; try again"
    if isinstance(error, RejectedError):
        if error.reason == "RUN_NOT_FOUND":  # it was there at the command's first call
            return NO_SUCH_RUN, "the run was deleted meanwhile"
        way_out = _WAYS_OUT.get(error.reason)
        return FAILED, f"{line}; {way_out}" if way_out else line
    if isinstance(error, NoSuchRunError):
        return NO_SUCH_RUN, line
    return USAGE if isinstance(error, (SettingsError, UsageError)) else FAILED, line
