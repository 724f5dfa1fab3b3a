"""An issuer of tokens: its keys as JWKS, and tokens signed with them, or in every wrong way."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

AUDIENCE, ISSUER = "kafka", "https://issuer.test"
CURVES: dict[str, tuple[ec.EllipticCurve, str, int]] = {
    "ES256": (ec.SECP256R1(), "P-256", 32),
    "ES384": (ec.SECP384R1(), "P-384", 48),
    "ES512": (ec.SECP521R1(), "P-521", 66),
}
SHA = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def generated(name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def rsa_key(name: str = "k1", bits: int = 2048) -> rsa.RSAPrivateKey:
    return generated(name, bits)


@cache
def ec_key(algorithm: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(CURVES[algorithm][0])


def number(value: int, size: int = 0) -> str:
    return base64(value.to_bytes(size or (value.bit_length() + 7) // 8))


def rsa_row(name: str = "k1", bits: int = 2048, **more: object) -> dict[str, object]:
    numbers = rsa_key(name, bits).public_key().public_numbers()
    return {
        "kty": "RSA",
        "kid": name,
        "use": "sig",
        "n": number(numbers.n),
        "e": number(numbers.e),
        **more,
    }


def ec_row(algorithm: str, **more: object) -> dict[str, object]:
    numbers, (_, curve, size) = ec_key(algorithm).public_key().public_numbers(), CURVES[algorithm]
    return {
        "kty": "EC",
        "kid": algorithm,
        "crv": curve,
        "x": number(numbers.x, size),
        "y": number(numbers.y, size),
        **more,
    }


def jwks(*rows: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": rows or [rsa_row(), *[ec_row(name) for name in CURVES]]}).encode()


def claims(now_s: float = 0, **changes: object) -> dict[str, object]:
    """Good ones, with changes; None: without that claim."""
    whole = {
        "sub": "olivia",
        "aud": AUDIENCE,
        "iss": ISSUER,
        "iat": int(now_s),
        "exp": int(now_s) + 600,
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def token(
    body: Mapping[str, object] | str, algorithm: str = "RS256", key: str = "k1", **header: object
) -> str:
    """`body`: claims, or JSON text. `key`: which RSA key signs. Of the header's fields None ones
    are left out.
    """
    head: dict[str, Any] = {
        "alg": algorithm,
        "kid": algorithm if algorithm in CURVES else "k1",
        **header,
    }
    head = {name: value for name, value in head.items() if value is not None}
    text = body if isinstance(body, str) else json.dumps(body)
    signed = f"{base64(json.dumps(head).encode())}.{base64(text.encode())}"
    return f"{signed}.{base64(signature(signed.encode(), algorithm, key))}"


def signature(signed: bytes, algorithm: str, key: str = "k1") -> bytes:
    if algorithm.startswith("HS"):
        return hmac.digest(public_pem(), signed, "sha" + algorithm[2:])
    if algorithm in CURVES:
        size = CURVES[algorithm][2]
        r, s = utils.decode_dss_signature(
            ec_key(algorithm).sign(signed, ec.ECDSA(SHA[algorithm[2:]]))
        )
        return r.to_bytes(size) + s.to_bytes(size)
    if algorithm[:2] not in ("RS", "PS"):
        return b""
    sha = SHA[algorithm[2:]]
    pss = padding.PSS(padding.MGF1(sha), padding.PSS.DIGEST_LENGTH)
    return rsa_key(key).sign(signed, pss if algorithm.startswith("PS") else padding.PKCS1v15(), sha)


def public_pem() -> bytes:
    return (
        rsa_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
