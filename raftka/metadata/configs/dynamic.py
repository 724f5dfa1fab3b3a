"""Settings that can change on a broker, or on all brokers, while they run, and when. Knows names
and values, and no code that uses them.
"""

import re
from collections.abc import Iterable, Mapping

from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.prefixes import OF_ALL_LISTENERS, ONLY_OF_FILE, split_prefix
from raftka.metadata.configs.values import Setting, SettingError

ONLY_OF_LISTENER = re.compile(
    r"ssl\.(key\.password|(key|trust)store\.(type|location|"
    r"password|key|certificate\.chain|certificates))"
)
ONLY_OF_ONE_BROKER = re.compile(
    r"ssl\..*|sasl\..*|principal\.builder\.class|"
    r"cordoned\.log\.dirs|listeners|listener\.security\.protocol\.map"
)
# Kafka opens and closes listeners at run time
NOT_HERE = frozenset({"listeners", "listener.security.protocol.map"})


def dynamic_setting(name: str) -> Setting | None:
    """A broker's setting by a name that may have its listener in front. None: nobody's, a plugin's
    perhaps, which Kafka takes and never shows.
    """
    prefixed = split_prefix(name)
    return BROKER_SETTINGS.get(prefixed.setting if prefixed else name)


def check_dynamic_configs(configs: Mapping[str, str], *, one_broker: bool) -> None:
    """Raises SettingError."""
    _none(
        "Cannot update these configs dynamically",
        (name for name in configs if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].dynamic),
    )
    _none("Cannot update these configs dynamically", filter(_only_of_file, configs))
    only = (
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix"
    )
    _none(only, filter(ONLY_OF_LISTENER.fullmatch, configs))
    if not one_broker:
        _none(
            "Cannot update these configs at default cluster level, broker id must be specified",
            filter(_of_one_broker, configs),
        )
    _none(
        "Listeners are opened and closed with the node, not while it runs",
        (name for name in configs if name in NOT_HERE),
    )
    for name, text in configs.items():
        setting = dynamic_setting(name)
        if setting is not None:
            setting.parse(text)
    check_addresses(configs)


def check_places(names: Iterable[str]) -> None:
    """Raise SettingError for a setting of a broker with a prefix that it cannot have: nothing would
    look it up. Kafka takes it, and drops it.
    """
    _none("These settings are not looked up with that prefix", filter(_misplaced, names))


def check_addresses(configs: Mapping[str, str]) -> None:
    """Raise SettingError for limits under which no client could connect: not even an administrator
    could take them back.
    """
    if configs.get("max.connections.per.ip", "").strip() == "0" and not configs.get(
        "max.connections.per.ip.overrides"
    ):
        raise SettingError(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )


def _only_of_file(name: str) -> bool:
    prefixed = split_prefix(name)
    return prefixed is not None and prefixed.setting in ONLY_OF_FILE


def _misplaced(name: str) -> bool:
    prefixed = split_prefix(name)
    return (
        prefixed is not None and prefixed.setting in BROKER_SETTINGS and not prefixed.is_looked_up
    )


def _of_one_broker(name: str) -> bool:
    prefixed = split_prefix(name)
    return (
        prefixed.setting not in OF_ALL_LISTENERS
        if prefixed
        else ONLY_OF_ONE_BROKER.fullmatch(name) is not None
    )


def _none(wrong: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        raise SettingError(f"{wrong}: [{', '.join(found)}]")
