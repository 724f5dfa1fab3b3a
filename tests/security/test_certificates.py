"""Fields of certificates, compared with those that the package cryptography finds."""

import ssl
from binascii import a2b_base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from raftka.security.certificates import elements, read_certificate
from raftka.security.stores import PEM_BLOCK, expires_s

KEY = ec.generate_private_key(ec.SECP256R1())
# around the year where RFC 5280 changes the form of a time
TIMES = [
    datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(2026, 12, 1, 10, 20, 30, tzinfo=UTC),
    datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(2050, 1, 1, tzinfo=UTC),
    datetime(2999, 7, 14, 1, 2, 3, tzinfo=UTC),
]
OTHERS: list[x509.ExtensionType] = [
    x509.BasicConstraints(ca=True, path_length=3),
    x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    x509.SubjectKeyIdentifier.from_public_key(KEY.public_key()),
    x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x30\x82\x01"),
]


def issue(
    subject: x509.Name,
    end: datetime = TIMES[0],
    extensions: list[tuple[x509.ExtensionType, bool]] | None = None,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=700))
        .not_valid_after(end)
    )
    for extension, critical in extensions or []:
        builder = builder.add_extension(extension, critical)
    return builder.sign(KEY, hashes.SHA256())


def random_certificate(chance: Random) -> tuple[x509.Certificate, list[str]]:
    kinds = [NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.LOCALITY_NAME]
    subject = x509.Name(
        [
            x509.NameAttribute(chance.choice(kinds), "x" * chance.choice((1, 60)) + "é")
            for _ in range(chance.randrange(9))
        ]
    )
    uris = [f"urn:raftka:node:{chance.randrange(1000)}" for _ in range(chance.randrange(40))]
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(each) for each in uris]
    names += [x509.DNSName("n1.example"), x509.RFC822Name("x@example")]
    names += [x509.IPAddress(IPv4Address("10.0.0.1")), x509.IPAddress(IPv6Address("::1"))]
    chance.shuffle(names)
    extensions = [(each, chance.random() < 0.5) for each in OTHERS if chance.random() < 0.5]
    has_names = chance.random() < 0.8
    if has_names:
        extensions.append((x509.SubjectAlternativeName(names), chance.random() < 0.5))
    chance.shuffle(extensions)
    shown = [each.value for each in names if isinstance(each, x509.UniformResourceIdentifier)]
    return issue(subject, chance.choice(TIMES), extensions), shown if has_names else []


def has_alternative_names(certificate: x509.Certificate) -> bool:
    return any(
        isinstance(each.value, x509.SubjectAlternativeName) for each in certificate.extensions
    )


@pytest.mark.parametrize("seed", range(30))
def test_fields_are_those_that_cryptography_finds(seed: int) -> None:
    made, uris = random_certificate(Random(seed))

    found = read_certificate(made.public_bytes(Encoding.DER))

    assert found.subject == made.subject.public_bytes()
    assert found.expires_s == int(made.not_valid_after_utc.timestamp())
    assert list(found.uris) == uris
    assert set(found.hosts) in (set(), {"n1.example", "10.0.0.1", "::1"})
    assert bool(found.hosts) == has_alternative_names(made)
    assert expires_s(made.public_bytes(Encoding.PEM).decode()) == found.expires_s


def authorities() -> list[bytes]:
    """Return the certificates that this machine trusts, as DER: of many makers."""
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.openssl_cafile), *Path(paths.openssl_capath).glob("*.0")]
    pems = [text for each in files if each.exists() for text in [each.read_text()]]
    found = [PEM_BLOCK.finditer(each) for each in pems]
    return [a2b_base64(match[2]) for each in found for match in each]


# cryptography's, of serial numbers that are not positive
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_the_authorities_of_this_machine_are_read() -> None:
    found_here = authorities()
    if not found_here:
        pytest.skip("this machine trusts no authority: there is nothing to compare")
    for data in found_here:
        known = x509.load_der_x509_certificate(data)
        found = read_certificate(data)
        assert found.subject == known.subject.public_bytes()
        assert found.expires_s == int(known.not_valid_after_utc.timestamp())


@pytest.mark.parametrize("seed", range(5))
def test_damaged_bytes_are_refused_or_read_but_break_nothing(seed: int) -> None:
    chance = Random(seed)
    data = random_certificate(chance)[0].public_bytes(Encoding.DER)
    damaged = [data[: chance.randrange(len(data))] for _ in range(100)]
    for _ in range(300):
        at = chance.randrange(len(data))
        damaged.append(data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :])
    for each in damaged:
        with suppress(ValueError):
            read_certificate(each)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0",
        b"\x30\x80\x00\x00",
        b"\x30\x85\x00\x00\x00\x00\x01x",
        b"\x30\x02\x05",
        b"\x05\x00",
    ],
)
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"this is no X\.509 certificate"):
        read_certificate(data)


def test_alternative_names_that_are_there_twice_are_refused() -> None:
    """A second list could name other nodes than the one that was looked at."""
    made = issue(
        x509.Name([]),
        extensions=[
            (x509.SubjectAlternativeName([x509.UniformResourceIdentifier("urn:a")]), False),
            (x509.IssuerAlternativeName([x509.UniformResourceIdentifier("urn:b")]), False),
        ],
    )
    data = made.public_bytes(Encoding.DER)
    assert read_certificate(data).uris == ("urn:a",)
    twice = data.replace(bytes.fromhex("0603551d12"), bytes.fromhex("0603551d11"))
    assert twice != data
    with pytest.raises(ValueError, match="not one extension"):
        read_certificate(twice)


def test_elements_end_where_they_say() -> None:
    assert [each.content for each in elements(b"\x04\x01a\x04\x81\x02bc")] == [b"a", b"bc"]
    with pytest.raises(ValueError, match="cut short"):
        list(elements(b"\x04\x03ab"))
