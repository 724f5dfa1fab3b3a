"""Networks in CIDR notation as hosts of ACLs, as Kafka 4.4 reads them: `10.0.0.0/8`, `fe80::/10`.
Bits behind the prefix may be set. Names are no networks.
"""

import re
from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import NamedTuple

_IPV4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV6 = re.compile(r"([^/%]*)/(\d{1,9})", re.ASCII)


def is_network(host: str) -> bool:
    """Return whether the host of an ACL is meant as a network."""
    return "/" in host


class Address(NamedTuple):
    bits: int  # 32 or 128
    number: int


class Network(NamedTuple):
    bits: int
    mask: int
    prefix: int

    def has(self, address: Address | None) -> bool:
        """None: a client whose address is no number is in no network."""
        return (
            address is not None
            and address.bits == self.bits
            and address.number & self.mask == self.prefix
        )


def read_address(host: str) -> Address | None:
    """Return the number of an address in Java's form; None: it has none."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return Address(address.max_prefixlen, int(address))


def read_network(text: str) -> Network:
    """Raises ValueError, with the reason in Kafka's words."""
    if ":" in text:
        return _read_ipv6(text)
    match = _IPV4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, length = map(int, match.groups())
    number = 0
    for octet in octets:
        number = number << 8 | _in_range(octet, 255)
    return _network(32, number, _in_range(length, 32))


def _read_ipv6(text: str) -> Network:
    match = _IPV6.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    if int(match[2]) > 128:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    try:
        address = IPv6Address(match[1])
    except AddressValueError:
        raise ValueError(f"Could not parse [{text}]") from None
    return _network(128, int(address), int(match[2]))


def _in_range(value: int, highest: int) -> int:
    if value > highest:
        raise ValueError(f"Value [{value}] not in range [0,{highest}]")
    return value


def _network(bits: int, number: int, length: int) -> Network:
    mask = (1 << bits) - (1 << (bits - length))
    return Network(bits, mask, number & mask)
