"""The guide says who may call what, as the table of rules has it."""

from __future__ import annotations

import re
from pathlib import Path

from fade_service.access.policy import METHODS
from fade_service.errors import CODES

GUIDE = (Path(__file__).parents[3] / "docs" / "security.md").read_text()


def test_the_guide_names_each_method_under_the_role_that_it_needs() -> None:
    rows = re.findall(r"^\| (read|write|admin) \| (.*?) \|", GUIDE, re.MULTILINE)
    told = {name: role for role, cell in rows for name in re.findall(r"`(\w+)`", cell)}
    service = "/fade.v1.SchedulerService/"
    rules = {name.removeprefix(service): rule.role for name, rule in METHODS.items() if name.startswith(service)}
    assert told == {name: role.name.lower() for name, role in rules.items() if role is not None}


def test_the_guide_explains_each_reason_to_be_kept_out() -> None:
    for reason, code in CODES.items():
        if code in ("UNAUTHENTICATED", "PERMISSION_DENIED") or "QUOTA" in reason:
            assert f"| {reason} |" in GUIDE
