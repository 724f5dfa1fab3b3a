"""`raftka features`: levels of features, through Kafka's protocol alone. docs/versions.md says what
a level of raftka.version allows.
"""

from collections.abc import Mapping
from typing import NamedTuple

from raftka import __version__
from raftka.cli.admin.client import TIMEOUT_MS, connect
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import Client, check
from raftka.client.connection import SOFTWARE_VERSION
from raftka.versions import LEVELS, METADATA_VERSION, RAFTKA_VERSION
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.quorum import UPDATE_FEATURES
from raftka.wire.software import SOFTWARE_NAME

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # as UpdateFeatures has them
HIGHEST_LEVEL = 2**15 - 1  # that UpdateFeatures can name
COLUMNS = ["feature", "level", "lowest", "highest"]


class Feature(NamedTuple):
    level: int  # finalized; 0: not
    lowest: int  # that the broker which was asked supports
    highest: int


def read_features(client: Client) -> dict[str, Feature]:
    """Nothing from brokers older than Kafka 2.4."""
    answer = client.ask(
        API_VERSIONS,
        API_VERSIONS.request(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        ),
    )
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return {
        each.name: Feature(levels.get(each.name, 0), each.min_version, each.max_version)
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    }


@command
def describe(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        rows = [{"feature": name, **each._asdict()} for name, each in read_features(client).items()]
    show(rows, COLUMNS, output)


@command
def upgrade(
    release: str | None,
    levels: Mapping[str, str],
    dry_run: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    """Without a release and levels: all that the cluster's nodes support."""
    with connect(bootstrap_server) as client:
        known = read_features(client)
        wanted = {name: _level(name, text) for name, text in levels.items()}
        if release is not None:
            wanted = _levels_of(release) | wanted
        elif not wanted:
            wanted = {name: each.highest for name, each in known.items()}
        changed = {
            name: level
            for name, level in wanted.items()
            if name not in known or known[name].level != level
        }
        _update(client, known, changed, UPGRADE, dry_run, output)


@command
def downgrade(
    levels: Mapping[str, str], unsafe: bool, dry_run: bool, bootstrap_server: str, output: str
) -> None:
    wanted = {name: _level(name, text) for name, text in levels.items()}
    with connect(bootstrap_server) as client:
        kind = UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
        _update(client, read_features(client), wanted, kind, dry_run, output)


def _level(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > HIGHEST_LEVEL:
        raise CommandFailed(
            f"--feature {name}={text}: a level is a number up to {HIGHEST_LEVEL}, 0 disables a "
            "feature"
        )
    return int(text)


def _levels_of(release: str) -> dict[str, int]:
    """The levels of a release of raftka: those that it was the first to know, or that were the
    highest when it came.
    """
    known = [level for level in LEVELS if _number(level.release) <= _number(release)]
    if not known or _number(release) > _number(__version__):
        raise CommandFailed(
            f"--release-version {release}: this release knows the levels of {LEVELS[0].release} "
            f"to {__version__}"
        )
    return {
        RAFTKA_VERSION: known[-1].number,
        METADATA_VERSION: known[-1].metadata_version,
    }


def _number(release: str) -> tuple[int, ...]:
    try:
        return tuple([int(part) for part in release.split(".")])
    except ValueError:
        raise CommandFailed(
            f"--release-version {release}: a release of raftka, such as {LEVELS[-1].release}"
        ) from None


def _update(
    client: Client,
    known: Mapping[str, Feature],
    levels: Mapping[str, int],
    upgrade_type: int,
    dry_run: bool,
    output: str,
) -> None:
    """All levels change, or none. Raises CommandFailed, KafkaError."""
    if levels:
        update = UPDATE_FEATURES.request.feature_updates
        rows = [
            update(feature=name, max_version_level=level, upgrade_type=upgrade_type)
            for name, level in levels.items()
        ]
        answer = client.ask_controller(
            UPDATE_FEATURES,
            UPDATE_FEATURES.request(
                feature_updates=rows, validate_only=dry_run, timeout_ms=TIMEOUT_MS
            ),
        )
        check(answer.error_code, answer.error_message)
    before = {name: known[name].level if name in known else 0 for name in levels}
    changed = "would be" if dry_run else "yes"
    shown = [
        {
            "feature": name,
            "before": before[name],
            "level": level,
            "changed": "no" if level == before[name] else changed,
        }
        for name, level in levels.items()
    ]
    if not shown and output == "text":
        print("all features have these levels already")
    show(shown, ["feature", "before", "level", "changed"], output)
