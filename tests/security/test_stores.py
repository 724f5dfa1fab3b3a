"""Keys and certificates in every form that settings have: files and inline, PEM and PKCS12, and
what is refused with which words.
"""

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates

from raftka.cluster.secured.authority import Authority
from raftka.security.stores import StoreError, expires_s, read_pem, read_store

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("node", ["localhost"])


def test_pem_has_a_key_and_its_chain_in_order() -> None:
    store = read_store(ISSUED.key_store.encode(), None, "the store")

    assert store.key == ISSUED.key
    assert "".join(store.certificates) == ISSUED.chain
    assert len(store.certificates) == 2


def test_line_ends_may_be_blanks_as_in_a_properties_file() -> None:
    assert read_pem(ISSUED.key_store.replace("\n", " "), "the store") == read_pem(
        ISSUED.key_store, "the store"
    )


def test_pkcs12_is_what_pem_is() -> None:
    key = load_pem_private_key(ISSUED.key.encode(), None)
    own, *others = load_pem_x509_certificates(ISSUED.chain.encode())
    data = serialize_key_and_certificates(
        b"node",
        key,  # type: ignore[arg-type]
        own,
        others,
        BestAvailableEncryption(b"a secret"),
    )

    assert read_store(data, "a secret", "the store") == read_pem(ISSUED.key_store, "the store")
    with pytest.raises(StoreError, match="its password is wrong"):
        read_store(data, "another", "the store")


def test_a_java_key_store_is_refused_with_the_command_that_converts_it() -> None:
    with pytest.raises(StoreError, match="keytool -importkeystore"):
        read_store(b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "a secret", "the key store /etc/old.jks")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no PEM block"),
        (ISSUED.key + ISSUED.key, "more than one private key"),
        ("-----BEGIN CERTIFICATE-----\n!!\n", "no PEM block"),
    ],
)
def test_what_is_no_store_is_refused(text: str, fault: str) -> None:
    with pytest.raises(StoreError, match=fault):
        read_pem(text, "the store")


def test_the_end_of_a_certificate() -> None:
    ends = load_pem_x509_certificates(ISSUED.chain.encode())[0].not_valid_after_utc

    assert expires_s(read_pem(ISSUED.chain, "").certificates[0]) == int(ends.timestamp())
