"""The settings of a broker: the names of names.py, and which of them something here looks at.

Defaults that differ from Kafka's, and why, are in DIFFERENCES. Knows no node.
"""

import re
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from raftka.metadata.configs.names import DYNAMIC_ONLY, KAFKA, OURS, UNLISTED
from raftka.metadata.configs.oauth import HANDLERS
from raftka.metadata.configs.of_groups import USED_OF_GROUPS
from raftka.metadata.configs.share import SHARE_SETTINGS
from raftka.metadata.configs.starting_topics import starting_topics_fault
from raftka.metadata.configs.topic import TOPIC_SETTINGS
from raftka.metadata.configs.values import Check, Setting, Type, at_least, between, one_of, some_of
from raftka.security.distinguished_names import rules_fault
from raftka.security.jaas import jaas_fault
from raftka.security.kerberos.local_names import local_rules_fault
from raftka.security.tls_settings import CLIENT_AUTH, PROTOCOLS, STORE_TYPES
from raftka.wire.api_ceilings import RELEASES


class Difference(NamedTuple):
    name: str
    kafka: str
    raftka: str
    reason: str


DIFFERENCES = (
    Difference(
        "broker.session.timeout.ms",
        "9000",
        "2000",
        "a broker that stops without closing anything is replaced in about two seconds, not nine",
    ),
    Difference(
        "broker.heartbeat.interval.ms",
        "2000",
        "400",
        "five to a session, so that four may be late on a machine under full load",
    ),
)

