"""Tokens of OAUTHBEARER: every algorithm is accepted with its key, and every known way around a
signature or a claim is refused.
"""

import json

import pytest

from raftka.security.mechanism import AuthenticationFailed
from raftka.security.oauth.jwks import JwksError, KeySet, UnknownKey, read_key_set
from raftka.security.oauth.jwt import (
    Expected,
    InvalidToken,
    Verified,
    check_claims,
    read_jwt,
    unsecured_jwt,
)
from raftka.security.oauth.oauthbearer import (
    INVALID_TOKEN,
    OAuthBearerClient,
    OAuthBearerServer,
    file_of,
)
from tests.security.issuer import (
    AUDIENCE,
    CURVES,
    ISSUER,
    base64,
    claims,
    ec_row,
    jwks,
    rsa_row,
    signature,
    token,
)

NOW_MS = 1_000_000_000_000
NOW_S = NOW_MS // 1000
EXPECTED = Expected(audiences=(AUDIENCE, "other"), issuer=ISSUER)
KEYS = read_key_set(jwks())


def verified(text: str, expected: Expected = EXPECTED, keys: KeySet = KEYS) -> Verified:
    read = read_jwt(text)
    keys.verify(read)
    return check_claims(read.claims, expected, NOW_MS)


def good(**changes: object) -> dict[str, object]:
    return claims(NOW_S, **changes)


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES]
)
def test_every_algorithm_is_accepted_with_its_key(algorithm: str) -> None:
    assert verified(token(good(), algorithm)) == Verified("olivia", NOW_MS + 600_000)


def altered(text: str) -> str:
    head, body, end = text.split(".")
    return ".".join([head, body, ("B" if end[0] == "A" else "A") + end[1:]])


def with_other_claims(text: str) -> str:
    head, _, end = text.split(".")
    return ".".join([head, base64(json.dumps(good(sub="admin")).encode()), end])


FORGED = {
    "alg none": unsecured_jwt(good()),
    "alg None": token(good(), "None"),
    "alg nOnE, with the signature of another token": token(good(), "RS256", alg="nOnE"),
    "no alg": token(good(), "RS256", alg=None),
    "alg is no string": token(good(), "RS256", alg=["RS256"]),
    "HS256 with the public key as secret": token(good(), "HS256"),
    "another key": token(good(), key="k2"),
    "another key that the header brings": token(good(), key="k2", jwk=rsa_row("k2"), kid="k1"),
    "another key at a URL": token(good(), key="k2", jku="https://evil.test/keys"),
    "signature altered": altered(token(good())),
    "signature cut": token(good())[:-10],
    "no signature": token(good()).rpartition(".")[0] + ".",
    "claims altered": with_other_claims(token(good())),
    "EC signature of zeros": token(good(), "ES256").rpartition(".")[0] + "." + base64(bytes(64)),
    "EC signature as DER": token(good(), "ES256").rpartition(".")[0] + "." + base64(bytes(70)),
    "RS256 header, PS256 signature": "{}.{}".format(
        s := token(good()).rpartition(".")[0], base64(signature(s.encode(), "PS256"))
    ),
    "kid of a key of another kind": token(good(), kid="ES256"),
    "kid a path": token(good(), kid="../../../../etc/passwd"),
    "kid a query": token(good(), kid="k1' OR '1'='1"),
    "kid unknown": token(good(), kid="k9"),
    "kid too long": token(good(), kid="k" * 1001),
    "kid a number": token(good(), kid=1),
    "an extension that must be known": token(good(), crit=["exp"]),
    "two parts": "a.b",
    "five parts, encrypted": "a.b.c.d.e",
    "not base64": "a.b.c",
    "padding": token(good()) + "=",
    "a line end": token(good()) + "\n",
    "base64 with bits to spare": token(good())[:-1]
    + {"Q": "R", "A": "B", "g": "h", "w": "x"}.get(token(good())[-1], "!"),
    "claims twice": token(
        '{"sub":"olivia","sub":"admin","aud":"kafka","iss":"https://issuer.test","iat":1,'
        '"exp":1e11}'
    ),
    "NaN": token('{"sub":"olivia","aud":"kafka","iss":"https://issuer.test","iat":1,"exp":NaN}'),
    "claims a list": token("[]"),
    "claims deep": token("[" * 60_000),
    "a number of many digits": token('{"exp":1' + "0" * 5000 + "}"),
    "empty": "",
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_token_is_refused(case: str) -> None:
    with pytest.raises(InvalidToken):
        verified(FORGED[case])


WRONG_CLAIMS: dict[str, dict[str, object]] = {
    "expired": {"exp": NOW_S - 1, "iat": NOW_S - 9},
    "expires now": {"exp": NOW_S},
    "no exp": {"exp": None},
    "exp a string": {"exp": str(NOW_S + 60)},
    "exp true": {"exp": True},
    "exp endless": {"exp": 1e300},
    "no iat": {"iat": None},
    "exp before iat": {"iat": NOW_S + 900},
    "nbf in an hour": {"nbf": NOW_S + 3600},
    "nbf a list": {"nbf": []},
    "another audience": {"aud": "elsewhere"},
    "audience in other letters": {"aud": "Kafka"},
    "no audience": {"aud": None},
    "audiences with a number": {"aud": [AUDIENCE, 1]},
    "another issuer": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "issuers": {"iss": [ISSUER]},
    "no sub": {"sub": None},
    "empty sub": {"sub": ""},
    "blank sub": {"sub": "  "},
    "blanks around sub": {"sub": " admin "},
    "line end behind sub": {"sub": "admin\n"},
    "NUL behind sub": {"sub": "admin\0"},
    "wide blank behind sub": {"sub": "admin\u3000"},
    "half a character in sub": {"sub": "\ud800"},
    "sub a number": {"sub": 1},
    "scope twice": {"scope": ["a", "a"]},
    "empty scope": {"scope": ["a", " "]},
    "scope a number": {"scope": 7},
}


@pytest.mark.parametrize("case", WRONG_CLAIMS)
def test_wrong_claim_is_refused(case: str) -> None:
    with pytest.raises(InvalidToken):
        verified(token(good(**WRONG_CLAIMS[case])))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["x", "other"]},
        {"nbf": NOW_S + 20},
        {"iat": NOW_S + 300},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"exp": NOW_S + 600.5},
    ],
)
def test_unusual_claims_are_accepted(changes: dict[str, object]) -> None:
    assert verified(token(good(**changes))).user == "olivia"


