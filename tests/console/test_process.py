"""The order of a door, as the console's process understands it."""

from pathlib import Path

import pytest

from raftka.console.process import settings_of
from raftka.json_values import JsonObject
from raftka.sql.server.launch import Wanted

ORDER: JsonObject = {
    "bootstrap": [["here", 9092], ["there", 9093]],
    "properties": {"security.protocol": "PLAINTEXT"},
    "login": "",
    "host": "127.0.0.1",
    "port": 8080,
    "certificate": None,
    "key": None,
    "registry": "",
    "registry_login": None,
    "registry_ca": None,
    "read_only": False,
    "show_records": True,
    "masked": ["card"],
    "allowed_hosts": ["kafka.example.org"],
    "sql": False,
}
OWN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="operator" password="secret";',
}


def test_order_becomes_settings() -> None:
    settings = settings_of(ORDER, None)
    assert settings.bootstrap == [("here", 9092), ("there", 9093)]
    assert (settings.login, settings.read_only, settings.show_records) == ("", False, True)
    assert settings.masked == ["card"]
    assert settings.allowed_hosts == ["kafka.example.org"]
    assert settings.tls is None
    assert settings.control is None
    assert settings.sql is None
    with_sql = settings_of({**ORDER, "sql": True}, None).sql
    assert with_sql is not None
    assert with_sql.wanted == Wanted("here:9092,there:9093")


def test_servers_of_the_file_go_before_those_of_the_node() -> None:
    properties = {"bootstrap.servers": "far:9094"}
    settings = settings_of({**ORDER, "properties": properties, "bootstrap": []}, None)
    assert settings.bootstrap == [("far", 9094)]


def test_password_of_the_file_is_not_for_users_who_log_in() -> None:
    shared = settings_of({**ORDER, "properties": OWN}, None).security
    assert (shared.user, shared.password) == ("operator", "secret")
    own = settings_of({**ORDER, "properties": OWN, "login": "PLAIN"}, None).security
    assert own.security_protocol == "SASL_PLAINTEXT"
    assert own.mechanism == "PLAIN"
    assert (own.user, own.password) == ("", "")


def test_files_and_properties_of_no_use_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        settings_of({**ORDER, "certificate": str(tmp_path / "none")}, None)
    with pytest.raises(ValueError, match=r"security\.protocol must be"):
        settings_of({**ORDER, "properties": {"security.protocol": "TELEPATHY"}}, None)
