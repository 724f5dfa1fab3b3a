"""Pipelines on secured clusters, without Spark: the file with client properties, what is refused,
and that projects and pages come in.
"""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

pytest.importorskip("yaml", reason="needs raftka[pipeline]")
pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.cli.connection_options import cluster_options
from raftka.cli.spark.cluster import given_cluster
from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows.streams import Shown, connection, declared, load
from raftka.pipeline.page import ProjectPage
from raftka.pipeline.project import init
from raftka.pipeline.topics.brokers import open_brokers
from raftka.pipeline.topics.creation import ensure_topics
from raftka.pipeline.topics.options import source_options
from raftka.pipeline.topics.security import LARGEST_FILE, security_of
from raftka.pipeline.topics.sink import sink_options
from raftka.testing import Cluster
from tests.clients.secured import LOGINS, PASSWORD, Secured, add_scram_user
from tests.pipeline.page_requests import ask

SECRET = "hush-hush"
LOGIN = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="alice" password="{SECRET}";
request.timeout.ms=5000
"""


def written(folder: Path, text: str, name: str = "client.properties") -> Path:
    (folder / name).write_text(text)
    return folder / name


# the file


def test_source_and_sink_take_the_file(tmp_path: Path) -> None:
    given = connection("a:1", written(tmp_path, LOGIN))

    source = source_options({**given, "subscribe": "t"}, streaming=True)
    sink = sink_options({**given, "topic": "t"}, {"value": "string"})

    assert source.security == sink.security
    assert (source.security.user, source.security.password, source.security.mechanism) == (
        "alice",
        SECRET,
        "SCRAM-SHA-256",
    )
    assert SECRET not in f"{source}{sink}{given}"


def test_options_are_stronger_than_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        json.dumps(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "a",
                "sasl.password": "b",
            }
        ),
        "c.json",
    )

    security = security_of({"client.config": str(file), "security.protocol": "SASL_PLAINTEXT"})

    assert (security.security_protocol, security.user, security.password) == (
        "SASL_PLAINTEXT",
        "a",
        "b",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            LOGIN.replace("sasl.jaas.config", "sasl.jass.config"),
            "no property sasl.jass.config .*: is it sasl.jaas.config?",
        ),
        (LOGIN.replace("SCRAM-SHA-256", "SCRAM-SHA-1"), "sasl.mechanism must be"),
        (LOGIN + "sasl.login.class=com.example.Login\n", "names a class of Java"),
        (LOGIN + "x=" + "y" * LARGEST_FILE, "has more than"),
        (LOGIN + "\udcff", "is not in UTF-8"),
    ],
)
def test_invalid_files_are_refused_without_their_secrets(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(OptionRefused, match=why) as refused:
        security_of({"client.config": str(file)})
    assert SECRET not in str(refused.value)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        OptionRefused, match=r"kafka.client.config: /nowhere/x cannot be read: No such file"
    ):
        security_of({"client.config": "/nowhere/x"})
    given = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(tmp_path / "gone.pem"),
    }
    with pytest.raises(OptionRefused, match=r"TLS cannot work: .*gone\.pem"):
        open_brokers(given, "test", 1)


def test_classes_of_kafkas_own_java_clients_do_not_matter() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///token",
        "sasl.login.callback.handler.class": handler,
    }

    assert security_of({"security.protocol": "SASL_PLAINTEXT", **token}).source is not None


# projects and the command line


def test_a_project_names_its_file(tmp_path: Path) -> None:
    init("trucks", tmp_path / "plain", "a:1")
    init("trucks", tmp_path / "secured", "a:1", tmp_path / "client.properties")

    assert load(tmp_path / "plain" / "streams.yml").security is None
    assert load(tmp_path / "secured" / "streams.yml").connection == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.client.config": str(tmp_path / "client.properties"),
    }


def test_its_path_counts_from_the_project_and_the_environment_is_stronger() -> None:
    assert declared({"security": "keys/c.properties"}, Path("/p"), {}).security == Path(
        "/p/keys/c.properties"
    )
    assert declared(
        {"security": "c.properties"}, Path("/p"), {"RAFTKA_COMMAND_CONFIG": "/q/d"}
    ).security == Path("/q/d")
    with pytest.raises(OptionRefused, match="secrets do not stand in here"):
        declared({"security": {"sasl.password": SECRET}}, Path("/p"), {})


@click.command()
@cluster_options
def shown(bootstrap_server: str) -> None:
    with given_cluster(bootstrap_server) as cluster:
        file = cluster.config
        mode = None if file is None else stat.S_IMODE(file.stat().st_mode)
        text = None if file is None else file.read_text()
    print(json.dumps([cluster.named_server, text, mode, None if file is None else file.exists()]))


def asked(*arguments: str) -> Any:
    done = CliRunner().invoke(
        shown,
        arguments,
        env={
            "RAFTKA_BOOTSTRAP_SERVER": None,
            "RAFTKA_COMMAND_CONFIG": None,
            "RAFTKA_PROFILE": None,
        },
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_command_line_makes_one_file_of_all_that_it_is_given(tmp_path: Path) -> None:
    file = written(tmp_path, "sasl.username=carol\nsasl.password=file\n")

    assert asked() == [None, None, None, None]
    # as it is, without a copy
    assert asked("--bootstrap-server", "b:2", "--command-config", str(file))[:2] == [
        "b:2",
        file.read_text(),
    ]
    text, mode, is_left = asked("--command-config", str(file), "-X", "sasl.password=given")[1:]
    assert json.loads(text) == {"sasl.username": "carol", "sasl.password": "given"}
    assert (mode, is_left) == (0o600, False)


# secured clusters


@pytest.fixture(scope="module", params=["certificate", "SCRAM-SHA-256"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Path]]:
    """A cluster, and the file of a user of it."""
    is_scram = request.param != "certificate"
    with Cluster(properties=LOGINS if is_scram else {}, security=True) as cluster:
        if is_scram:
            add_scram_user(cluster)
        text = Secured(cluster, cluster.client_files(), request.param).properties()
        yield cluster, written(tmp_path_factory.mktemp("keys"), text)


def test_projects_make_their_topics_and_show_their_page(secured: tuple[Cluster, Path]) -> None:
    cluster, file = secured
    outputs = {"positions": {"topic": "positions", "partitions": 2}, "alerts": {"topic": "alerts"}}
    project = declared(
        {"bootstrap": cluster.bootstrap_servers, "security": str(file), "outputs": outputs},
        Path("/p"),
        {},
    )
    ensure_topics(project, 30)
    page = ProjectPage(project.bootstrap, Shown("positions", "alerts"), 0, project.security)
    page.start()
    brokers = open_brokers(project.connection, "test", 30)
    producer = Producer(brokers)
    producer.add(("positions", 1), (b"truck-1", b'{"latitude": 1}', (), 1))
    producer.flush()

    found = cluster.wait_for(lambda: (told := ask(page, "latest"))["positions"] and told, 60)

    assert found == {
        "number": 1,
        "positions": {"truck-1": {"latitude": 1}},
        "alerts": [],
        "trouble": None,
    }
    page.stop()
    brokers.close()


def test_strangers_are_told_and_the_page_goes_on(secured: tuple[Cluster, Path]) -> None:
    cluster, _ = secured
    page = ProjectPage(cluster.bootstrap_servers, Shown("positions"), 0)
    page.start()

    assert "positions: " in cluster.wait_for(lambda: ask(page, "latest")["trouble"], 60)
    page.stop()
    brokers = open_brokers(connection(cluster.bootstrap_servers, None), "test", 1)
    with pytest.raises(PipelineError, match="nobody answered"):
        brokers.topics(["positions"])
    brokers.close()


def test_a_wrong_password_is_told_and_shows_nothing(
    secured: tuple[Cluster, Path], tmp_path: Path
) -> None:
    cluster, file = secured
    text = file.read_text()
    if "SCRAM" not in text:  # a certificate has no password
        return
    wrong = written(tmp_path, text.replace(f'password="{PASSWORD}"', f'password="{SECRET}"'))

    brokers = open_brokers(connection(cluster.bootstrap_servers, wrong), "test", 1)
    with pytest.raises(
        PipelineError, match="invalid credentials with SASL mechanism SCRAM-SHA-256"
    ) as refused:
        brokers.topics(["positions"])
    brokers.close()
    assert SECRET not in str(refused.value)
