"""Every rule of tests/scripts/groups/rules.md is named in the head of a script that shows it, and every script names rules that are there."""

import re
from collections import Counter

import pytest

from tests.scenario import SCRIPTS, Script, scripts

FOLDER = SCRIPTS / "groups"
RULES = re.findall(r"^- ([\w-]+): ", (FOLDER / "rules.md").read_text(), re.MULTILINE)
OURS = [script for script in scripts() if script.folder == "groups"]


def named(script: Script) -> list[str]:
    """`# rules: a, b`, in the comment that the script begins with."""
    head = script.path.read_text().partition("\n\n")[0]
    return [name for line in re.findall(r"^# rules: (.*)$", head, re.MULTILINE) for name in line.split(", ")]


def test_no_rule_is_without_a_script() -> None:
    shown = {name for script in OURS for name in named(script)}

    assert [rule for rule in RULES if rule not in shown] == []
    assert [rule for rule, times in Counter(RULES).items() if times > 1] == []


@pytest.mark.parametrize("script", OURS, ids=lambda script: script.name)
def test_a_script_names_rules_that_are_there(script: Script) -> None:
    assert named(script)
    assert [name for name in named(script) if name not in RULES] == []
