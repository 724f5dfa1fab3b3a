"""`--profile`: where its file is, what a section may have, what is stronger, and how a wrong one is
refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from raftka.cli.admin import client
from raftka.cli.admin.profiles import find_profile, profiles_file
from raftka.cli.commands import root
from raftka.client.connection import Address
from raftka.security.client_security import ClientSecurity

PROFILES = """
[plain]
bootstrap_server = "one:1,two:2"

[secret]
bootstrap_server = "three:3"
"security.protocol" = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "alice"
sasl.password = "hush"

[nowhere]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "SCRAM-SHA-256"
sasl.username = "bob"
sasl.password = "hush"

[typed]
"client.dns.lookup" = true
socket.connection.setup.timeout.ms = 10
"""


class Asked(list[tuple[list[Address], ClientSecurity]]):
    """Stands for the client: notes where it would connect and as whom, and finds nobody there."""

    def __call__(
        self,
        addresses: list[Address],
        client_id: str,
        *_: float,
        security: ClientSecurity,
        **__: float,
    ) -> "Asked":
        self.append((addresses, security))
        return self

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def refresh(self, topics: list[str], answer_s: float) -> NoReturn:
        raise ConnectionRefusedError


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    for name in ("RAFTKA_PROFILE", "RAFTKA_BOOTSTRAP_SERVER", "RAFTKA_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(PROFILES)
    found = Asked()
    monkeypatch.setattr(client, "Client", found)
    return found


def write(text: str) -> None:
    profiles_file().parent.mkdir(exist_ok=True)
    profiles_file().write_text(text)


def run(arguments: str, environment: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(root, ["topics", "list", *arguments.split()], env=environment)


def test_a_profile_says_where_to_ask_and_as_whom(asked: Asked) -> None:
    run("--profile plain")
    run("", {"RAFTKA_PROFILE": "secret"})

    assert asked == [
        ([("one", 1), ("two", 2)], ClientSecurity()),
        ([("three", 3)], ClientSecurity("SASL_PLAINTEXT", "PLAIN", "alice", "hush")),
    ]


def test_options_are_stronger_than_a_profile(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=carol\nsasl.password=file\n")

    run(
        f"--profile secret --bootstrap-server four:4 --command-config {file} -X sasl.password=given"
    )

    assert asked == [([("four", 4)], ClientSecurity("SASL_PLAINTEXT", "PLAIN", "carol", "given"))]


@pytest.mark.parametrize(("from_environment", "user"), [(True, "carol"), (False, "alice")])
def test_the_environment_is_weaker_than_a_profile_on_the_command_line(
    asked: Asked, tmp_path: Path, from_environment: bool, user: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=carol\n")
    environment = {"RAFTKA_BOOTSTRAP_SERVER": "four:4", "RAFTKA_COMMAND_CONFIG": str(file)}

    if from_environment:
        run("", {**environment, "RAFTKA_PROFILE": "secret"})
    else:
        run("--profile secret", environment)

    [(addresses, security)] = asked
    assert addresses == ([("four", 4)] if from_environment else [("three", 3)])
    assert security.user == user


def test_a_profile_without_a_server_leaves_the_choice(asked: Asked) -> None:
    run("--profile nowhere")
    run("--profile nowhere", {"RAFTKA_BOOTSTRAP_SERVER": "four:4"})

    assert [addresses for addresses, _ in asked] == [[("localhost", 9092)], [("four", 4)]]
    assert {security.user for _, security in asked} == {"bob"}


def test_numbers_and_truths_become_texts(asked: Asked) -> None:
    assert find_profile("typed").properties == {
        "client.dns.lookup": "true",
        "socket.connection.setup.timeout.ms": "10",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PROFILES, "has no profile missing; it has nowhere, plain, secret, typed"),
        ("", "has no profile missing; a profile is a section"),
        ("[missing", "is no TOML"),
        ("missing = 'hush'", "missing is no section"),
        (
            "[missing]\nbootstrap.servers = 'hush'",
            "bootstrap.servers in missing must be bootstrap_server",
        ),
        ("[missing]\nsasl.password = ['hush']", "sasl.password in missing must be a text"),
    ],
)
def test_a_wrong_profile_is_refused_without_its_values(asked: Asked, text: str, said: str) -> None:
    write(text)

    done = run("--profile missing")

    assert done.exit_code == 2
    assert str(profiles_file()) in done.output
    assert said in done.output
    assert "hush" not in done.output
    assert not asked


def test_a_missing_file_is_named(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")

    done = run("--profile plain")

    assert done.exit_code == 2
    assert f"there is no file {tmp_path}/.config/raftka/profiles.toml" in done.output


def test_properties_that_cannot_be_name_their_sources(asked: Asked) -> None:
    done = run("--profile secret -X sasl.mechanism=none")

    assert done.exit_code == 1
    assert "--profile secret, -X: sasl.mechanism must be" in done.output


def test_names_of_profiles_are_completed(asked: Asked) -> None:
    typed = "raftka topics list --profile p"
    environment = {"_RAFTKA_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": "4"}

    assert (
        CliRunner().invoke(root, [], prog_name="raftka", env=environment).output == "plain,plain\n"
    )
