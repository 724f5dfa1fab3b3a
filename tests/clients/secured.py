"""A secured cluster as real clients see it: the options of each client, and each client as a
process that produces lines or prints records.
"""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from raftka.cluster.secured.keys import ClientFiles
from raftka.testing import Cluster
from tests.clients.workload import PATIENCE_S, wait
from tests.kit.toolchains import Program
from tests.security.issuer import AUDIENCE, ISSUER

USER, PASSWORD = "alice", "alice-secret"
NODE = 'username="node" password="node-secret" user_node="node-secret"'
PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
OURS = "listener.name.ssl.oauthbearer.sasl.oauthbearer."
LOGINS = {
    "listener.security.protocol.map": "SSL:SASL_SSL,CONTROLLER:SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.ssl.plain.sasl.jaas.config": (
        f'{PLAIN} required {NODE} user_{USER}="{PASSWORD}";'
    ),
    "super.users": f"User:node;User:{USER};User:admin",
}
LIBRDKAFKA = {"kcat", "confluent-kafka"}
IN_PYTHON = {"kafka-python", "confluent-kafka", "aiokafka"}
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka", "java", "kcat", "franz-go", "kafkajs")


def with_tokens(keys: Path) -> dict[str, str]:
    """LOGINS, and the tokens of an issuer whose keys are in that file."""
    issuer = {
        "jwks.endpoint.url": keys.as_uri(),
        "expected.audience": AUDIENCE,
        "expected.issuer": ISSUER,
    }
    mechanisms = LOGINS["sasl.enabled.mechanisms"] + ",OAUTHBEARER"
    return {
        **LOGINS,
        "sasl.enabled.mechanisms": mechanisms,
        **{OURS + name: value for name, value in issuer.items()},
    }


def add_scram_user(cluster: Cluster) -> None:
    """USER with both of SCRAM's mechanisms."""
    admin = AdminClient(Secured(cluster, cluster.client_files(), "PLAIN").librdkafka())
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
        )
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(30)


@dataclass(frozen=True)
class Secured:
    """A cluster, and how a client comes in: `way` is a mechanism, or a certificate."""

    cluster: Cluster
    files: ClientFiles
    way: str
    password: str = PASSWORD
    tokens: str = ""  # the URL of an endpoint that gives them

    @property
    def mechanism(self) -> str | None:
        return None if self.way == "certificate" else self.way

    def librdkafka(self) -> dict[str, str]:
        login = {"security.protocol": "sasl_ssl", "sasl.mechanism": self.way}
        if self.tokens:
            client = {"client.id": USER, "client.secret": "any", "token.endpoint.url": self.tokens}
            login |= {
                "sasl.oauthbearer.method": "oidc",
                **{f"sasl.oauthbearer.{name}": value for name, value in client.items()},
            }
        else:
            login |= {"sasl.username": USER, "sasl.password": self.password}
        options = (
            self.files.librdkafka()
            if self.mechanism is None
            else {"ssl.ca.location": str(self.files.authority), **login}
        )
        return {"bootstrap.servers": self.cluster.bootstrap_servers, **options}

    def python(self) -> dict[str, Any]:
        login = {"security_protocol": "SASL_SSL", "sasl_mechanism": self.way}
        login |= (
            {"tokens": self.tokens}
            if self.tokens
            else {"sasl_plain_username": USER, "sasl_plain_password": self.password}
        )
        options = (
            self.files.kafka_python()
            if self.mechanism is None
            else {"ssl_cafile": str(self.files.authority), **login}
        )
        return {"bootstrap_servers": self.cluster.bootstrap_servers.split(","), **options}

    def aiokafka(self) -> dict[str, Any]:
        options = self.python()
        context = ssl.create_default_context(cafile=options.pop("ssl_cafile"))
        if self.mechanism is None:
            context.load_cert_chain(options.pop("ssl_certfile"), options.pop("ssl_keyfile"))
        return {
            **options,
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "ssl_context": context,
        }

    def java(self) -> dict[str, str]:
        """Client properties."""
        if self.mechanism is None:
            return self.files.java()
        module = PLAIN if self.way == "PLAIN" else f"{PACKAGE}.scram.ScramLoginModule"
        login = f'username="{USER}" password="{self.password}"'
        oauth = {}
        if self.tokens:
            module = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule"
            login = f'clientId="{USER}" clientSecret="any"'
            handler = f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
            oauth = {
                "sasl.login.callback.handler.class": handler,
                "sasl.oauthbearer.token.endpoint.url": self.tokens,
            }
        trusted = {name: value for name, value in self.files.java().items() if "truststore" in name}
        return {
            "security.protocol": "SASL_SSL",
            **trusted,
            "sasl.mechanism": self.way,
            "sasl.jaas.config": f"{module} required {login};",
            **oauth,
        }

    def program(self, program: Program) -> dict[str, str]:
        """The environment of a client that is a program."""
        given = {"ca": str(self.files.authority)}
        if self.mechanism is None:
            given |= {"certificate": str(self.files.certificate), "key": str(self.files.key)}
        else:
            given |= {
                "mechanism": self.way,
                "username": USER,
                "password": self.password,
                "tokens": self.tokens,
            }
        return {**program.env, "CLIENT_SECURITY": json.dumps(given)}

    def properties(self) -> str:
        """As `java`, as text."""
        return "".join(f"{name}={value}\n" for name, value in self.java().items())