def test_audience_and_issuer_are_looked_at_where_they_are_set() -> None:
    assert verified(token(good(aud=None, iss=None)), Expected()).user == "olivia"
    assert verified(token(good(name="pat")), Expected(user_claim="name")).user == "pat"
    assert (
        verified(token(good(scp="a b")), Expected(scope_claim="scp", scopes=("b",))).user
        == "olivia"
    )
    with pytest.raises(InvalidToken):
        verified(token(good(scope="a b")), Expected(scopes=("c",)))


def test_key_without_a_name_must_be_the_only_one() -> None:
    unnamed = token(good(), kid=None)
    assert verified(unnamed).user == "olivia"
    with pytest.raises(InvalidToken, match="not exactly one"):
        verified(unnamed, keys=read_key_set(jwks(rsa_row(), rsa_row("k2"))))


def test_unknown_key_is_told_from_a_wrong_signature() -> None:
    with pytest.raises(UnknownKey):
        verified(token(good(), kid="k9"))


def test_key_is_used_for_its_purpose_and_its_algorithm_alone() -> None:
    for row in (
        rsa_row(use="enc"),
        rsa_row(key_ops=["encrypt"]),
        rsa_row(alg="RS512"),
        rsa_row(bits=1024),
    ):
        keys = read_key_set(jwks(row, ec_row("ES256")))
        with pytest.raises(InvalidToken):
            verified(token(good()), keys=keys)
        assert verified(token(good(), "ES256"), keys=keys).user == "olivia"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":1}',
        b'{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}',
        b'{"keys":[7]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(JwksError):
        read_key_set(data)


def server() -> OAuthBearerServer:
    return OAuthBearerServer(verified)


def test_login_with_a_token() -> None:
    mechanism = server()
    assert mechanism.step(OAuthBearerClient(token(good())).first()) == b""
    assert (mechanism.user, mechanism.expires_ms) == ("olivia", NOW_MS + 600_000)


def test_invalid_token_is_told_and_must_be_acknowledged() -> None:
    for answer, text in (
        (b"\x01", INVALID_TOKEN),
        (OAuthBearerClient(token(good())).first(), ""),
        (b"", ""),
        (b"\x01\x01", ""),
    ):
        mechanism, client = server(), OAuthBearerClient("a.b.c")
        status = mechanism.step(client.first())
        assert (status, client.step(status)) == (INVALID_TOKEN.encode(), b"\x01")
        with pytest.raises(AuthenticationFailed) as failed:
            mechanism.step(answer)
        assert (str(failed.value), mechanism.user) == (text, None)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=x\x01\x01",
        b"n,,\x01key=value\x01\x01",
        b"n,,\x01key1=value\x01auth=Bearer a.b.c\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01more",
        b"n,,\x01auth=Bearer a.b.c\xff\x01\x01",
        b"n,,\x01auth=Bearer a.b/c\x01\x01",
    ],
)
def test_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        server().step(message)
    assert str(failed.value) == ""


def test_scheme_and_extensions_are_as_kafkas() -> None:
    text = token(good())
    for message in (
        f"n,,\x01auth=bearer  {text}\x01\x01",
        f"n,a=olivia,\x01lkc=a b\x01auth=Bearer {text}\x01\x01",
    ):
        mechanism = server()
        assert mechanism.step(message.encode()) == b""
        assert mechanism.user == "olivia"
    with pytest.raises(
        AuthenticationFailed,
        match=(
            r"authorization id \(admin\) that is different from the token's principal name "
            r"\(olivia\)"
        ),
    ):
        server().step(f"n,a=admin,\x01auth=Bearer {text}\x01\x01".encode())


def test_url_of_a_file() -> None:
    assert file_of("file:///a/b%20c") == "/a/b c"
    assert file_of("https://host/keys") is None
    for url in ("file://host/a", "file:a", "file:///a?b", "file:///a%00b"):
        with pytest.raises(ValueError, match="file:///path"):
            file_of(url)
