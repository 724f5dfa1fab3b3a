"""Settings in the environment, for containers: every property as `KAFKA_*`, as Apache Kafka's image
takes them, and as `KAFKA_CFG_*`, as Bitnami's image did. Reads nothing but what it is given.

The name of a property becomes that of a variable: `.` is `_`, `_` is `__`, `-` is `___`, in upper
case, behind the prefix. What the images take beside properties is translated, passed over with a
notice where it means nothing here, or refused with what to do instead. An unknown name is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.container_defaults import fill_in_defaults
from raftka.metadata.configs.prefixes import LISTENER, split_prefix
from raftka.metadata.configs.starting_topics import translate_image_topics
from raftka.metadata.configs.values import SettingError

KAFKA, BITNAMI = "KAFKA_", "KAFKA_CFG_"
FROM_FILE = "_FILE"  # at the end of a name: the value is in that file
MOST_NAMED = 20  # faults in one message
SECRETS = "/etc/kafka/secrets"  # where Apache's image has keys and the files with their passwords
PASSED_OVER = {
    **dict.fromkeys(
        (
            "KAFKA_GC_LOG_OPTS",
            "KAFKA_HEAP_OPT",
            "KAFKA_HEAP_OPTS",
            "KAFKA_JVM_PERFORMANCE_OPTS",
            "KAFKA_OPTS",
        ),
        "there is no JVM",
    ),
    **dict.fromkeys(
        (
            "KAFKA_LOG4J_LOGGERS",
            "KAFKA_LOG4J_OPTS",
            "KAFKA_LOG4J_ROOT_LOGLEVEL",
            "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        ),
        "there is no log4j; KAFKA_RAFTKA_LOG_LEVEL sets the level of the log",
    ),
    **dict.fromkeys(
        ("KAFKA_JMX_HOSTNAME", "KAFKA_JMX_OPTS", "KAFKA_JMX_PORT"),
        "there is no JMX; KAFKA_METRICS_PORT has the metrics for Prometheus",
    ),
    **dict.fromkeys(("KAFKA_ENABLE_KRAFT", "KAFKA_KRAFT_MODE"), "there is nothing but KRaft"),
    **dict.fromkeys(
        ("KAFKA_SKIP_KRAFT_STORAGE_INIT", "KAFKA_SKIP_STORAGE_FORMAT"),
        "directories need no formatting",
    ),
    **dict.fromkeys(
        ("KAFKA_INTER_BROKER_PROTOCOL_VERSION", "KAFKA_LOG_MESSAGE_FORMAT_VERSION"),
        "Kafka 4 has removed that setting",
    ),
    **dict.fromkeys(
        ("KAFKA_BASE_DIR", "KAFKA_CONF_DIR", "KAFKA_HOME", "KAFKA_VOLUME_DIR"),
        "there is no such directory here",
    ),
    "ALLOW_PLAINTEXT_LISTENER": "listeners without TLS need no permission",
    "BITNAMI_DEBUG": "KAFKA_RAFTKA_LOG_LEVEL sets the level of the log",
    "KAFKA_CLIENT_LISTENER_NAME": "it was for the image's own clients",
    "KAFKA_VERSION": "the version is raftka's",
}
PASSED_OVER_PREFIXES = {
    "KAFKA_CONFLUENT_": "it is a setting of Confluent's server",
    "KAFKA_LOG4J_": "there is no log4j; KAFKA_RAFTKA_LOG_LEVEL sets the level of the log",
}
# of a Kubernetes service or a Docker link that is called kafka, or kafka-something
OF_SERVICE = re.compile(
    r"KAFKA_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_(ADDR|PORT|PROTO))?)"
)
NO_ZOOKEEPER = (
    "there is no ZooKeeper: take out the variable and ZooKeeper's container. One node needs "
    "nothing in its place, several need KAFKA_NODE_ID, KAFKA_PROCESS_ROLES and "
    "KAFKA_CONTROLLER_QUORUM_VOTERS"
)
JAAS_FILE = (
    "JAAS files are not read: give the logins of a listener as "
    "KAFKA_LISTENER_NAME_<LISTENER>_<MECHANISM>_SASL_JAAS_CONFIG"
)
OF_BITNAMI_LOGINS = (
    "the image made the logins of a listener from it: give them as "
    "KAFKA_CFG_LISTENER_NAME_<LISTENER>_PLAIN_SASL_JAAS_CONFIG, or SCRAM users by --add-scram"
)
OF_BITNAMI_TLS = (
    "the image found its keys from it: give KAFKA_CFG_SSL_KEYSTORE_LOCATION, "
    "KAFKA_CFG_SSL_TRUSTSTORE_LOCATION, their passwords and KAFKA_CFG_SSL_CLIENT_AUTH"
)
ADVERTISED = "Kafka 3 has removed that setting: give KAFKA_ADVERTISED_LISTENERS"
REFUSED = {
    **dict.fromkeys(
        (
            "KAFKA_CLIENT_PASSWORDS",
            "KAFKA_CLIENT_USERS",
            "KAFKA_CONTROLLER_PASSWORD",
            "KAFKA_CONTROLLER_USER",
            "KAFKA_INTER_BROKER_PASSWORD",
            "KAFKA_INTER_BROKER_USER",
        ),
        OF_BITNAMI_LOGINS,
    ),
    **dict.fromkeys(
        (
            "KAFKA_CERTIFICATE_PASSWORD",
            "KAFKA_TLS_CLIENT_AUTH",
            "KAFKA_TLS_TRUSTSTORE_FILE",
            "KAFKA_TLS_TYPE",
        ),
        OF_BITNAMI_TLS,
    ),
    **dict.fromkeys(
        ("KAFKA_ADVERTISED_HOST_NAME", "KAFKA_ADVERTISED_PORT", "KAFKA_HOST_NAME", "KAFKA_PORT"),
        ADVERTISED,
    ),
    "KAFKA_MOUNTED_CONF_DIR": "name the properties file behind --from-env",
    "KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS": "give the first users by --add-scram",
}
CLUSTER_IDS = ("CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
CREATE_TOPICS, SEPARATOR = "KAFKA_CREATE_TOPICS", "KAFKA_CREATE_TOPICS_SEPARATOR"
INITIAL_CONTROLLERS = ("KAFKA_CONTROLLER_QUORUM_INITIAL_CONTROLLERS", "KAFKA_INITIAL_CONTROLLERS")
# of Apache's image: names of files in SECRETS, and the properties that they become. True: the
# value is in the file
IN_SECRETS = {
    "KAFKA_SSL_KEYSTORE_FILENAME": ("ssl.keystore.location", False),
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": ("ssl.keystore.password", True),
    "KAFKA_SSL_KEY_CREDENTIALS": ("ssl.key.password", True),
    "KAFKA_SSL_TRUSTSTORE_FILENAME": ("ssl.truststore.location", False),
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": ("ssl.truststore.password", True),
}

ReadFile = Callable[[str], str]  # the text of a file; raises OSError or UnicodeError


class FromEnvironment(NamedTuple):
    properties: dict[str, str]
    notices: tuple[str, ...]  # what was passed over, a sentence each


class Given(NamedTuple):
    """A property, and the variable that has it."""

    variable: str
    name: str
    value: str


def read_environment(
    environment: Mapping[str, str], below: Mapping[str, str], read_file: ReadFile
) -> FromEnvironment:
    """Return the properties that a node is to start with: those of the environment, then those of
    `below` (a file), then what a container needs and nobody has given. Raises SettingError with
    the variables that are refused, MOST_NAMED at most.
    """
    properties, notices = read_variables(environment, read_file)
    return FromEnvironment(fill_in_defaults(properties, below), notices)


def read_variables(environment: Mapping[str, str], read_file: ReadFile) -> FromEnvironment:
    """Return the properties of the environment alone. Raises SettingError, as above."""
    given: dict[str, Given] = {}
    notices: list[str] = []
    faults: list[str] = []
    for variable in sorted(environment):
        try:
            notice = _notice(variable, environment)
            if notice is not None:
                notices.append(f"{variable} is passed over: {notice}")
                continue
            for each in _read(variable, environment, read_file):
                before = given.setdefault(each.name, each)
                if before.value != each.value:
                    faults.append(
                        f"{before.variable} and {each.variable} are both {each.name}, and differ"
                    )
        except SettingError as error:
            faults.append(f"{variable}: {error}")
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
            file = environment[variable] or "the empty path"
            faults.append(f"{variable}: {file} cannot be read: {reason}")
    if faults:
        more = [f"and {len(faults) - MOST_NAMED} more"] if len(faults) > MOST_NAMED else []
        raise SettingError("; ".join([*faults[:MOST_NAMED], *more]))
    properties = {each.name: each.value for each in given.values()}
    return FromEnvironment(properties, tuple(notices))


def property_of(variable: str) -> str:
    """Return the name of the property that a variable sets, by the rule of the image whose prefix
    it has.
    """
    is_bitnami = variable.startswith(BITNAMI)
    name = variable.removeprefix(BITNAMI if is_bitnami else KAFKA).lower()
    name = name.replace("_", ".").replace("...", "-").replace("..", "_")
    if is_bitnami:  # which has no `__`, and names of listeners such as SASL_SSL
        name = name.replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext")
    return name


def variable_of(name: str) -> str:
    """Return the variable of a property, as Apache's image has it."""
    return KAFKA + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def is_secret(name: str) -> bool:
    """Return whether a property may hold a password; an unknown one may."""
    prefixed = split_prefix(name) if name.startswith(LISTENER) else None
    setting = BROKER_SETTINGS.get(name if prefixed is None else prefixed.setting)
    return setting is None or setting.sensitive


