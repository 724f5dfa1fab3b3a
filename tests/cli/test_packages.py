"""Commands of packages beside raftka: there when the package is, and not imported before they are
asked for.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from subprocess import run

import pytest
from click import Context
from click.testing import CliRunner

from raftka.cli.commands import root


def test_a_packages_group_is_in_the_tree() -> None:
    shown = CliRunner().invoke(root, ["--help"])
    assert "\n  bridge " in shown.output
    assert "Usage: root bridge" in CliRunner().invoke(root, ["bridge", "--help"]).output


def test_without_the_package_there_is_no_such_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "packages", {"bridge": "not_installed_here.commands"})
    assert "bridge" not in CliRunner().invoke(root, ["--help"]).output
    asked = CliRunner().invoke(root, ["bridge", "ls", "/"])
    assert (asked.exit_code, "No such command 'bridge'" in asked.output) == (2, True)


def test_a_package_that_lacks_something_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "packages", {"bridge": "raftka.cli.no_such_thing"})
    with pytest.raises(ModuleNotFoundError):
        root.get_command(Context(root), "bridge")


def test_other_commands_import_nothing_of_it() -> None:
    asked = "root(['topics', '--help'], standalone_mode=False)"
    code = (
        f"import sys; from raftka.cli.commands import root; {asked}; print('zookeeper_bridge' "
        "in sys.modules)"
    )
    assert (
        run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        == "False"
    )


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for module in [name for name in sys.modules if name.startswith("raftka.pipeline.")]:
        monkeypatch.delitem(sys.modules, module)

    asked = CliRunner().invoke(root, ["pipeline", "run", str(tmp_path)])

    assert asked.exit_code == 1
    assert asked.output == (
        "Error: the Python package pyspark is not installed: pip install 'raftka[pipeline]'\n"
    )


@pytest.mark.parametrize("verb", [["sim"], ["replay", "1"], ["shrink", "1"], ["live"]])
def test_chaos_does_not_judge_without_its_extra(
    monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    """Without an engine for regular expressions the broker refuses them: no broken promise."""
    monkeypatch.setattr(
        "raftka.cli.tree.extras.find_spec",
        lambda name: None if name == "re2" else find_spec(name),
    )

    asked = CliRunner().invoke(root, ["chaos", *verb])

    assert asked.exit_code == 1
    assert "needs raftka[chaos] (re2 cannot be imported): pip install 'raft" in asked.output
