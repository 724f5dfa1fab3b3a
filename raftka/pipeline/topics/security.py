"""Logins of jobs at a secured cluster: Kafka's client properties, as options or in a file that one
option names. Knows no connection.

Spark prints options with its plans, in errors and logs. A file keeps secrets out of these: they
have its path.
"""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path

from raftka.pipeline.errors import OptionRefused
from raftka.properties_file import parse_properties
from raftka.runtime.real.files import lend
from raftka.security.client_security import ClientSecurity, client_security
from raftka.security.tls_context import StoreFiles, client_context, read_material

FILE = "client.config"
FILE_OPTION = f"kafka.{FILE}"
LARGEST_FILE = 1 << 20  # bytes
FAMILIES = ("security.", "ssl.", "sasl.")
STORE = ("location", "password", "type")
NAMES = {  # of Kafka's clients; some are of Java, and have no meaning here
    *("security.protocol", "security.providers"),
    *(f"ssl.{store}.{name}" for store in ("keystore", "truststore") for name in STORE),
    *(
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        "ssl.key.password",
    ),
    *(
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
    ),
    *(
        "ssl.protocol",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
    ),
    *(
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.username",
        "sasl.password",
        "sasl.token.mechanism",
    ),
    *(
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
    ),
}
# settings of logins: those that clients here know, and of Java's
PREFIXES = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")
CLASSES = (
    "ssl.engine.factory.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
)


def security_of(kafka: Mapping[str, str]) -> ClientSecurity:
    """`kafka`: options without `kafka.` before them; they are stronger than the file's. Files of
    keys must be there on every machine of Spark.

    Raises OptionRefused, without any secret in its text.
    """
    given = {name: value for name, value in kafka.items() if name.startswith(FAMILIES)}
    file = kafka.get(FILE)
    properties = {**({} if file is None else read_client_config(Path(file))), **given}
    where = "" if file is None else f" ({file})"
    _check_names(properties, where)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    for family, sign in (("ssl.", "SSL"), ("sasl.", "SASL")):
        if sign not in protocol and (unused := [name for name in given if name.startswith(family)]):
            raise OptionRefused(
                f"kafka.{unused[0]} has no meaning with kafka.security.protocol={protocol}: bytes "
                "would travel in the open"
            )
    try:
        return client_security(properties)
    except ValueError as error:
        raise OptionRefused(f"kafka.{error}{where}") from None


def read_client_config(path: Path) -> dict[str, str]:
    """The properties of security in a file as Kafka's tools take it, or in JSON where its name says
    so. Raises OptionRefused, without a secret.
    """
    try:
        with path.open("rb") as opened:
            data = opened.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise OptionRefused(
                f"{FILE_OPTION}: {path} has more than {LARGEST_FILE} bytes: that is no file of "
                "client properties"
            )
        text = data.decode()
        found = json.loads(text) if path.suffix == ".json" else parse_properties(text)
    except OSError as error:
        raise OptionRefused(f"{FILE_OPTION}: {path} cannot be read: {error.strerror}") from None
    except ValueError:  # its own text may show what stands in the file
        raise OptionRefused(f"{FILE_OPTION}: {path} is not in UTF-8, or no JSON") from None
    if not isinstance(found, dict):
        raise OptionRefused(f"{FILE_OPTION}: {path} has no names and values")
    return {
        str(name): str(value) for name, value in found.items() if str(name).startswith(FAMILIES)
    }


def check_stores(security: ClientSecurity) -> None:
    """Raises OptionRefused for keys and certificates that cannot be read: a connection would fail
    with them, again and again.
    """
    if security.uses_tls:
        files = StoreFiles(lambda path: Path(path).read_bytes(), lend)
        try:
            client_context(security.tls, read_material(security.tls, files), files)
        except ValueError as error:
            raise OptionRefused(f"TLS cannot work: {error}") from None


def _check_names(properties: Mapping[str, str], where: str) -> None:
    for name in properties:
        if name not in NAMES and not name.startswith(PREFIXES):
            near = difflib.get_close_matches(name, NAMES, 1)
            raise OptionRefused(
                f"Kafka's clients have no property {name}{where}"
                + (f": is it {near[0]}?" if near else "")
            )
    for name in CLASSES:
        if properties.get(name, "org.apache.kafka.").strip().startswith("org.apache.kafka."):
            continue
        raise OptionRefused(
            f"kafka.{name}{where} names a class of Java, and none runs here: leave it out, and "
            "give the login by sasl.jaas.config"
        )
