"""The countdown task: reach a target from given numbers, with + - *, in reverse Polish notation.

A prompt is 5 integers: four slots (numbers, the fourth 0 where there are only three) and a target, within `Rules`.
An answer is 8 output tokens: an expression, the end, and the end again as filling.
The longest expression over four numbers has 7 tokens, so the longest answer is 7 and the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fade_trainer.config import TrainConfigError
from fade_trainer.randomness import numpy_stream
from fade_trainer.rules import TASKS, Rules, TaskName

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

SLOTS = 4
INTERMEDIATE_MAX = 200
PROMPT_LENGTH = SLOTS + 1
ANSWER_LENGTH = 8

EVALUATION_PROMPTS_MAX = 1000
"""Per split. The prompts of both splits make up a third of all draws then."""

_DRAWS_MIN = 50_000
_SHAPES = {2: ("nno",), 3: ("nnono", "nnnoo"), 4: ("nnonono", "nnonnoo", "nnnoono", "nnnonoo", "nnnnooo")}
"""Every order of numbers (n) and operators (o) that parses, by how many numbers it takes."""


@dataclass(frozen=True, slots=True)
class Countdown:
    """The prompts of one seed. No prompt stands in two splits, not even with its numbers in another order."""

    rules: Rules
    """What they are drawn within."""

    training: IntArray
    """[training prompts, 5], as drawn: some more than once."""

    validation: IntArray
    """[evaluation prompts, 5], all different, for curves and choices."""

    held_out: IntArray
    """[evaluation prompts, 5], all different, for what is reported."""

    demonstration_prompts: IntArray
    """[demonstrations, 5], the training prompts and more like them."""

    demonstrations: IntArray
    """[demonstrations, 8], for each of these the right answer that it was made of."""


def make_countdown(name: TaskName, seed: int, training_prompts: int, evaluation_prompts: int) -> Countdown:
    """Draws random expressions over at least two of the numbers, and asks for their values: a pure function of its arguments.

    No target is one of the numbers. What has many solutions comes up often, in training too.

    Raises:
        TrainConfigError: `evaluation_prompts` is so large that too little would be left to train on.
    """
    if evaluation_prompts > EVALUATION_PROMPTS_MAX:
        raise TrainConfigError(f"evaluation_prompts must be at most {EVALUATION_PROMPTS_MAX}, not {evaluation_prompts}")
    rules = TASKS[name]
    rng = numpy_stream(seed, "countdown")
    prompts, answers = _draw_solved(rng, rules, max(_DRAWS_MIN, 8 * training_prompts))
    keys = _keys(prompts, rules)
    first = np.sort(np.unique(keys, return_index=True)[1])[: 2 * evaluation_prompts]
    held_out, validation = np.split(rng.permutation(first), 2)
    others = ~np.isin(keys, keys[first])
    demonstrated = prompts[others]
    training = demonstrated[:training_prompts]
    return Countdown(rules, training, prompts[validation], prompts[held_out], demonstrated, answers[others])


def solved(rules: Rules, prompts: IntArray, answers: IntArray) -> BoolArray:
    """Which answers are right: they parse, use each number at most as often as given, and reach the target.

    Args:
        prompts: [rows, 5].
        answers: [rows, 8]; what stands after the first end does not count, an answer without one is wrong.

    Returns:
        [rows].
    """
    if prompts.shape != (len(answers), PROMPT_LENGTH) or answers.shape[1:] != (ANSWER_LENGTH,):
        raise ValueError(f"prompts {prompts.shape} and answers {answers.shape} are not [rows, 5] and [rows, 8]")
    value, parses, _, _ = _evaluate(rules, answers)
    expression = np.where(np.logical_or.accumulate(answers == rules.end, axis=1), rules.end, answers)
    numbers = np.arange(1, rules.number_max + 1)
    used = (expression[:, :, None] == numbers - 1).sum(axis=1)
    given = (prompts[:, :SLOTS, None] == numbers).sum(axis=1)
    right: BoolArray = parses & (used <= given).all(axis=1) & (value == prompts[:, SLOTS])
    return right


def _evaluate(rules: Rules, answers: IntArray) -> tuple[IntArray, BoolArray, IntArray, IntArray]:
    """Runs answers [rows, 8] on a stack machine: value, whether it parses, least and largest result on the way: [rows] each."""
    rows = np.arange(len(answers))
    stack = np.zeros((len(answers), ANSWER_LENGTH), dtype=np.int64)
    depth = np.zeros(len(answers), dtype=np.int64)
    lowest, highest = np.zeros_like(depth), np.zeros_like(depth)
    ended = np.zeros(len(answers), dtype=bool)
    sound = np.ones(len(answers), dtype=bool)
    for token in answers.T:
        ended |= token == rules.end
        operator = ~ended & (token >= rules.plus)
        sound &= ~(operator & (depth < 2))
        operator &= sound
        number = sound & ~ended & (token < rules.plus)
        left, right = stack[rows, np.maximum(depth - 2, 0)], stack[rows, np.maximum(depth - 1, 0)]
        result = np.where(token == rules.plus, left + right, np.where(token == rules.minus, left - right, left * right))
        lowest = np.where(operator, np.minimum(lowest, result), lowest)
        highest = np.where(operator, np.maximum(highest, result), highest)
        stack[rows[number], depth[number]] = token[number] + 1
        stack[rows[operator], depth[operator] - 2] = result[operator]
        depth += number.astype(np.int64) - operator
    return stack[:, 0], sound & ended & (depth == 1), lowest, highest


def _draw_solved(rng: np.random.Generator, rules: Rules, draws: int) -> tuple[IntArray, IntArray]:
    """Random expressions over random numbers, those within the task's limits kept: prompts [kept, 5], answers [kept, 8]."""
    numbers = rng.integers(1, rules.number_max + 1, (draws, SLOTS))
    given = rng.integers(rules.fewest_numbers, SLOTS + 1, draws)
    numbers[given < SLOTS, SLOTS - 1] = 0
    order = np.where(numbers > 0, rng.random((draws, SLOTS)), np.inf).argsort(axis=1)
    picked = np.take_along_axis(numbers, order, axis=1)
    takes = rng.integers(2, given + 1)

    shape_rows, shape_counts = _shape_table()
    shapes = shape_rows[takes, rng.integers(shape_counts[takes])]
    operators = rng.integers(rules.plus, rules.times + 1, (draws, SLOTS - 1))
    is_number, is_operator = shapes == "n", shapes == "o"
    number_tokens = np.take_along_axis(picked, np.clip(is_number.cumsum(axis=1) - 1, 0, SLOTS - 1), axis=1) - 1
    operator_tokens = np.take_along_axis(operators, np.clip(is_operator.cumsum(axis=1) - 1, 0, SLOTS - 2), axis=1)
    answers = np.where(is_number, number_tokens, np.where(is_operator, operator_tokens, rules.end))

    value, _, lowest, highest = _evaluate(rules, answers)
    kept = (value >= 1) & (value <= rules.target_max) & (lowest >= 0) & (highest <= INTERMEDIATE_MAX)
    kept &= ~(numbers == value[:, None]).any(axis=1)
    return np.column_stack([numbers, value])[kept], answers[kept]


def _shape_table() -> tuple[npt.NDArray[np.str_], IntArray]:
    """`_SHAPES` as arrays: characters [numbers taken, shape, 8], blank behind the end, and counts [numbers taken]."""
    table = np.full((SLOTS + 1, max(map(len, _SHAPES.values())), ANSWER_LENGTH), " ")
    counts = np.zeros(SLOTS + 1, dtype=np.int64)
    for taken, shapes in _SHAPES.items():
        counts[taken] = len(shapes)
        for row, shape in enumerate(shapes):
            table[taken, row, : len(shape)] = list(shape)
    return table, counts


def _keys(prompts: IntArray, rules: Rules) -> IntArray:
    """One integer per prompt [rows], the same for every order of its numbers."""
    ordered = np.column_stack([np.sort(prompts[:, :SLOTS], axis=1), prompts[:, SLOTS]])
    keys: IntArray = ordered @ (np.int64(rules.target_max + 1) ** np.arange(PROMPT_LENGTH))
    return keys
