"""Fields of an X.509 certificate (RFC 5280), read from its DER bytes: the subject, the end of its
time, the URIs and the names of hosts among its alternative names.

OpenSSL has parsed and verified the bytes before; Python's `ssl` shows no subject as DER. So TLS
needs no library beside Python's own: cryptography takes 17 MB, and comes with raftka[security].
"""

import calendar
import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple

SEQUENCE, OBJECT_ID, OCTETS = 0x30, 0x06, 0x04
VERSION, EXTENSIONS = 0xA0, 0xA3  # [0] and [3] of TBSCertificate
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
DNS, URI, IP = 0x82, 0x86, 0x87  # [2], [6] and [7] of GeneralName
ALTERNATIVE_NAMES = bytes.fromhex("551d11")  # 2.5.29.17
ADDRESS_BYTES = (4, 16)  # of IPv4 and IPv6
LONG_FORM = 0x80
LENGTH_BYTES = 4  # at most: no certificate has 4 GB
PIVOT = 50  # two digits of a year from here on are of the last century
TIME = re.compile(rb"(\d{2}|\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z")


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes  # with tag and length


class Certificate(NamedTuple):
    subject: bytes  # a Name, DER
    expires_s: int  # since the epoch
    uris: tuple[str, ...]
    hosts: tuple[str, ...] = ()  # names and addresses that it is valid for


def elements(data: bytes) -> Iterator[Element]:
    """Yield the DER elements one behind another. Raises ValueError for bytes that are none."""
    position = 0
    while position < len(data):
        begin, (tag, size) = position, data[position : position + 2]
        position += 2
        if size & LONG_FORM:
            count = size & ~LONG_FORM
            if not 1 <= count <= LENGTH_BYTES:
                raise ValueError("an element has a length that DER does not have")
            size = int.from_bytes(data[position : position + count])
            position += count
        if position + size > len(data):
            raise ValueError("an element is cut short")
        position += size
        yield Element(tag, data[position - size : position], data[begin:position])


def read_certificate(data: bytes) -> Certificate:
    """Raises ValueError for bytes that are no certificate."""
    try:
        whole = _only(data, SEQUENCE)
        signed, *_ = elements(whole)
        fields = [each for each in elements(signed.content) if each.tag != VERSION]
        _serial, _signature, _issuer, validity, subject, *rest = fields
        _begin, end = elements(validity.content)
        extensions = [_only(each.content, SEQUENCE) for each in rest if each.tag == EXTENSIONS]
        names = list(_names(extensions[0])) if extensions else []
        uris = tuple(each.content.decode("ascii") for each in names if each.tag == URI)
        hosts = tuple(host for each in names if (host := _host(each)) is not None)
        return Certificate(subject.whole, _seconds(end), uris, hosts)
    except ValueError as error:
        raise ValueError(f"this is no X.509 certificate: {error}") from None


def _only(data: bytes, tag: int) -> bytes:
    (element,) = elements(data)
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#x} in place of {tag:#x}")
    return element.content


def _seconds(end: Element) -> int:
    """Return the seconds since the epoch of a Time, in one of its two forms."""
    match = TIME.fullmatch(end.content)
    digits = {UTC_TIME: 2, GENERALIZED_TIME: 4}.get(end.tag)
    if match is None or len(match[1]) != digits:
        raise ValueError("its time has no form of RFC 5280")
    year, month, day, hour, minute, second = map(int, match.groups())
    if digits == 2:
        year += 1900 if year >= PIVOT else 2000
    return calendar.timegm((year, month, day, hour, minute, second))


def _host(name: Element) -> str | None:
    """Return the name of a host, or an address as text; None for other names."""
    if name.tag == DNS:
        return name.content.decode("ascii", "replace")
    is_address = name.tag == IP and len(name.content) in ADDRESS_BYTES
    return str(ip_address(name.content)) if is_address else None


def _names(extensions: bytes) -> Iterator[Element]:
    """Yield the alternative names. Raises ValueError when these are there twice."""
    found = [
        parts[-1]
        for each in elements(extensions)
        if (parts := list(elements(each.content)))
        and (parts[0].tag, parts[0].content) == (OBJECT_ID, ALTERNATIVE_NAMES)
    ]
    if len(found) > 1 or any(each.tag != OCTETS for each in found):
        raise ValueError("its alternative names are not one extension")
    for extension in found:
        yield from elements(_only(extension.content, SEQUENCE))
