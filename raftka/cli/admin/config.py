"""`raftka config show`: every setting of a node with its value and where that comes from, of a file
before it is started or of a broker that runs. `raftka config from-env`: what the environment gives.
"""

import sys
from pathlib import Path

from raftka.cli.output import CommandFailed, command, show
from raftka.json_values import JsonObject

COLUMNS = ["setting", "value", "source"]
FILE_SOURCES = {4: "file", 5: "default"}


@command
def show_all(
    file: Path | None, broker: int | None, given: bool, bootstrap_server: str, output: str
) -> None:
    if file is not None and broker is not None:
        raise CommandFailed("a file or a running broker, not both")
    rows = _of_file(file) if file is not None else _of_broker(broker, bootstrap_server)
    wanted = [row for row in rows if not given or row["source"] != "default"]
    show([{name: row[name] for name in COLUMNS} for row in wanted], COLUMNS, output)


@command
def print_environment(file: str | None, show_secrets: bool, output: str) -> None:
    from raftka.cluster.environment import node_properties
    from raftka.cluster.properties import render
    from raftka.metadata.configs.environment import is_secret
    from raftka.metadata.configs.settings import NodeSettings

    try:
        properties, notices = node_properties(file)
        NodeSettings.from_properties(properties)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    for notice in notices:
        print(f"raftka: {notice}", file=sys.stderr)
    shown = {
        name: value if show_secrets or not is_secret(name) else "(hidden)"
        for name, value in sorted(properties.items())
    }
    if output == "json":
        show([{"setting": name, "value": value} for name, value in shown.items()], [], output)
    else:
        print(render(shown, "From the environment: raftka config from-env"), end="")


def _of_file(file: Path) -> list[JsonObject]:
    from raftka.cluster.properties import parse
    from raftka.metadata.configs.describe import describe_broker
    from raftka.metadata.configs.settings import NodeSettings
    from raftka.metadata.image import MetadataImage

    try:
        settings = NodeSettings.from_properties(parse(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from None
    unused = set(settings.unused)
    return [
        {
            "setting": each.name,
            "value": "(hidden)" if each.is_sensitive else each.value,
            "source": FILE_SOURCES.get(each.source, str(each.source))
            + (", not used" if each.name in unused else ""),
        }
        for each in describe_broker(settings, MetadataImage())
    ]


def _of_broker(broker: int | None, bootstrap_server: str) -> list[JsonObject]:
    from raftka.cli.admin.client import connect
    from raftka.cli.admin.configs import described

    with connect(bootstrap_server) as client:
        for each in sorted(client.brokers) if broker is None else [broker]:
            rows, silent = described(client, "broker", [str(each)], everything=True)
            if rows:
                return rows
        raise CommandFailed("; ".join(silent) or "no broker has answered")
