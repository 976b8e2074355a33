"""The countdown task against a checker of its own, which reads expressions from their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_trainer import TrainConfigError
from fade_trainer.rules import TASKS
from fade_trainer.task import make_countdown, solved

RULES = TASKS["countdown"]
SIGNS = {10: "+", 11: "-", 12: "*"}
END = 13

Tree = int | tuple[str, "Tree", "Tree"]


def tree(words: list[int]) -> Tree:
    """Takes the expression that ends the list off it; IndexError where there is none."""
    word = words.pop()
    if word not in SIGNS:
        return word + 1
    right = tree(words)
    return SIGNS[word], tree(words), right


def value(part: Tree) -> int:
    return part if isinstance(part, int) else int(eval(f"({value(part[1])}) {part[0]} ({value(part[2])})"))


def results(part: Tree) -> list[int]:
    """Of all operators."""
    return [] if isinstance(part, int) else [value(part), *results(part[1]), *results(part[2])]


def is_right(prompt: Sequence[int], answer: Sequence[int]) -> bool:
    if END not in answer:
        return False
    words = list(answer[: list(answer).index(END)])
    used = Counter(word + 1 for word in words if word not in SIGNS)
    try:
        read = tree(words)
    except IndexError:
        return False
    return not words and used <= Counter(prompt[:4]) and value(read) == prompt[4]


def padded(*words: int) -> list[int]:
    return [*words, *[END] * (8 - len(words))]


@st.composite
def written(draw: st.DrawFn) -> list[int]:
    """An answer that parses, over up to five numbers, as far as eight tokens hold it."""
    words: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        words.insert(draw(st.integers(0, len(words))), draw(st.integers(0, 9)))
    operators = draw(st.lists(st.sampled_from(sorted(SIGNS)), min_size=len(words) - 1, max_size=len(words) - 1))
    depth, out = 0, []
    for word in words:
        out.append(word)
        depth += 1
        while depth > 1 and draw(st.booleans()):
            out.append(operators.pop())
            depth -= 1
    return padded(*out, *operators)


numbers = st.lists(st.integers(1, 10), min_size=3, max_size=4).map(lambda drawn: drawn + [0] * (4 - len(drawn)))


@given(numbers, st.integers(1, 60), st.lists(st.integers(0, 13), min_size=8, max_size=8) | written())
def test_any_answer_is_judged_as_the_other_checker_does(given: list[int], target: int, answer: list[int]) -> None:
    prompt = [*given, target]
    assert solved(RULES, np.array([prompt]), np.array([answer])).tolist() == [is_right(prompt, answer)]


@given(written(), st.data())
def test_an_answer_that_parses_is_right_for_its_own_numbers_and_value_alone(answer: list[int], data: st.DataObject) -> None:
    words = answer[: answer.index(END)]
    target = value(tree(list(words)))
    used = [word + 1 for word in words if word not in SIGNS]
    slots = data.draw(st.permutations(used + [0] * (4 - len(used))))
    for change in (0, 1):
        prompt = [*slots, target + change]
        assert solved(RULES, np.array([prompt]), np.array([answer])).tolist() == [change == 0]


@pytest.mark.parametrize(
    ("prompt", "answer", "right"),
    [
        ([3, 5, 7, 0, 26], padded(2, 6, 12, 4, 10), True),  # 3 7 * 5 +
        ([3, 5, 7, 0, 2], padded(6, 4, 11), True),  # 7 5 -
        ([3, 5, 7, 0, 2], padded(4, 6, 11), False),  # 5 7 - is -2
        ([3, 5, 7, 0, 6], padded(2, 2, 10), False),  # 3 3 +, with one 3 given
        ([3, 3, 7, 0, 6], padded(2, 2, 10), True),
        ([3, 5, 7, 0, 8], padded(2, 4, 10, 10), False),  # an operator without operands
        ([3, 5, 7, 0, 8], padded(2, 4, 10, 6), False),  # a number too many
        ([3, 5, 7, 0, 8], [2, 4, 10, END, 6, 6, 6, 6], True),  # what follows the end does not count
        ([3, 5, 7, 9, 24], [2, 4, 10, 6, 10, 8, 10, 10], False),  # no end
        ([3, 5, 7, 0, 26], [END] * 8, False),
    ],
)
def test_examples_worked_by_hand(prompt: list[int], answer: list[int], right: bool) -> None:
    assert solved(RULES, np.array([prompt]), np.array([answer])).tolist() == [right]


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[rows, 5\] and \[rows, 8\]"):
        solved(RULES, np.zeros((2, 5), dtype=np.int64), np.zeros((3, 8), dtype=np.int64))


def test_every_demonstration_is_a_right_answer_within_the_tasks_limits() -> None:
    task = make_countdown("countdown", 3, 500, 50)
    assert len(task.demonstrations) >= 500
    for prompt, answer in zip(task.demonstration_prompts.tolist(), task.demonstrations.tolist(), strict=True):
        assert is_right(prompt, answer)
        assert prompt[4] not in prompt[:4] and 1 <= prompt[4] <= 60
        made = results(tree(answer[: answer.index(END)]))
        assert made and all(0 <= result <= 200 for result in made)


def test_the_hard_task_gives_four_larger_numbers_and_farther_targets() -> None:
    task = make_countdown("countdown-hard", 3, 500, 50)
    shown, answers = task.demonstration_prompts, task.demonstrations
    assert shown[:, :4].min() == 1 and shown[:, :4].max() == 12 and 90 < shown[:, 4].max() <= 99
    assert solved(task.rules, shown, answers).all()
    assert not solved(task.rules, shown + [0, 0, 0, 0, 1], answers).any()
    for prompt, answer in zip(shown.tolist(), answers.tolist(), strict=True):
        stack: list[int] = []
        for word in answer[: answer.index(15)]:
            match word:
                case 12 | 13 | 14:
                    right, left = stack.pop(), stack.pop()
                    stack.append({12: left + right, 13: left - right, 14: left * right}[word])
                case _:
                    stack.append(word + 1)
        assert stack == [prompt[4]]


Prompts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def keys(prompts: Prompts) -> set[tuple[int, ...]]:
    """The prompts, however their numbers are ordered."""
    return {(*sorted(prompt[:4]), prompt[4]) for prompt in prompts.tolist()}


def test_no_prompt_stands_in_two_splits_and_none_that_is_evaluated_is_demonstrated() -> None:
    task = make_countdown("countdown", 3, 500, 50)
    assert len(task.training) == 500
    trained, validated, reported = keys(task.training), keys(task.validation), keys(task.held_out)
    assert len(validated) == len(reported) == 50
    assert not validated & reported and not (validated | reported) & keys(task.demonstration_prompts)
    assert trained <= keys(task.demonstration_prompts)


def test_the_splits_are_alike() -> None:
    task = make_countdown("countdown", 0, 8000, 300)
    shares = [float((prompts[:, 3] > 0).mean()) for prompts in (task.training, task.validation, task.held_out)]
    # Of 300 draws a share strays by 0.029: four times that is next to impossible by chance.
    assert max(shares) - min(shares) < 0.12


def test_a_seed_fixes_the_task_and_another_seed_changes_it() -> None:
    first, again, other = (
        make_countdown("countdown", 1, 100, 10),
        make_countdown("countdown", 1, 100, 10),
        make_countdown("countdown", 2, 100, 10),
    )
    assert first.training.tobytes() == again.training.tobytes()
    assert first.demonstrations.tobytes() == again.demonstrations.tobytes()
    assert first.training.tobytes() != other.training.tobytes()


def test_evaluating_on_so_much_that_little_is_left_to_train_on_is_refused() -> None:
    with pytest.raises(TrainConfigError, match="evaluation_prompts must be at most 1000, not 1001"):
        make_countdown("countdown", 0, 100, 1001)
