"""A certificate authority for one cluster: keys and certificates of its nodes and clients, as PEM.
For `--secure` and for tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
BACK = timedelta(hours=1)  # clocks of others may be behind
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True, slots=True)
class Issued:
    """PEM texts; `chain` has the certificate of the authority too."""

    key: str
    chain: str

    @property
    def key_store(self) -> str:
        """One file for `ssl.keystore.location`."""
        return self.key + self.chain


class Authority:
    """`edwards`: Ed25519, whose signatures always have one size; else P-256, which every client
    knows.
    """

    def __init__(self, name: str = "raftka", days: int = 3650, *, edwards: bool = False) -> None:
        self._edwards = edwards
        self._key = self._new_key()
        self._name = named(name)
        builder = self._builder(self._name, self._key.public_key(), days)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        self._certificate = self._sign(builder)

    @classmethod
    def restore(cls, key: str, certificate: str) -> Self:
        """One that was made before, of its PEM texts. Raises ValueError."""
        authority = cls.__new__(cls)
        found = load_pem_private_key(key.encode(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
            raise ValueError("the authority's key is none that raftka makes")
        authority._key, authority._edwards = found, isinstance(found, ed25519.Ed25519PrivateKey)
        authority._certificate = x509.load_pem_x509_certificate(certificate.encode())
        authority._name = authority._certificate.subject
        return authority

    @property
    def key(self) -> str:
        """PEM: the secret with which new certificates are signed."""
        return _text(self._key)

    @property
    def trusted(self) -> str:
        """One file for `ssl.truststore.location`."""
        return _pem(self._certificate)

    def issue(
        self,
        subject: str | x509.Name,
        hosts: Sequence[str] = (),
        days: float = 825,
        uris: Sequence[str] = (),
    ) -> Issued:
        """`hosts`, `uris`: what the certificate is good for. `days` below zero: it has ended."""
        key = self._new_key()
        builder = self._builder(
            named(subject) if isinstance(subject, str) else subject, key.public_key(), days
        )
        names = [*map(_host, hosts), *map(x509.UniformResourceIdentifier, uris)]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        return Issued(_text(key), _pem(self._sign(builder)) + self.trusted)

    def _new_key(self) -> Key:
        return (
            ed25519.Ed25519PrivateKey.generate()
            if self._edwards
            else ec.generate_private_key(ec.SECP256R1())
        )

    def _builder(self, subject: x509.Name, key: PublicKey, days: float) -> x509.CertificateBuilder:
        ends = datetime.now(UTC) + days * DAY
        begins = min(datetime.now(UTC), ends) - BACK
        builder = x509.CertificateBuilder(
            self._name, subject, key, x509.random_serial_number(), begins, ends
        )
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key), critical=False
        )
        return builder.add_extension(identifier, critical=False)

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self._key, None if self._edwards else hashes.SHA256())


def named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _text(key: Key) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
