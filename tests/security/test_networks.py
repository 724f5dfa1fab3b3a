"""Hosts of ACLs in CIDR notation: what is read, refused in Kafka 4.4.0's words, and which addresses
are inside. Texts without a mark are recorded from the real broker.
"""

import pytest

from raftka.security.acls import ALLOW, DENY, LITERAL, TOPIC, WRITE, Acl, AclIndex, fault_of_acl
from raftka.security.networks import read_address, read_network


def acl(host: str, permission: int = ALLOW, name: str = "t") -> Acl:
    return Acl(TOPIC, name, LITERAL, "User:pat", host, WRITE, permission)


@pytest.mark.parametrize(
    "host",
    ["10.0.0.0/8", "10.1.2.3/8", "fe80::/10", "0.0.0.0/0", "10.0.0.1/32", "127.0.0.1", "*"],
)
def test_networks_and_addresses_are_taken(host: str) -> None:
    assert fault_of_acl(acl(host)) is None


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("10.0.0.0/-1", "Could not parse [10.0.0.0/-1]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("::/129", "Could not parse [::/129] - prefix length must be between 0 and 128"),
        ("host.example/8", "Could not parse [host.example/8]"),
        (" 10.0.0.0/8", "Could not parse [ 10.0.0.0/8]"),
    ],
)
def test_what_is_no_network_is_refused(host: str, reason: str) -> None:
    assert fault_of_acl(acl(host)) == f"Invalid CIDR notation '{host}': {reason}"


@pytest.mark.parametrize(
    "host", ["256.0.0.0/8", "fe80::1%eth0/10", "::1/64/64", "::g/8", "\u0661.0.0.0/8", "/", ":/1"]
)
def test_odd_networks_are_refused(host: str) -> None:
    assert (fault_of_acl(acl(host)) or "").startswith("Invalid CIDR notation")


def test_an_empty_host_is_refused() -> None:
    assert fault_of_acl(acl("")) == "Host pattern cannot be null or empty"


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
        ("10.1.2.3/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0"]),
        ("10.1.2.3/32", ["10.1.2.3"], ["10.1.2.2", "10.1.2.4"]),
        ("0.0.0.0/0", ["1.2.3.4", "255.255.255.255"], ["0:0:0:0:0:0:0:1"]),
        ("fe80::/10", ["fe80:0:0:0:0:0:0:1", "febf:0:0:0:0:0:0:0"], ["fec0:0:0:0:0:0:0:0"]),
        ("::/0", ["0:0:0:0:0:0:0:1"], ["10.0.0.1", "client"]),
    ],
)
def test_addresses_of_a_network(network: str, inside: list[str], outside: list[str]) -> None:
    found = read_network(network)

    assert [found.has(read_address(each)) for each in inside] == [True] * len(inside)
    assert [found.has(read_address(each)) for each in outside] == [False] * len(outside)


@pytest.mark.parametrize("denied", ["10.1.0.0/16", "10.1.2.3/32", "10.1.2.3", "0.0.0.0/0"])
@pytest.mark.parametrize("allowed", ["10.1.2.3", "10.1.2.0/24", "*"])
def test_a_denial_wins_whichever_is_more_exact(denied: str, allowed: str) -> None:
    index = AclIndex([acl(allowed), acl(denied, DENY)])

    assert index.decide("User:pat", "10.1.2.3", WRITE, TOPIC, "t") is False
    assert not index.decide_any("User:pat", "10.1.2.3", WRITE, TOPIC)


def test_a_network_holds_until_its_last_acl_goes() -> None:
    index = AclIndex()
    first, second = acl("10.0.0.0/8"), acl("10.0.0.0/8", name="u")
    for each in (first, first, second):
        index.add(each)
    index.remove(first)
    index.remove(first)
    assert index.decide("User:pat", "10.1.2.3", WRITE, TOPIC, "u")
    assert index.decide_any("User:pat", "10.1.2.3", WRITE, TOPIC)
    index.remove(second)
    assert index.decide("User:pat", "10.1.2.3", WRITE, TOPIC, "u") is None
    assert not index.decide_any("User:pat", "10.1.2.3", WRITE, TOPIC)


def test_networks_are_not_read_for_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ACLs there are: each was read when it came."""
    index = AclIndex(acl(f"10.{i >> 8}.{i & 255}.0/24", DENY) for i in range(20_000))

    def refuse(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr("raftka.security.acls.read_network", refuse)
    assert index.decide("User:pat", "10.3.4.5", WRITE, TOPIC, "t") is False