SELECTORS = (
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _not_empty(value: str) -> str | None:
    return None if value else "String must be non-empty"


def _cluster_id_fault(value: str) -> str | None:
    return (
        None
        if re.fullmatch(r"[A-Za-z0-9_-]{22}", value)
        else "a cluster's id has 22 characters of URL-safe base64"
    )


def _of_addresses(value: str) -> str | None:
    for each in value.split(",") if value else ():
        address, _, count = each.rpartition(":")
        try:
            ip_address(address.strip(" []"))
        except ValueError:
            return f"{each} is not address:count, and names of hosts are not looked up"
        if not (count.isascii() and count.isdigit()):
            return f"{each} is not address:count"
    return None


def _user_fault(value: str) -> str | None:
    name, separator, _ = value.partition(":")
    return None if separator and name and value.isprintable() else "must be NAME:PASSWORD"


def _urls_fault(value: tuple[str, ...]) -> str | None:
    for url in value:
        try:
            parts = urlsplit(url)
            is_right = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            is_right = False
        if (
            not is_right
            or parts.query
            or parts.fragment
            or "@" in parts.netloc
            or not url.isprintable()
        ):
            return (
                "must be URLs such as http://localhost:8081, without names and passwords "
                "(confluent.basic.auth.user.info)"
            )
    return None


def _url_fault(value: str) -> str | None:
    if _urls_fault((value,)) is None:
        return None
    return "must be a URL such as http://localhost:4318/v1/metrics, without name and password"


# Valid values and meaning of every name that something reads; a test compares this with the source.
USED: dict[str, tuple[Check | None, str]] = {
    "advertised.listeners": (
        None,
        "Addresses for clients; listeners when it is not set. auto: the address at which a client "
        "has reached the node; NAME://auto: at this listener.",
    ),
    "allow.everyone.if.no.acl.found": (
        None,
        "Whether everybody may use a resource that no ACL reaches.",
    ),
    "authorizer.class.name": (
        one_of("", STANDARD_AUTHORIZER),
        "StandardAuthorizer: ACLs decide what a client may do; unset: everybody may do everything.",
    ),
    "auto.create.topics.enable": (None, "A Metadata request for a missing topic creates it."),
    "auto.leader.rebalance.enable": (
        None,
        "Give leadership back to the first replica of each partition from time to time.",
    ),
    "broker.heartbeat.interval.ms": (
        at_least(1),
        "Time between a broker's heartbeats to the controller.",
    ),
    "broker.id": (None, "Older name of node.id."),
    "broker.rack": (None, "Where the broker stands; replicas are spread over racks."),
    "broker.session.timeout.ms": (
        at_least(1),
        "Silence after which the controller fences a broker.",
    ),
    "connection.failed.authentication.delay.ms": (
        at_least(0),
        "Milliseconds from a failed login to its answer and the end of the connection.",
    ),
    "controller.quota.window.num": (
        at_least(1),
        "Samples in the window of controller_mutation_rate: so many times its length may be used "
        "at once.",
    ),
    "controller.quota.window.size.seconds": (at_least(1), "Length of one of these samples."),
    "connections.max.reauth.ms": (
        at_least(0),
        "Milliseconds after which a client must authenticate again; 0: never. With a listener's "
        "prefix.",
    ),
    "controller.listener.names": (None, "Which of the listeners are the controller's."),
    "controller.quorum.election.timeout.ms": (
        at_least(10),
        "Silence of the metadata leader after which an election begins; up to half as much again.",
    ),
    "controller.quorum.auto.join.enable": (None, "A controller becomes a voter by itself."),
    "controller.quorum.bootstrap.servers": (None, "Controllers: host:port,... (kraft.version 1)."),
    "controller.quorum.voters": (None, "All controllers: id@host:port,id@host:port,..."),
    "default.replication.factor": (at_least(1), "Replicas of a topic whose creator does not say."),
    "delegation.token.expiry.check.interval.ms": (
        at_least(1),
        "Time between two looks for tokens that have expired; they are removed then.",
    ),
    "delegation.token.expiry.time.ms": (
        at_least(1),
        "How long a token lasts until it must be renewed.",
    ),
    "delegation.token.max.lifetime.ms": (at_least(1), "How long a token lasts at most."),
    "delegation.token.secret.key": (
        None,
        "What tokens are made with, the same on every broker; unset: there are none.",
    ),
    "delete.topic.enable": (None, "Whether topics can be deleted."),
    "inter.broker.listener.name": (
        None,
        "The listener that the brokers use among themselves; the first one when it is not set.",
    ),
    **USED_OF_GROUPS,
    "group.coordinator.rebalance.protocols": (
        some_of("classic", "consumer", "streams", "share"),
        "The protocols of groups that are served, beside classic.",
    ),
    "group.initial.rebalance.delay.ms": (
        None,
        "How long the first rebalance of a group without members waits for more of them.",
    ),
    "group.max.session.timeout.ms": (None, "Longest session that a member may ask for."),
    "group.max.size": (at_least(1), "Most members of a group."),
    "group.min.session.timeout.ms": (None, "Shortest session that a member may ask for."),
    "leader.imbalance.check.interval.seconds": (
        at_least(1),
        "Time between two looks for partitions not led by their first replica.",
    ),
    "listener.security.protocol.map": (None, "Security protocol of each listener: PLAINTEXT."),
    "listeners": (None, "What the node listens on: NAME://host:port,..."),
    "fetch.max.bytes": (at_least(1024), "Most bytes of one answer to a Fetch."),
    "log.cleaner.backoff.ms": (
        at_least(0),
        "Time between two looks for logs to compact, when there was none.",
    ),
    "log.cleaner.dedupe.buffer.size": (
        None,
        "Memory for keys of all compactions at once; each has a process of its own.",
    ),
    "log.cleaner.enable": (None, "Whether topics with cleanup.policy=compact are compacted."),
    "log.cleaner.io.buffer.load.factor": (None, "Share of the memory for keys that is used."),
    "log.cleaner.io.buffer.size": (at_least(0), "Bytes that all compactions read at a time."),
    "log.cleaner.io.max.bytes.per.second": (
        None,
        "Bound for the reads and writes of all compactions together.",
    ),
    "log.cleaner.threads": (at_least(1), "Compactions at once."),
    "cordoned.log.dirs": (None, "Log directories that get no new replica; *: all of them."),
    "log.dir": (None, "Data directory when log.dirs is not set."),
    "log.dirs": (None, "Data directories."),
    "log.flush.scheduler.interval.ms": (None, "log.flush.interval.ms where that is not set."),
    "log.retention.check.interval.ms": (
        at_least(1),
        "Time between two looks for segments to delete.",
    ),
    "log.retention.hours": (None, "log.retention.ms in hours."),
    "log.retention.minutes": (None, "log.retention.ms in minutes."),
    "log.roll.hours": (at_least(1), "log.roll.ms in hours."),
    "log.roll.jitter.hours": (at_least(0), "log.roll.jitter.ms in hours."),
    "max.incremental.fetch.session.cache.slots": (at_least(0), "Most fetch sessions at a time."),
    "max.request.partition.size.limit": (
        at_least(1),
        "Most partitions of one answer to DescribeTopicPartitions.",
    ),
    "max.connection.creation.rate": (
        at_least(0),
        "Connections a second, on all listeners but the brokers' own; with a listener's prefix: "
        "on that one.",
    ),
    "max.connections": (
        at_least(0),
        "Connections at a time, never more than 10,000; with a listener's prefix: on that one.",
    ),
    "max.connections.per.ip": (at_least(0), "Connections at a time from one address."),
    "max.connections.per.ip.overrides": (
        _of_addresses,
        "The same for some addresses: address:count,...",
    ),
    "metadata.log.dir": (
        None,
        "Where the quorum's own directory is made; in the first of log.dirs when it is not set.",
    ),
    "metadata.log.max.record.bytes.between.snapshots": (
        at_least(1),
        "So many bytes of metadata records, and a controller writes a snapshot.",
    ),
    "metrics.auth.basic.users": (
        None,
        "Who may see the pages of metrics.port: NAME:PASSWORD,NAME:PASSWORD",
    ),
    "metrics.auth.basic.users.location": (
        None,
        "The same in a file, one a line; read again when it changes.",
    ),
    "metrics.auth.bearer.token": (
        None,
        "A token with which one may see the pages of metrics.port.",
    ),
    "metrics.auth.bearer.token.location": (
        None,
        "The same in a file, one a line; read again when it changes.",
    ),
    "metrics.auth.health": (
        None,
        "Whether /health needs a login too, where the other pages do; without one it tells the "
        "status alone.",
    ),
    "metrics.partitions": (
        None,
        "Whether /metrics has numbers for each partition: some 20 lines of text for one that is "
        "led here, 5 for another.",
    ),
    "metrics.host": (None, "Where metrics.port listens; unset: the host of the first listener."),
    "metrics.port": (
        between(0, 65535),
        "Port of GET /metrics and GET /health, on metrics.host; 0 picks a free one, unset: none.",
    ),
    "metrics.ssl.client.auth": (
        one_of(*CLIENT_AUTH),
        "Whether those who ask for pages show a certificate; ssl.client.auth does not count here.",
    ),
    "metrics.ssl.enable": (
        None,
        "Whether metrics.port has TLS, with the node's ssl.* or with key and certificates of its "
        "own.",
    ),
    "metrics.ssl.key.password": (None, "Password of the private key, where it has one of its own."),
    "metrics.ssl.keystore.location": (None, "As ssl.keystore.location, for metrics.port."),
    "metrics.ssl.keystore.password": (None, "Password of a PKCS12 file."),
    "metrics.ssl.truststore.location": (None, "As ssl.truststore.location, for metrics.port."),
    "metrics.ssl.truststore.password": (None, "Password of a PKCS12 file."),
    "node.id": (at_least(0), "The node's number, unique in the cluster."),
    "num.partitions": (at_least(1), "Partitions of a topic whose creator does not say."),
    "offset.metadata.max.bytes": (
        None,
        "Most bytes that a member may keep with a committed offset.",
    ),
    "offsets.commit.timeout.ms": (
        at_least(1),
        "How long the records of a coordinator, such as commits, wait for the in-sync replicas.",
    ),
    "offsets.retention.check.interval.ms": (
        at_least(1),
        "Time between two looks for committed offsets to forget.",
    ),
    "offsets.retention.minutes": (
        at_least(1),
        "How long offsets are kept that no member needs any more.",
    ),
    "offsets.topic.compression.codec": (
        between(0, 4),
        "Codec of __consumer_offsets, by its number: none, gzip, snappy, lz4, zstd.",
    ),
    "offsets.topic.num.partitions": (
        at_least(1),
        "Partitions of __consumer_offsets, when it is created.",
    ),
    "offsets.topic.replication.factor": (
        at_least(1),
        "Its replicas; it is not created before there are so many brokers.",
    ),
    "offsets.topic.segment.bytes": (at_least(1), "Its segments' size."),
    "process.roles": (
        some_of("broker", "controller"),
        "What the node is: broker, controller or both.",
    ),
    "producer.id.expiration.ms": (
        at_least(1),
        "How long an idempotent producer that is silent is remembered.",
    ),
    "raftka.api.ceiling": (
        one_of(*RELEASES),
        "The release of Kafka whose versions of APIs and features clients are shown at most, for "
        "tests of clients. Unset: all.",
    ),
    "raftka.balance": (
        one_of("auto"),
        "auto: while this node is the active controller it keeps the brokers even by bytes and "
        "leaders. Unset: `raftka balance` does it.",
    ),
    "raftka.balance.interval.ms": (
        at_least(1000),
        "With raftka.balance=auto: from one look at the brokers to the next.",
    ),
    "raftka.balance.throttle": (
        at_least(0),
        "With raftka.balance=auto: bytes a second that each broker sends or takes; 0: no limit.",
    ),
    "raftka.cluster.id": (
        _cluster_id_fault,
        "The id that the cluster gets when it is formed; unset: a random one. A node whose "
        "directories belong to another cluster does not start.",
    ),
    "raftka.controller.node.certificates": (
        None,
        "Whether every certificate at the controller's listeners must name the node that it is "
        "for: urn:raftka:node:ID among its alternative names.",
    ),
    "quota.window.num": (
        at_least(1),
        "Samples that the rates of clients with quotas are measured over.",
    ),
    "quota.window.size.seconds": (at_least(1), "Length of one of these samples."),
    "confluent.basic.auth.user.info": (
        _user_fault,
        "NAME:PASSWORD with which this node asks the schema registry.",
    ),
    "confluent.schema.registry.url": (
        _urls_fault,
        "The schema registry that topics with schema validation ask; several URLs: instances of "
        "one. Unset: the node's own (registry.port).",
    ),
    "confluent.ssl.truststore.location": (
        None,
        "Certificates that are trusted where that URL is https; unset: the operating system's.",
    ),
    "confluent.ssl.truststore.password": (None, "Password of this store."),
    "confluent.ssl.truststore.type": (one_of(*STORE_TYPES), "Format of this store."),
    "console.allowed.hosts": (
        None,
        "Names under which browsers may reach the console, besides this host's own.",
    ),
    "console.client.config": (
        None,
        "Client properties with which the console connects to the brokers; unset: as the listener "
        "of clients asks for.",
    ),
    "console.host": (None, "Where the console listens."),
    "console.login.mechanism": (
        one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "none"),
        "The console tries names and passwords at the brokers by this mechanism; unset: by one of "
        "the listener. none: all have the rights of console.client.config.",
    ),
    "console.masked.fields": (None, "Fields of records that the console shows as ***."),
    "console.port": (
        between(0, 65535),
        "Port of the console in the browser; 0 picks a free one, unset: none.",
    ),
    "console.read.only": (None, "The console changes nothing."),
    "console.records": (None, "The console shows records."),
    "console.registry.ca.location": (
        None,
        "PEM: what the console trusts where the schema registry's URL is https; unset: what the "
        "operating system does.",
    ),
    "console.registry.login.location": (
        None,
        "A file with NAME:PASSWORD, with which the console asks the schema registry for its users.",
    ),
    "console.sql": (
        None,
        "The console has a page for SQL, whose statements run with the rights of the node's user "
        "on this machine. Its port is on a loopback address then, and its users do not log in.",
    ),
    "console.ssl.certificate.location": (None, "PEM: the console's port has TLS."),
    "console.ssl.key.location": (None, "PEM, of this certificate; unset: it is in the same file."),
    "raftka.group.consumer.busy.interval.ms": (
        at_least(0),
        "Time between heartbeats of a consumer group in which something has just happened; it "
        "grows until it is as ever. 0: always as ever.",
    ),
    "raftka.group.settle.ms": (
        at_least(0),
        "How long a group's assignments are held back after new members have come: they come in "
        "swarms.",
    ),
    "raftka.log.flush": (
        one_of("fsync", "os"),
        "fsync: acks=all is answered when the in-sync replicas' disks have it; os: when their "
        "kernels have it.",
    ),
    "raftka.log.level": (
        one_of("debug", "info", "warning", "error"),
        "From which level on events go to the log.",
    ),
    "raftka.log.segment.reuse.bytes": (
        at_least(0),
        "How much the files of deleted segments may take together that wait to be written over; "
        "half of what is free on the disk at most.",
    ),
    "raftka.log.segment.reuse.ms": (
        at_least(0),
        "How long the file of a deleted segment waits to be written over as one of the "
        "partition's next ones. 0: it does not.",
    ),
    "raftka.quorum.heartbeat.interval.ms": (
        at_least(1),
        "Time between the metadata leader's heartbeats to the other controllers.",
    ),
    "raftka.telemetry.otlp.endpoint": (
        _url_fault,
        "URL of a collector that takes OTLP over HTTP, such as http://localhost:4318/v1/metrics: "
        "each push of a client's metrics goes there too. Unset: none.",
    ),
    "raftka.topics": (
        starting_topics_fault,
        "Topics that the node makes when it starts, where the cluster does not have them: "
        "NAME[:PARTITIONS][:POLICY][:SETTING=VALUE]...",
    ),
    "raftka.validation": (
        one_of("header", "records"),
        "header: a batch is believed what its header says of its records; records: each record is "
        "looked at, as Kafka does.",
    ),
    "leader.replication.throttled.rate": (
        at_least(0),
        "Bytes a second that replicas named in leader.replication.throttled.replicas send to "
        "those that catch up.",
    ),
    "follower.replication.throttled.rate": (
        at_least(0),
        "Bytes a second that replicas named in follower.replication.throttled.replicas take as "
        "they catch up.",
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        at_least(0),
        "Rate at which replicas move between log directories.",
    ),
    "replica.fetch.max.bytes": (at_least(0), "Most bytes a follower fetches of one partition."),
    "replica.fetch.response.max.bytes": (at_least(0), "Most bytes a follower fetches at once."),
    "replica.fetch.wait.max.ms": (at_least(0), "How long a follower's fetch waits."),
    "replica.selector.class": (
        one_of(*SELECTORS),
        "Whether consumers that tell their rack read from a follower there.",
    ),
    "registry.client.config": (
        None,
        "Client properties in a file, with which the registry connects to the cluster; unset: "
        "PLAINTEXT.",
    ),
    "registry.host": (None, "Where the schema registry listens."),
    "registry.login.mechanism": (
        one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The registry asks for names and passwords, tries them at a broker by this mechanism, and "
        "allows what ACLs allow; unset: all may do all.",
    ),
    "registry.port": (
        between(0, 65535),
        "Port of the schema registry; 0 picks a free one, unset: none. Needs raftka[registry].",
    ),
    "registry.ssl.certificate.location": (None, "PEM: the registry's port has TLS."),
    "registry.ssl.key.location": (None, "PEM, of this certificate; unset: it is in the same file."),
    "registry.topic": (None, "Where the registry keeps schemas."),
    "replica.lag.time.max.ms": (
        at_least(1),
        "A follower that has not caught up for so long leaves the ISR.",
    ),
    "sasl.enabled.mechanisms": (
        None,
        "SASL mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI. With a "
        "listener's prefix.",
    ),
    "sasl.jaas.config": (
        jaas_fault,
        'The users of PLAIN, user_NAME="PASSWORD", and this broker\'s own username and password. '
        "With the prefix of a listener and a mechanism.",
    ),
    "sasl.kerberos.principal.to.local.rules": (
        local_rules_fault,
        "How a Kerberos principal becomes a user's name: RULE:[n:format](pattern)s/from/to/g/[LU] "
        "or DEFAULT. With a listener's prefix.",
    ),
    "sasl.kerberos.service.name": (
        None,
        "First part of the brokers' Kerberos principals; unset: as the principal in "
        "sasl.jaas.config has it.",
    ),
    "sasl.mechanism.controller.protocol": (
        None,
        "The mechanism with which nodes log in at controllers.",
    ),
    "sasl.mechanism.inter.broker.protocol": (
        None,
        "The mechanism with which brokers log in at each other.",
    ),
    "sasl.oauthbearer.allow.unverified.audience": (None, "Start without an expected audience."),
    "sasl.oauthbearer.allow.unverified.issuer": (None, "Start without an expected issuer."),
    "sasl.oauthbearer.clock.skew.seconds": (
        at_least(0),
        "How much a token's issuer's clock may be ahead of ours.",
    ),
    "sasl.oauthbearer.expected.audience": (
        None,
        "A token must be for one of them (aud); none: for anybody.",
    ),
    "sasl.oauthbearer.expected.issuer": (
        None,
        "A token must be of that issuer (iss); unset: of any.",
    ),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (
        at_least(1000),
        "Time between two looks for an issuer's keys.",
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (
        at_least(1),
        "The longest pause before a further try.",
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (
        at_least(1),
        "The first pause before a further try.",
    ),
    "sasl.oauthbearer.jwks.endpoint.url": (
        None,
        "Where the keys of the tokens' issuer are: file:///path, https:// or http://. With a "
        "listener's prefix, as all that begin so.",
    ),
    "sasl.oauthbearer.jwt.validator.class": (None, "Kafka's own: no other class is loaded."),
    "sasl.oauthbearer.scope.claim.name": (_not_empty, "The claim that has a token's scopes."),
    "sasl.oauthbearer.sub.claim.name": (_not_empty, "The claim that has the user's name."),
    "sasl.oauthbearer.token.endpoint.url": (
        None,
        "With which token this broker logs in at others: file:///path.",
    ),
    "sasl.server.callback.handler.class": (
        one_of(*HANDLERS),
        "Kafka's unsecured validator: OAUTHBEARER takes tokens without a signature, everybody is "
        "the user that he names. For tests.",
    ),
    "sasl.server.max.receive.size": (
        at_least(1),
        "Bytes of one frame before its client is authenticated, never more than 65536. With a "
        "listener's prefix.",
    ),
    "ssl.cipher.suites": (
        None,
        "Ciphers of TLS 1.2, by Java's or OpenSSL's names. With a listener's prefix, as all that "
        "begin with ssl.",
    ),
    "ssl.client.auth": (
        one_of(*CLIENT_AUTH),
        "Whether clients show a certificate. On SASL_SSL only with the listener's prefix.",
    ),
    "ssl.enabled.protocols": (some_of(*PROTOCOLS), "Versions of TLS."),
    "ssl.endpoint.identification.algorithm": (
        None,
        "https: a broker checks the host names of those it connects to; empty: it does not.",
    ),
    "ssl.key.password": (None, "Password of the private key, where it has one of its own."),
    "ssl.keystore.certificate.chain": (None, "Certificates that go with ssl.keystore.key, PEM."),
    "ssl.keystore.key": (None, "Private key, PEM."),
    "ssl.keystore.location": (
        None,
        "File with the private key and its certificates, PEM or PKCS12; read again when it "
        "changes.",
    ),
    "ssl.keystore.password": (None, "Password of a PKCS12 file."),
    "ssl.keystore.type": (one_of(*STORE_TYPES), "What the file is; its content decides."),
    "ssl.principal.mapping.rules": (
        rules_fault,
        "How the name in a client's certificate becomes a user's: RULE:pattern/replacement/[LU] "
        "or DEFAULT.",
    ),
    "ssl.truststore.certificates": (None, "Certificates that others' are signed by, PEM."),
    "ssl.truststore.location": (
        None,
        "File with the certificates that others' are signed by, PEM or PKCS12; read again when it "
        "changes.",
    ),
    "ssl.truststore.password": (None, "Password of a PKCS12 file."),
    "ssl.truststore.type": (one_of(*STORE_TYPES), "What the file is; its content decides."),
    "super.users": (None, "Principals that may do everything: User:NAME;User:NAME"),
    "transaction.max.timeout.ms": (
        at_least(1),
        "Longest time that a producer may ask for its transactions.",
    ),
    "transaction.partition.verification.enable": (
        None,
        "Whether leaders of partitions ask the coordinator before a transaction begins there.",
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        at_least(1),
        "Time between two looks for transactional ids to forget.",
    ),
    "transaction.state.log.min.isr": (
        at_least(1),
        "min.insync.replicas of __transaction_state, when it is created.",
    ),
    "transaction.state.log.num.partitions": (
        at_least(1),
        "Partitions of __transaction_state, when it is created.",
    ),
    "transaction.state.log.replication.factor": (
        at_least(1),
        "Its replicas; it is not created before there are so many brokers.",
    ),
    "transaction.state.log.segment.bytes": (at_least(1), "Its segments' size."),
    "telemetry.max.bytes": (
        at_least(1),
        "Most bytes of one push of a client's metrics, as it comes.",
    ),
    "transaction.two.phase.commit.enable": (None, "Must be false: there is no two-phase commit."),
    "transactional.id.expiration.ms": (
        at_least(1),
        "How long a transactional id is remembered that nobody uses.",
    ),
    "zookeeper.bridge.4lw.commands.whitelist": (
        None,
        "Four-letter words that the bridge answers beside srvr, as ZooKeeper's "
        "4lw.commands.whitelist; *: all.",
    ),
    "zookeeper.bridge.admin.port": (
        between(0, 65535),
        "Port of the bridge's pages for ZooKeeper's monitors (/commands); 0 picks a free one, "
        "unset: none.",
    ),
    "zookeeper.bridge.enforce.auth.schemes": (
        some_of("digest", "sasl", "x509"),
        "Schemes of which a client of the bridge must show one before all else, as ZooKeeper's "
        "enforce.auth.schemes; empty: none.",
    ),
    "zookeeper.bridge.enforce.quota": (
        None,
        "Whether the bridge refuses writes beyond a hard quota of znodes, as ZooKeeper's "
        "enforceQuota.",
    ),
    "zookeeper.bridge.host": (None, "Where the bridge listens."),
    "zookeeper.bridge.port": (
        between(0, 65535),
        "Port of the bridge for ZooKeeper clients; 0 picks a free one, unset: none.",
    ),
    "zookeeper.bridge.readonlymode.enabled": (
        None,
        "Whether a node that no controller answers serves reads to clients that allow for it, as "
        "ZooKeeper's readonlymode.enabled.",
    ),
    "zookeeper.bridge.sasl.jaas.config": (
        None,
        "Users of the bridge's DIGEST-MD5: org.apache.zookeeper.server.auth.DigestLoginModule "
        'required user_NAME="PASSWORD";',
    ),
    "zookeeper.bridge.sasl.plaintext.enable": (
        None,
        "Whether clients may log in by DIGEST-MD5 without TLS.",
    ),
    "zookeeper.bridge.sasl.super.users": (
        None,
        "Those of these users whom the bridge lets do everything, as zookeeper.superUser.",
    ),
    "zookeeper.bridge.set.acl": (
        None,
        "Whether Kafka's znodes are written by super and sasl:kafka alone, as zookeeper.set.acl; "
        "unset: where the cluster has an authorizer.",
    ),
    "zookeeper.bridge.secure.port": (
        between(0, 65535),
        "Port of the bridge with TLS, as ZooKeeper's secureClientPort; 0 picks a free one, unset: "
        "none.",
    ),
    "zookeeper.bridge.ssl.client.auth": (
        one_of("need", "want", "none", *CLIENT_AUTH),
        "Whether clients of the secure port show a certificate: need, want or none; "
        "ssl.client.auth does not count here.",
    ),
    "zookeeper.bridge.ssl.key.password": (
        None,
        "Password of the private key, where it has one of its own.",
    ),
    "zookeeper.bridge.ssl.keystore.location": (
        None,
        "As ssl.keystore.location, for the bridge's secure port.",
    ),
    "zookeeper.bridge.ssl.keystore.password": (None, "Password of a PKCS12 file."),
    "zookeeper.bridge.ssl.truststore.location": (
        None,
        "As ssl.truststore.location, for the bridge's secure port.",
    ),
    "zookeeper.bridge.ssl.truststore.password": (None, "Password of a PKCS12 file."),
    "zookeeper.bridge.super.digest": (
        None,
        "user:digest, as in an ACL, of whom the bridge lets do everything.",
    ),
    "zookeeper.bridge.tick.ms": (
        at_least(1),
        "The bridge's unit of time: sessions last 2 to 20 of it.",
    ),
    "zookeeper.bridge.x509.super.user": (
        None,
        "Subject of the certificate whose owner the bridge lets do everything.",
    ),
} | SHARE_SETTINGS

# Valid values of names that can be set at run time and that nothing will read: there are no pools
# of threads. One loop serves all connections, and a session to each leader carries all partitions
# that follow it.
CHECKS: dict[str, Check] = {
    "num.io.threads": at_least(1),
    "num.network.threads": at_least(1),
    "num.recovery.threads.per.data.dir": at_least(1),
    "num.replica.fetchers": at_least(1),
}

_DEFAULTS = {difference.name: difference.raftka for difference in DIFFERENCES}
_BEHIND_TOPICS = {
    synonym: setting for setting in TOPIC_SETTINGS.values() for synonym in setting.synonyms[:1]
}


def _setting(line: str) -> Setting:
    name, kind, default, *rest = line.split()
    text = None if default == "-" else "" if default == '""' else default
    check, doc = USED.get(name, (CHECKS.get(name), ""))
    topic = _BEHIND_TOPICS.get(name)
    if topic is not None:
        check, doc = topic.check, topic.doc
    synonyms = (name,) if topic is None else topic.synonyms
    used = name in USED or (topic is not None and topic.used)
    return Setting(
        name,
        Type[kind.upper()],
        _DEFAULTS.get(name, text),
        check,
        synonyms,
        doc,
        dynamic="dynamic" in rest,
        used=used,
    )


def _table(text: str) -> dict[str, Setting]:
    return {setting.name: setting for setting in map(_setting, text.strip().splitlines())}


LISTED_SETTINGS = {**_table(KAFKA), **_table(OURS)}
BROKER_SETTINGS = {**LISTED_SETTINGS, **_table(UNLISTED), **_table(DYNAMIC_ONLY)}
