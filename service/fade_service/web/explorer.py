"""Decomposition over HTTP: where an advantage puts its gradient mass."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from fade_core import FadeError, InvalidBatchError, decompose, decompose_rows, two_level_advantages
from fade_service.errors import invalid, of_maths
from fade_service.web.answers import of_data

LARGEST_GROUP = 256
MOST_ADVANTAGES = 32


class MeasuredRows(BaseModel):
    """The rows of a batch, in columns of one length; null is a rollout without a reward."""

    group: list[int | str] = Field(max_length=1_000_000)
    outcome: list[float | None]
    advantage: list[float | None]


def add_explorer(app: FastAPI) -> None:
    """The registered advantages, their decomposition, and that of the caller's own numbers."""

    @app.get("/api/v1/advantages", tags=["decomposition"])
    def advantages() -> Response:
        """What is registered, with formula and source."""
        return of_data([_described(name) for name in two_level_advantages()])

    @app.get("/api/v1/decompose", tags=["decomposition"])
    def decompose_named(
        advantage: Annotated[list[str], Query(description="name, or name:param=value,param=value", max_length=MOST_ADVANTAGES)],
        group_size: Annotated[int, Query(ge=2, le=LARGEST_GROUP)] = 8,
    ) -> Response:
        """Masses, weights and the axes of sign, difficulty and scale of each."""
        return of_data({"advantages": [_decomposed(text, group_size) for text in advantage]})

    @app.post("/api/v1/decompose", tags=["decomposition"])
    def decompose_measured(rows: MeasuredRows) -> Response:
        """The same of advantages as they were measured, and which registered ones they are nearest to."""
        columns = ([math.nan if value is None else value for value in column] for column in (rows.outcome, rows.advantage))
        try:
            return of_data(asdict(decompose_rows([str(label) for label in rows.group], *columns)))
        except FadeError as error:
            raise of_maths(error) from None


def _described(name: str) -> dict[str, Any]:
    known = two_level_advantages()[name]
    parameters = [
        {"name": key, "default": item.default, "lowest": item.smallest, "highest": item.largest, "whole": item.draws}
        for key, item in known.parameters.items()
    ]
    return {
        "name": name,
        "formula": {"wS": known.success, "wF": known.failure},
        "source": known.source,
        "parameters": parameters,
    }


def _decomposed(text: str, group_size: int) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    try:
        given = {key: float(value) for key, _, value in (part.partition("=") for part in rest.split(",") if part)}
    except ValueError:
        raise invalid("advantage", "is {text!r}; give name, or name:param=number,param=number", text=text) from None
    try:
        found = decompose(name, group_size, given)
    except InvalidBatchError as error:
        raise of_maths(error) from None
    label = f"{name}:{rest}" if rest else name
    return asdict(found) | {"label": label, "sign_ratios": found.sign_ratios()}
