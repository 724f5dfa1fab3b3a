"""Checks of certificates, logins and rights."""

import time
from collections.abc import Iterator
from ipaddress import ip_address

from raftka.doctor.checks.finding import BAD, Found, count, examples, finds, has, names
from raftka.doctor.facts import Endpoint, Facts
from raftka.security import acls

SOON_MS = 30 * 86_400_000
TOKEN_MS = 3_600_000  # before its end
EDIT = "raftka config show --broker {} --given"


def _look_at(each: Endpoint) -> str:
    return (
        f"openssl s_client -connect {each.host}:{each.port} </dev/null | "
        "openssl x509 -noout -dates -ext subjectAltName"
    )


def _day(expires_s: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(expires_s))


@finds("certificate-expired", BAD)
def certificate_expired(facts: Facts) -> Iterator[Found]:
    for each in facts.endpoints:
        if each.certificate is not None and each.certificate.expires_s * 1000 <= facts.now_ms:
            yield Found(
                f"The certificate at {each.host}:{each.port} ended on "
                f"{_day(each.certificate.expires_s)}: replace its file; brokers read it again by "
                "themselves.",
                _look_at(each),
            )


@finds("certificate-expires")
def certificate_expires(facts: Facts) -> Iterator[Found]:
    for each in facts.endpoints:
        if each.certificate is None:
            continue
        left_ms = each.certificate.expires_s * 1000 - facts.now_ms
        if 0 < left_ms < SOON_MS:
            yield Found(
                f"The certificate at {each.host}:{each.port} ends on "
                f"{_day(each.certificate.expires_s)}, in {count(left_ms // 86_400_000, 'day')}: "
                "replace its file; brokers read it again by themselves.",
                _look_at(each),
            )


@finds("certificate-name", BAD)
def certificate_name(facts: Facts) -> Iterator[Found]:
    for each in facts.endpoints:
        if each.certificate is not None and not is_valid_for(each.certificate.hosts, each.host):
            valid = examples(each.certificate.hosts) or "no name"
            yield Found(
                f"The certificate at {each.host}:{each.port} is for {valid}: clients refuse it; "
                "issue one with that name, or advertise a name that it has.",
                _look_at(each),
            )


def is_valid_for(hosts: tuple[str, ...], host: str) -> bool:
    """Return whether one of a certificate's names is the host's (RFC 9525)."""
    try:
        return str(ip_address(host)) in hosts
    except ValueError:
        pass
    host = host.lower().rstrip(".")
    parent = host.partition(".")[2]
    return any(each.lower() == host or (parent and each.lower() == f"*.{parent}") for each in hosts)


def _logs_in(settings_of: dict[int, str]) -> list[int]:
    """Return the brokers that have a listener with SASL. `settings_of`: its map of protocols."""
    return sorted(each for each, value in settings_of.items() if ":SASL_" in value)


@finds("authorizer-off", BAD)
def authorizer_off(facts: Facts) -> Iterator[Found]:
    off = [
        each
        for each in _logs_in(facts.setting("listener.security.protocol.map"))
        if not facts.brokers[each].settings.get("authorizer.class.name") and _uses_sasl(facts, each)
    ]
    if off:
        yield Found(
            f"{names(off).capitalize()} {has(len(off), 'has', 'have')} logins and no authorizer: "
            "everybody who logs in may do everything; set authorizer.class.name.",
            EDIT.format(off[0]),
        )


def _uses_sasl(facts: Facts, node_id: int) -> bool:
    """Return whether one of the broker's listeners has SASL: a map may name others, too."""
    settings = facts.brokers[node_id].settings
    protocols = dict(
        pair.split(":", 1)
        for pair in settings["listener.security.protocol.map"].split(",")
        if ":" in pair
    )
    mine = [each.split("://")[0] for each in settings.get("listeners", "").split(",")]
    return any(protocols.get(each, each).startswith("SASL_") for each in mine)


@finds("scram-without-users")
def scram_without_users(facts: Facts) -> Iterator[Found]:
    """Only where no other mechanism would let anybody in."""
    if facts.scram_users is None or facts.scram_users:
        return
    empty = [
        each
        for each, value in facts.setting("sasl.enabled.mechanisms").items()
        if value
        and all(one.strip().startswith("SCRAM-") for one in value.split(","))
        and "listener.security.protocol.map" in facts.brokers[each].settings
        and _uses_sasl(facts, each)
    ]
    if empty:
        yield Found(
            f"{names(empty).capitalize()} {has(len(empty), 'takes', 'take')} logins with SCRAM, "
            "and there is no user: add the first.",
            "raftka users set alice",
        )


@finds("acl-for-everybody")
def acl_for_everybody(facts: Facts) -> Iterator[Found]:
    """ACLs that let everybody change the cluster, or do everything with all topics."""
    risky = (acls.ALL, acls.ALTER, acls.ALTER_CONFIGS, acls.CLUSTER_ACTION)
    wide = [
        each
        for each in facts.acls
        if each.principal == "User:*"
        and each.permission == acls.ALLOW
        and (
            (each.resource_type == acls.CLUSTER and each.operation in risky)
            or (each.name == "*" and each.operation == acls.ALL)
        )
    ]
    if wide:
        yield Found(
            f"{count(len(wide), 'ACL')} {has(len(wide), 'lets', 'let')} every user change the "
            "cluster or all topics: remove what nobody needs.",
            "raftka acls list --principal 'User:*'",
        )


@finds("token-expires")
def token_expires(facts: Facts) -> Iterator[Found]:
    ended = [each for each in facts.tokens if each.expires_ms - facts.now_ms < TOKEN_MS]
    if ended:
        yield Found(
            f"{count(len(ended), 'delegation token')} {has(len(ended), 'has', 'have')} ended or "
            f"end within an hour ({examples(each.id for each in ended)}): renew or replace it.",
            "raftka tokens list",
        )
