"""The `run` script, with a python that only writes down what it is asked: when .venv is made, when
mended, when left alone.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Stands for python3 and, copied into .venv/bin, for the venv's python, raftka and all tools.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"$RUN_LOG"
case "$*" in
*sys.version_info*) exit "${TOO_OLD:-0}" ;;
"-m pip --version") exit "${NO_PIP:-0}" ;;
"-m venv"*)
    for last; do :; done
    mkdir -p "$last/bin"
    for tool in python raftka ruff mypy zizmor check-jsonschema; do cp "$0" "$last/bin/$tool"; done
    ;;
*pyproject.toml) echo pytest ;;
esac
"""


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        (folder / "bin").mkdir(parents=True)
        self.python = folder / "bin" / "python3"
        self.python.write_text(STAND_IN)
        self.python.chmod(self.python.stat().st_mode | stat.S_IXUSR)
        for name in ("run", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        environment = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "RUN_LOG": str(self.log),
            **variables,
        }
        return subprocess.run(
            [str(self.folder / "run"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def pip_calls(self) -> int:
        return sum(" install " in line for line in self.asked())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "check out")  # with a blank in its path


def test_setup_makes_a_venv_without_ensurepip_and_installs_from_outside(checkout: Checkout) -> None:
    done = checkout.run("setup")

    assert done.returncode == 0, done.stderr
    assert f"python3 -m venv --clear --without-pip {checkout.folder}/.venv" in checkout.asked()
    assert (
        f"python3 -m pip --python {checkout.folder}/.venv/bin/python install --quiet -e "
        f"{checkout.folder}[dev]" in checkout.asked()
    )
    assert checkout.pip_calls() == 1


def test_the_second_time_nothing_is_installed(checkout: Checkout) -> None:
    checkout.run("setup")

    done = checkout.run("test", "-k", "x y")

    assert done.stderr == ""
    assert checkout.asked() == ["python -m pytest -q -k x y"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (("--fast", "-x"), "python -m pytest -q -n auto --fast -x"),
        (("--all", "-x"), "python -m pytest -q --all-clients -x"),
        (("-x", "--all-clients"), "python -m pytest -q -x --all-clients"),
    ],
)
def test_tests_come_in_three_tiers(checkout: Checkout, given: tuple[str, ...], asked: str) -> None:
    checkout.run("setup", "pipeline")

    checkout.run("test", *given)

    assert checkout.asked() == [asked]


def test_the_demo_needs_no_tools_of_the_tests(checkout: Checkout) -> None:
    checkout.run("demo")

    assert checkout.pip_calls() == 1
    assert checkout.asked()[-1] == "raftka demo"


def test_a_changed_project_file_is_installed_again_into_the_same_venv(checkout: Checkout) -> None:
    checkout.run("setup")
    with (checkout.folder / "pyproject.toml").open("a") as file:
        file.write("# changed\n")

    checkout.run("demo")

    assert checkout.pip_calls() == 1
    assert not any("-m venv" in line for line in checkout.asked())


def test_a_checkout_that_moved_gets_a_new_venv(checkout: Checkout) -> None:
    checkout.run("setup")
    moved = checkout.folder.rename(checkout.folder.parent / "elsewhere")
    checkout.folder, checkout.log = moved, moved / "log"

    checkout.run("demo")

    assert f"python3 -m venv --clear --without-pip {moved}/.venv" in checkout.asked()


def test_a_setup_that_failed_is_done_again(checkout: Checkout) -> None:
    broken = STAND_IN.replace("case", 'case "$*" in *install*) exit 1 ;; esac\ncase', 1)
    checkout.python.write_text(broken)
    assert checkout.run("demo").returncode != 0

    checkout.python.write_text(STAND_IN)

    assert checkout.run("demo").returncode == 0
    assert checkout.pip_calls() == 1


def test_an_old_python_and_a_missing_pip_are_reported(checkout: Checkout) -> None:
    for name in ("python3.11", "python3.12", "python3.13", "python3.14"):
        shutil.copy(checkout.python, checkout.folder / "bin" / name)

    old, without = checkout.run("setup", TOO_OLD="1"), checkout.run("setup", NO_PIP="1")

    assert (old.returncode, without.returncode) == (1, 1)
    assert "version 3.11 or newer" in old.stderr
    assert "has no pip" in without.stderr


def test_check_stops_at_the_first_that_fails(checkout: Checkout) -> None:
    checkout.run("setup")
    ruff = checkout.folder / ".venv" / "bin" / "ruff"
    ruff.write_text(f"{ruff.read_text()}\nexit 1\n")

    assert checkout.run("check").returncode == 1
    assert checkout.asked() == ["ruff format --check ."]


def test_help_names_every_command() -> None:
    script = (ROOT / "run").read_text()
    commands = [
        line[:-1]
        for line in script[script.index("case $command") :].splitlines()
        if line.endswith(")") and line[0].isalpha()
    ]

    told = subprocess.run(
        [str(ROOT / "run")], env=dict(os.environ), capture_output=True, text=True, check=True
    ).stdout

    assert commands
    assert [c for c in commands if f"./run {c}" not in told and not c.startswith("help")] == []


def test_spark_is_installed_when_it_is_asked_for(checkout: Checkout) -> None:
    checkout.run("test")
    assert not any("[pipeline" in line for line in checkout.asked())

    checkout.run("setup", "pipeline")
    assert (
        f"python3 -m pip --python {checkout.folder}/.venv/bin/python install --quiet -e "
        f"{checkout.folder}[pipeline-dev]" in checkout.asked()
    )

    checkout.run("bench", "pipeline")
    assert checkout.asked() == ["python -m bench pipeline"]


def test_an_unknown_command_is_refused(checkout: Checkout) -> None:
    assert checkout.run("dance").returncode == 2
    assert checkout.asked() == []