class Reachable(Protocol):
    """A cluster, and the options with which each client comes in."""

    @property
    def cluster(self) -> Cluster: ...

    def librdkafka(self) -> dict[str, str]: ...

    def python(self) -> dict[str, Any]: ...

    def program(self, program: Program) -> dict[str, str]: ...

    def properties(self) -> str: ...


@dataclass
class Clients:
    """All of them as programs. `find`: that of a client that is no Python package, or the test
    skips.
    """

    folder: Path
    find: Callable[[str], Program]
    started: int = field(default=0, init=False)

    @contextmanager
    def start(
        self, client: str, verb: str, secured: Reachable, topic: str, patience_s: int = 100
    ) -> Iterator["Lines"]:
        """`verb`: `produce` takes lines `key:value` until its input ends, `follow` prints such
        lines for ever. `patience_s`: how long it tries again, where its own default is longer. kcat
        takes its input in blocks, so it writes when its input ends.
        """
        command, env = self._command(client, verb, secured, topic, patience_s)
        env = {**env, "CLIENT_PATIENCE_S": str(patience_s)}
        self.started += 1
        out, err = (
            self.folder / f"{client}-{verb}-{self.started}.{stream}" for stream in ("out", "err")
        )
        with out.open("wb") as printed, err.open("wb") as said:
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=printed, stderr=said, bufsize=0
            )
        try:
            yield Lines(process, out, err)
        finally:
            process.kill()
            process.communicate()

    def _command(
        self, client: str, verb: str, secured: Reachable, topic: str, patience_s: int
    ) -> tuple[list[str], Mapping[str, str]]:
        arguments = [verb, secured.cluster.bootstrap_servers, topic]
        if client in IN_PYTHON:
            options = secured.librdkafka() if client in LIBRDKAFKA else secured.python()
            command = [sys.executable, "-m", "tests.clients.python_client", client, *arguments]
            return command, {**os.environ, "CLIENT_OPTIONS": json.dumps(options)}
        program = self.find(client)
        if client == "java":
            return [*program.command, *arguments], {
                **program.env,
                "CLIENT_PROPERTIES": secured.properties(),
            }
        if client == "kcat":
            options = {
                **secured.librdkafka(),
                **({"message.timeout.ms": f"{patience_s}000"} if verb == "produce" else {}),
            }
            given = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
            doing = (
                ["-P", "-K:"]
                if verb == "produce"
                else ["-C", "-E", "-o", "beginning", "-q", "-u", "-f", "%k:%s\n"]
            )
            return [*program.command, *given, "-t", topic, *doing], program.env
        return [*program.command, *arguments, "1"], secured.program(program)


@dataclass(frozen=True)
class Lines:
    """A client at work."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def write(self, value: int) -> None:
        """A record, whose key is the value too. That it has ended shows elsewhere."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"%d:%d\n" % (value, value))

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> None:
        """No more lines come; it ends well when all are acknowledged."""
        self.end_input()
        assert self.process.wait(PATIENCE_S) == 0, self.said()

    def values(self) -> list[int]:
        """Of the records that it has printed; it must run."""
        assert self.is_running(), self.said()
        lines = self.out.read_text().split("\n")[:-1]
        return [int(line.partition(":")[2]) for line in lines]

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for(self, values: list[int]) -> None:
        """Until it has printed these, in this order, and no others; some perhaps twice: a member
        that joins its group again has not committed all that it has read.
        """

        def printed() -> list[int]:
            return list(dict.fromkeys(self.values()))

        wait(lambda: len(printed()) >= len(values), lambda: f"{self.values()}\n{self.said()}")
        assert printed() == values

    def wait_for_failure(self) -> str:
        """Until it has ended with an error; the words of it."""
        wait(lambda: not self.is_running(), self.said)
        assert self.process.returncode != 0
        return self.said()

    def said(self) -> str:
        return self.out.read_text()[-2000:] + self.err.read_text()[-8000:]
