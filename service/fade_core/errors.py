"""What the mathematics refuses.

::

    FadeError
    ├── InvalidConfigError    a configuration value, by field
    ├── InvalidBatchError     a reported value, by field and row
    └── EntropyKindError      entropy of another kind than the average is made of
"""

from __future__ import annotations


class FadeError(Exception):
    """Base of everything that this package raises."""


class InvalidConfigError(FadeError, ValueError):
    """A configuration value is out of bounds or contradicts another.

    Attributes:
        field: Name of the :class:`~fade_core.RunConfig` field.
        problem: What is wrong and what to do, one sentence without the field's name.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidBatchError(FadeError, ValueError):
    """A reported value is wrong; nothing was moved.

    Attributes:
        field: Name of the column or value.
        row: Row in request order, where the field has rows.
        problem: What is wrong and what to do, one sentence without the field's name.
    """

    def __init__(self, field: str, problem: str, *, row: int | None = None) -> None:
        super().__init__(f"{field}{'' if row is None else f'[{row}]'}: {problem}")
        self.field = field
        self.row = row
        self.problem = problem


class EntropyKindError(FadeError):
    """Entropy came in another kind than the average is made of, so that the two must not be mixed.

    Attributes:
        environment: The environment.
        known: The kind that the average is made of.
        reported: The kind that came.
    """

    def __init__(self, environment: str, known: str, reported: str) -> None:
        super().__init__(
            f"environment {environment!r}: entropy of kind {reported!r} was reported, but its average is made of kind {known!r};"
            " report the same kind, or update the run with rebaseline_entropy to start the average anew"
        )
        self.environment = environment
        self.known = known
        self.reported = reported
