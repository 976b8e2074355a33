"""One rank calls, every rank gets what came of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from fade_client.errors import FadeClientError, SettingsError

T = TypeVar("T")


def on_first_rank(process_group: Any, function: Callable[[], T]) -> T:
    """Runs ``function`` on the group's first rank; its value or its exception comes out on every rank.

    Args:
        process_group: A torch.distributed group, True or ``"world"`` for the default one; None runs ``function`` right here.
        function: What to run. What it returns must survive pickling.

    Raises:
        SettingsError: This process is not in the group.
    """
    if process_group is None:
        return function()
    import torch.distributed as dist

    group = None if process_group is True or process_group == "world" else process_group
    rank = dist.get_rank(group)
    if rank < 0:
        raise SettingsError("this process is not in the process group that it passed")
    source = 0 if group is None else dist.get_global_rank(group, 0)
    payload: list[Any] = [None]
    if rank != 0:
        dist.broadcast_object_list(payload, src=source, group=group)
        value, error = pickle.loads(payload[0])
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]
    try:
        value = function()
        payload[0] = pickle.dumps((value, None))
    except BaseException as error:  # an interrupt too: the other ranks wait in the broadcast
        payload[0] = _pickled(error)
        raise
    finally:
        dist.broadcast_object_list(payload, src=source, group=group)
    return value


def _pickled(error: BaseException) -> bytes:
    try:
        payload = pickle.dumps((None, error))
        pickle.loads(payload)
        return payload
    except Exception:
        return pickle.dumps((None, FadeClientError(f"the first rank failed with {type(error).__name__}: {error}")))
