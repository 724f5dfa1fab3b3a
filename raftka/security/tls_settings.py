"""Kafka's `ssl.*` settings of one listener, or of a client. Knows no file and no connection."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")
STORE_TYPES = ("PEM", "PKCS12", "JKS")

# Names of ciphers as Java writes them; those of OpenSSL are taken as well. OpenSSL has all of TLS
# 1.3's switched on.
CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
}
TLS_1_3_CIPHERS = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
)

# Of a broker; each may have its listener's prefix.
NAMES = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)


class TlsError(ValueError):
    """Settings, keys or certificates with which TLS cannot work. The text is for whoever gave them,
    and has no secret.
    """


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The place of a key or of certificates: a file, or the text itself. Both empty: there is
    none.
    """

    location: str = ""
    text: str = field(default="", repr=False)  # PEM
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    key_store: StoreSettings = StoreSettings()
    trust_store: StoreSettings = StoreSettings()
    key_password: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: tuple[str, ...] = ()
    verifies_hostnames: bool = True

    @classmethod
    def of(cls, value: Callable[[str], object]) -> Self:
        """`value`: of a setting by its name; None: not given. Raises TlsError."""

        def text(name: str) -> str:
            return str(value(name) or "").strip()

        key, chain = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
        if bool(key) != bool(chain):
            raise TlsError(
                "ssl.keystore.key and ssl.keystore.certificate.chain must be given together"
            )
        settings = cls(
            key_store=StoreSettings(
                text("ssl.keystore.location"),
                f"{key}\n{chain}" if key else "",
                text("ssl.keystore.password") or None,
            ),
            trust_store=StoreSettings(
                text("ssl.truststore.location"),
                text("ssl.truststore.certificates"),
                text("ssl.truststore.password") or None,
            ),
            key_password=text("ssl.key.password") or None,
            client_auth=text("ssl.client.auth") or "none",
            protocols=_several(value("ssl.enabled.protocols")) or PROTOCOLS,
            ciphers=_several(value("ssl.cipher.suites")),
            verifies_hostnames=str(
                "https"
                if (found := value("ssl.endpoint.identification.algorithm")) is None
                else found
            ).strip()
            != "",
        )
        settings._check(text)
        return settings

    def _check(self, text: Callable[[str], str]) -> None:
        for kind in ("keystore", "truststore"):
            if (given := text(f"ssl.{kind}.type").upper()) and given not in STORE_TYPES:
                raise TlsError(f"ssl.{kind}.type must be one of {', '.join(STORE_TYPES)}")
        for name, store in (("ssl.keystore", self.key_store), ("ssl.truststore", self.trust_store)):
            if store.location and store.text:
                raise TlsError(
                    f"{name}.location and the store's own text are both given: give one of them"
                )
        if self.client_auth not in CLIENT_AUTH:
            raise TlsError(f"ssl.client.auth must be one of {', '.join(CLIENT_AUTH)}")
        if not set(self.protocols) <= set(PROTOCOLS):
            raise TlsError(
                f"ssl.enabled.protocols must be some of {', '.join(PROTOCOLS)}: what is older is "
                "broken"
            )

    @property
    def openssl_ciphers(self) -> str:
        """Of TLS 1.2, as OpenSSL takes them; empty: its own choice."""
        return ":".join(
            CIPHERS.get(each, each) for each in self.ciphers if each not in TLS_1_3_CIPHERS
        )


NO_TLS = TlsSettings()


def _several(value: object) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    parts: Iterable[object] = (
        value.split(",")
        if isinstance(value, str)
        else value
        if isinstance(value, tuple)
        else (value,)
    )
    return tuple(str(each).strip() for each in parts)
