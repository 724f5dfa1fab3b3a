"""Every rule of tests/scripts/groups/rules.md is named in the head of a script, or names its test; scripts name rules that are there."""

import re
from collections import Counter

import pytest

from tests.scenario import SCRIPTS, Script, scripts

FOLDER = SCRIPTS / "groups"
TEXT = (FOLDER / "rules.md").read_text()
RULES = re.findall(r"^- ([\w-]+): ", TEXT, re.MULTILINE)
SHOWN_BY_TESTS = re.findall(r"^- [\w-]+ \((\S+)::(\w+)\): ", TEXT, re.MULTILINE)
OURS = [script for script in scripts() if script.folder == "groups"]


def named(script: Script) -> list[str]:
    """`# rules: a, b`, in the comment that the script begins with."""
    head = script.path.read_text().partition("\n\n")[0]
    return [name for line in re.findall(r"^# rules: (.*)$", head, re.MULTILINE) for name in line.split(", ")]


def test_no_rule_is_without_a_script() -> None:
    shown = {name for script in OURS for name in named(script)}

    assert [rule for rule in RULES if rule not in shown] == []
    assert [rule for rule, times in Counter(RULES).items() if times > 1] == []


def test_every_line_is_a_rule() -> None:
    assert TEXT.count("\n- ") == len(RULES) + len(SHOWN_BY_TESTS)


@pytest.mark.parametrize(("path", "test"), SHOWN_BY_TESTS)
def test_the_tests_that_rules_name_are_there(path: str, test: str) -> None:
    assert f"def {test}(" in (SCRIPTS.parents[1] / path).read_text()


@pytest.mark.parametrize("script", OURS, ids=lambda script: script.name)
def test_a_script_names_rules_that_are_there(script: Script) -> None:
    assert named(script)
    assert [name for name in named(script) if name not in RULES] == []
