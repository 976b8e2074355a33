"""The version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("fade-scheduler")
except PackageNotFoundError:  # a checkout on the path
    VERSION = "unknown"
