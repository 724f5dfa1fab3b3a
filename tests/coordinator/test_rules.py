"""Every rule of a rules.md beside scripts is named in the head of a script, or names its test;
scripts name rules that are there.
"""

import re
from collections import Counter

import pytest

from tests.scenario import SCRIPTS, Script, scripts

FOLDERS = ("groups", "share_states", "transactions")
TEXTS = {folder: (SCRIPTS / folder / "rules.md").read_text() for folder in FOLDERS}
RULES = {folder: re.findall(r"^- ([\w-]+): ", text, re.MULTILINE) for folder, text in TEXTS.items()}
SHOWN_BY_TESTS = {
    folder: re.findall(r"^- [\w-]+ \((\S+)::(\w+)\): ", text, re.MULTILINE)
    for folder, text in TEXTS.items()
}
OURS = [script for script in scripts() if script.folder in FOLDERS]
each_folder = pytest.mark.parametrize("folder", FOLDERS)


def named(script: Script) -> list[str]:
    """`# rules: a, b`, in the comment that the script begins with."""
    head = script.path.read_text().partition("\n\n")[0]
    return [
        name
        for line in re.findall(r"^# rules: (.*)$", head, re.MULTILINE)
        for name in line.split(", ")
    ]


@each_folder
def test_no_rule_is_without_a_script(folder: str) -> None:
    shown = {name for script in OURS if script.folder == folder for name in named(script)}

    assert [rule for rule in RULES[folder] if rule not in shown] == []
    assert [rule for rule, times in Counter(RULES[folder]).items() if times > 1] == []


@each_folder
def test_every_line_is_a_rule(folder: str) -> None:
    assert TEXTS[folder].count("\n- ") == len(RULES[folder]) + len(SHOWN_BY_TESTS[folder])


@pytest.mark.parametrize(
    ("path", "test"), [each for shown in SHOWN_BY_TESTS.values() for each in shown]
)
def test_the_tests_that_rules_name_are_there(path: str, test: str) -> None:
    assert f"def {test}(" in (SCRIPTS.parents[1] / path).read_text()


@pytest.mark.parametrize("script", OURS, ids=lambda script: f"{script.folder}-{script.name}")
def test_a_script_names_rules_that_are_there(script: Script) -> None:
    assert named(script)
    assert [name for name in named(script) if name not in RULES[script.folder]] == []
