"""The FADE scheduler's server. `FadeServer` is imported when it is first used, so that the command `fade` stays light."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fade_service.server import FadeServer

__all__ = ["FadeServer"]


def __getattr__(name: str) -> object:
    if name == "FadeServer":
        from fade_service.server import FadeServer

        return FadeServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
