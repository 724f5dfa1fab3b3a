"""`--add-scram`: the first users of a cluster, as Kafka's kafka-storage takes them. Passwords end
here: what is passed on is made of them.

`SCRAM-SHA-256=[name=alice,password=secret]`, or `@FILE` for the same in a file; salt,
saltedpassword (both base64) and iterations may be given.
"""

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from raftka.metadata.records import ScramCredentialSet
from raftka.security.scram import (
    FEWEST_ITERATIONS,
    HASHES,
    MOST_ITERATIONS,
    NUMBERS,
    SALT_BYTES,
    credential_of,
    salted_password,
)

# how `cluster start` tells its nodes: a process's environment is its user's alone
VARIABLE = "RAFTKA_FIRST_USERS"
PARTS = ("name", "password", "salt", "saltedpassword", "iterations")
KEY_BYTES = {"sha256": 32, "sha512": 64}
FORM = "it is MECHANISM=[name=NAME,password=PASSWORD], of SCRAM-SHA-256 or SCRAM-SHA-512"


def read_first_users(values: Iterable[str]) -> tuple[ScramCredentialSet, ...]:
    """Raises ValueError and OSError; no text has anything of a value: there are passwords in it."""
    found = tuple(
        [
            _user(
                Path(value[1:]).read_text(encoding="utf-8").strip()
                if value.startswith("@")
                else value
            )
            for value in values
        ]
    )
    if len({(each.mechanism, each.user) for each in found}) < len(found):
        raise ValueError("a user is there twice with the same mechanism")
    return found


def _user(text: str) -> ScramCredentialSet:
    """Raises ValueError."""
    mechanism, _, rest = text.partition("=")
    if mechanism not in HASHES or not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(FORM)
    parts: dict[str, str] = {}
    for part in rest[1:-1].split(","):
        name, separator, value = part.partition("=")
        if name not in PARTS or name in parts or not separator or not value:
            raise ValueError(
                f"{FORM}; the parts are {', '.join(PARTS)}, each at most once, without a comma in "
                "it"
            )
        parts[name] = value
    if (
        "name" not in parts
        or ("password" in parts) == ("saltedpassword" in parts)
        or ("saltedpassword" in parts and "salt" not in parts)
    ):
        raise ValueError(
            "it needs a name, and either a password, or a saltedpassword with its salt"
        )
    iterations = parts.get("iterations", str(FEWEST_ITERATIONS))
    if not (
        iterations.isascii()
        and iterations.isdigit()
        and FEWEST_ITERATIONS <= int(iterations[:9]) <= MOST_ITERATIONS
    ):
        raise ValueError(f"iterations must be {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    salt = _bytes("salt", parts["salt"]) if "salt" in parts else secrets.token_bytes(SALT_BYTES)
    if "password" in parts:
        salted = salted_password(mechanism, parts["password"], salt, int(iterations))
    else:
        salted = _bytes("saltedpassword", parts["saltedpassword"])
    if len(salted) != KEY_BYTES[HASHES[mechanism]]:
        raise ValueError(
            f"the saltedpassword must have the {KEY_BYTES[HASHES[mechanism]]} bytes of "
            f"{HASHES[mechanism]}"
        )
    number = next(number for number, name in NUMBERS.items() if name == mechanism)
    return ScramCredentialSet(
        number, parts["name"], *credential_of(mechanism, salted, salt, int(iterations))
    )


def _bytes(name: str, text: str) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        data = b""
    if not data:
        raise ValueError(f"{name} must be base64")
    return data


def to_text(users: tuple[ScramCredentialSet, ...]) -> str:
    """For VARIABLE."""
    keys = [
        [b64encode(each).decode() for each in (user.salt, user.stored_key, user.server_key)]
        for user in users
    ]
    return json.dumps(
        [
            [user.mechanism, user.user, *made, user.iterations]
            for user, made in zip(users, keys, strict=True)
        ]
    )


def from_text(text: str) -> tuple[ScramCredentialSet, ...]:
    rows = json.loads(text or "[]")
    return tuple(
        [
            ScramCredentialSet(
                row[0], row[1], b64decode(row[2]), b64decode(row[3]), b64decode(row[4]), row[5]
            )
            for row in rows
        ]
    )