def _notice(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return why a variable is passed over; None where it is not, or is of something else."""
    if variable in ("KAFKA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS") and (
        "java.security.auth.login.config" in environment[variable]
    ):
        raise SettingError(JAAS_FILE)
    if variable in PASSED_OVER:
        return PASSED_OVER[variable]
    if variable.startswith(BITNAMI) and not environment[variable]:
        return "it is empty"
    if not variable.startswith(KAFKA) or property_of(variable) in BROKER_SETTINGS:
        return None
    if OF_SERVICE.fullmatch(variable) or environment[variable].startswith(("tcp://", "udp://")):
        return "it is of a service, or a linked container, that is called so"
    return next(
        (why for prefix, why in PASSED_OVER_PREFIXES.items() if variable.startswith(prefix)), None
    )


def _read(variable: str, environment: Mapping[str, str], read_file: ReadFile) -> Iterator[Given]:
    """Yield what a variable sets: a property, or none. Raises SettingError, OSError."""
    value = environment[variable]
    if variable in CLUSTER_IDS:
        yield Given(variable, "raftka.cluster.id", value)
    elif variable == CREATE_TOPICS:
        yield Given(
            variable,
            "raftka.topics",
            translate_image_topics(value, environment.get(SEPARATOR, ",")),
        )
    elif variable in INITIAL_CONTROLLERS:
        yield Given(variable, "controller.quorum.voters", _voters_of(value))
    elif variable in IN_SECRETS:
        name, is_inside = IN_SECRETS[variable]
        path = f"{SECRETS}/{value}"
        yield Given(variable, name, _content(read_file, path) if is_inside else path)
    elif variable.startswith(KAFKA) and variable != SEPARATOR:
        yield _read_property(variable, value, read_file)


def _read_property(variable: str, value: str, read_file: ReadFile) -> Given:
    if variable in REFUSED:
        raise SettingError(REFUSED[variable])
    name = property_of(variable)
    if _is_known(name):
        return Given(variable, name, value)
    behind = property_of(variable.removesuffix(FROM_FILE))
    if variable.endswith(FROM_FILE) and _is_known(behind):
        return Given(variable, behind, _content(read_file, value))
    if name.startswith("zookeeper."):
        raise SettingError(NO_ZOOKEEPER)
    nearest = get_close_matches(name, BROKER_SETTINGS, n=1, cutoff=0.5)
    raise SettingError(
        f"there is no setting {name}"
        + (f"; did you mean {nearest[0]} ({variable_of(nearest[0])})?" if nearest else "")
    )


def _is_known(name: str) -> bool:
    """Return whether a name is a property's. Those with a listener's prefix are looked at when all
    are there.
    """
    return name in BROKER_SETTINGS or name.startswith(LISTENER)


def _content(read_file: ReadFile, path: str) -> str:
    return read_file(path).rstrip("\r\n")


def _voters_of(controllers: str) -> str:
    """Return the voters of `--initial-controllers`: id@host:port:directory id, with commas between
    them.
    """
    voters = []
    for each in controllers.split(","):
        voter, separator, _ = each.strip().rpartition(":")
        if not separator or ":" not in voter:
            raise SettingError(f"{each.strip()!r} is not ID@HOST:PORT:DIRECTORY_ID")
        voters.append(voter)
    return ",".join(voters)
