"""Pages (AIP-158): sizes coerced down, tokens opaque and bound to what was asked."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Protocol

from fade_service.errors import ServiceError, invalid

MAX_PAGE_SIZE = 1000


class _Paged(Protocol):
    page_size: int
    page_token: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing.

    Attributes:
        size: Entries at most.
        bound: What the token belongs to: the method and the arguments that must stay the same.
        after: Where the page before ended; None on the first.
    """

    size: int
    bound: tuple[str, ...]
    after: str | None

    @classmethod
    def of(cls, request: _Paged, method: str, arguments: tuple[str, ...], default_size: int) -> Page:
        """The page that a request asks for.

        Raises:
            ServiceError: INVALID_FIELD.
        """
        if request.page_size < 0:
            raise invalid("page_size", "is {value}; give 0 or more", value=request.page_size)
        bound = (method, *arguments)
        after = _read(request.page_token, bound) if request.page_token else None
        return cls(min(request.page_size or default_size, MAX_PAGE_SIZE), bound, after)

    def token(self, after: object) -> str:
        """The token of the next page, which starts after this entry."""
        return base64.urlsafe_b64encode(json.dumps([self.bound, str(after)]).encode()).decode()

    def after_number(self) -> int:
        """``after`` where entries are numbered; 0 on the first page.

        Raises:
            ServiceError: INVALID_FIELD.
        """
        if self.after is None:
            return 0
        if not (self.after.isdecimal() and len(self.after) < 20 and int(self.after) < 2**63):
            raise _foreign()
        return int(self.after)


def _read(token: str, bound: tuple[str, ...]) -> str:
    try:
        of, after = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
        after.encode()  # a lone surrogate is no text
    except (binascii.Error, ValueError, TypeError, AttributeError, RecursionError):
        raise _foreign() from None
    if of != list(bound):
        raise _foreign()
    return str(after)


def _foreign() -> ServiceError:
    return invalid(
        "page_token", "is not from a listing with these arguments; pass next_page_token, all other fields as they were"
    )
