"""Options of the connection: they stand before or behind the noun, once or with one value; a wrong
place or spelling is corrected in the error.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftka.cli.admin import client
from raftka.cli.commands import root
from raftka.client.connection import Address
from raftka.security.client_security import ClientSecurity

ONE = ("one", 1)


class Asked(list[tuple[list[Address], ClientSecurity]]):
    """Stands for the client: notes where it would connect and how, and finds no broker there."""

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

    def refresh(self, topics: list[str], answer_s: float) -> None:
        raise ConnectionRefusedError


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    for name in ("RAFTKA_PROFILE", "RAFTKA_BOOTSTRAP_SERVER", "RAFTKA_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "raftka").mkdir()
    (tmp_path / "raftka" / "profiles.toml").write_text('[prod]\nbootstrap_server = "one:1"\n')
    (tmp_path / "client.properties").write_text("sasl.username=carol\n")
    monkeypatch.chdir(tmp_path)
    found = Asked()
    monkeypatch.setattr(client, "Client", found)
    return found


def run(line: str, **environment: str) -> Result:
    return CliRunner().invoke(root, line.split(), prog_name="raftka", env=environment)


@pytest.mark.parametrize(
    "line",
    [
        "-b one:1 topics list",
        "topics -b one:1 list",
        "topics list -b one:1",
        "--bootstrap-server one:1 topics list",
        "--bootstrap-server=one:1 topics list",
        "-b one:1 topics -b one:1 list --bootstrap-server one:1",
        "--profile prod topics list",
        "topics --profile prod list",
        "--profile prod topics list --profile prod",
    ],
)
def test_a_server_stands_before_or_behind_the_noun(asked: Asked, line: str) -> None:
    run(line)

    assert [addresses for addresses, _ in asked] == [[ONE]]


def test_a_server_before_the_noun_is_stronger_than_environment_and_profile(asked: Asked) -> None:
    run("-b one:1 topics list", RAFTKA_BOOTSTRAP_SERVER="two:2")
    run("-b one:1 topics --profile prod list", RAFTKA_BOOTSTRAP_SERVER="two:2")
    run("--profile prod topics list", RAFTKA_BOOTSTRAP_SERVER="two:2")

    assert [addresses for addresses, _ in asked] == [[ONE], [ONE], [ONE]]


@pytest.mark.parametrize(
    "line",
    [
        "--command-config client.properties -X sasl.password=p {} topics list",
        "topics --command-config client.properties list -X sasl.password=p {}",
        "-X sasl.password=p topics list {} --command-config client.properties",
    ],
)
def test_properties_stand_before_or_behind_the_noun(asked: Asked, line: str) -> None:
    run(line.format("-X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=PLAIN"))

    ((_, security),) = asked
    assert security == ClientSecurity("SASL_PLAINTEXT", "PLAIN", "carol", "p")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-b one:1 topics list -b two:2", "--bootstrap-server is given twice, as one:1 and as two"),
        ("topics list -b one:1 -b two:2", "--bootstrap-server is given twice"),
        ("--profile prod topics --profile test list", "--profile is given twice"),
        ("-X acks=1 topics list -X acks=2", "acks is given twice, with different values"),
        ("topics list -X acks=1 -X acks=2", "acks is given twice, with different values"),
        ("topics create t -c a=1 -c a=2", "a is given twice, with different values"),
    ],
)
def test_two_values_are_refused(asked: Asked, line: str, said: str) -> None:
    done = run(line)

    assert (done.exit_code, said in done.output) == (2, True), done.output
    assert not asked


def test_a_password_that_is_given_twice_is_not_printed(asked: Asked) -> None:
    done = run("-X sasl.password=hush topics list -X sasl.password=hushed")

    assert done.exit_code == 2
    assert "hush" not in done.output


def test_a_path_with_a_space_in_the_environment_is_one_path(asked: Asked, tmp_path: Path) -> None:
    file = tmp_path / "my client.properties"
    file.write_text("security.protocol=SSL\n")
    run("topics list", RAFTKA_COMMAND_CONFIG=str(file))

    ((_, security),) = asked
    assert security.security_protocol == "SSL"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # Kafka's spellings
        ("topics list --bootstrap-servers h:1", "Did you mean --bootstrap-server?"),
        ("--bootstrap-servers h:1 topics list", "Did you mean --bootstrap-server?"),
        ("topics --zookeeper h:2181 list", "Did you mean --bootstrap-server?"),
        ("topics describe --topic orders", "raftka topics describe [NAME...]"),
        ("topics --describe --topic orders", "raftka topics describe"),
        ("consume --topic orders", "raftka consume [TOPIC...]"),
        ("groups describe --group g", "raftka groups describe GROUP..."),
        ("consume t --from-beginning", "Did you mean --from start?"),
        ("consume t --max-messages 3", "Did you mean --count?"),
        ("consume t --consumer.config f", "Did you mean --command-config?"),
        ("groups reset-offsets g --to-earliest", "Did you mean --to start?"),
        ("groups reset-offsets g --execute", "leave it out"),
        ("configs alter topic t --add-config a=b", "Did you mean --config?"),
        ("log dump --files f", "raftka log dump FILE..."),
        # another place
        ("-o json topics list", "raftka topics list -o"),
        ("topics -p 3 create t", "raftka topics create -p"),
        ("topics --partitions 3 create t", "raftka topics create --partitions"),
        # another spelling
        ("topics create t --partition 3", "Did you mean --partitions?"),
        ("topics list --profil prod", "Did you mean --profile?"),
        # commands
        ("topic list", "Did you mean raftka topics?"),
        ("list topics", "raftka topics list"),
        ("describe group g", "raftka groups describe"),
        ("topics remove t", "Did you mean raftka topics delete?"),
        ("topics lst", "Did you mean raftka topics list?"),
        ("kafka-topics.sh --list", "Did you mean raftka topics?"),
        ("console-consumer t", "Did you mean raftka consume?"),
        ("nonsense", "raftka --help shows all commands."),
        # no connection there
        ("log dump f -b h:1", "raftka log dump connects to no cluster"),
        ("-b h:1 chaos replay 1", "raftka chaos replay connects to no cluster"),
    ],
)
def test_a_wrong_place_or_spelling_is_corrected(asked: Asked, line: str, said: str) -> None:
    done = run(line)

    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert not asked


def test_a_correction_is_an_option_that_the_command_has(asked: Asked) -> None:
    assert "Did you mean" not in run("topics list --from-beginning").output


def test_a_single_dash_b_is_the_server_everywhere() -> None:
    import click

    from raftka.cli.tree.corrections import _verbs

    for path, verb in _verbs(click.Context(root), root, "raftka"):
        for each in verb.params:
            if "-b" in each.opts:
                assert each.name == "bootstrap_server", path
