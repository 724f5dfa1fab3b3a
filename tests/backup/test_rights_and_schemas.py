"""Rights, users, quotas, settings and schemas are in a backup, and in the cluster made of it."""

import json
from pathlib import Path
from urllib.request import Request, urlopen

from click.testing import CliRunner

from raftka.backup.create import create
from raftka.backup.drill import drill, rehearsal
from raftka.backup.places import Folder
from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.cluster.processes import running
from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.registry.server import CLIENT_ID, Port, RegistryServer
from raftka.runtime.real.files import RealFiles

FILES = RealFiles(lambda done: done())
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
SCHEMA = {"schema": '{"type": "record", "name": "R", "fields": []}'}
COMMANDS = (
    "topics create orders -p 2 -c retention.ms=86400000",
    "acls create --topic orders --principal User:eve --operation read",
    "users set eve --password-file FILE",
    "quotas set producer_byte_rate=1000 --user eve",
)


def registry_on(client: Client) -> RegistryServer:
    brokers = list(client.brokers.values())
    return RegistryServer(lambda: Client(brokers, CLIENT_ID), Port(number=0))


def called(url: str, body: object = None) -> dict[str, object]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
    with urlopen(request, timeout=20) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def test_rights_and_schemas_are_restored(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    place = Folder(FILES, str(tmp_path / "place"))
    with running(1, SETTINGS) as cluster, Client(cluster.addresses) as client:
        for line in COMMANDS:
            words = line.replace("FILE", str(tmp_path / "password")).split()
            result = CliRunner().invoke(root, [*words, "-b", cluster.bootstrap_servers])
            assert result.exit_code == 0, result.output
        client.refresh([])
        with registry_on(client) as registry:
            made = called(f"{registry.url}/subjects/orders-value/versions", SCHEMA)
        backup = create(client, place, FILES)

    assert drill(place, backup.manifest, FILES, nodes=1).differing == []
    with rehearsal(place, backup.manifest, FILES, nodes=1) as (client, _):
        client.refresh([])
        with registry_on(client) as registry:
            found = called(f"{registry.url}/schemas/ids/{made['id']}")
            assert json.loads(str(found["schema"])) == json.loads(SCHEMA["schema"])
        servers = ",".join(f"{host}:{port}" for host, port in client.brokers.values())
        for line, text in (
            ("quotas list", "producer_byte_rate"),
            ("users list", "eve"),
            ("configs describe topic orders", "86400000"),
        ):
            result = CliRunner().invoke(root, [*line.split(), "-b", servers])
            assert text in result.output
