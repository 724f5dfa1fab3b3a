"""The line of `sasl.jaas.config`: a login module of Kafka's and its options, as data. No name in it
is ever loaded or run.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.security.mechanism import GSSAPI
from raftka.security.oauth.oauthbearer import OAUTHBEARER
from raftka.security.plain import PLAIN
from raftka.security.scram import SHA_256, SHA_512

_PACKAGE = "org.apache.kafka.common.security."
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
MODULES = {  # the mechanisms that each serves
    f"{_PACKAGE}plain.PlainLoginModule": (PLAIN,),
    f"{_PACKAGE}scram.ScramLoginModule": (SHA_256, SHA_512),
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    KRB5_MODULE: (GSSAPI,),
}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.DOTALL
)
_USER = "user_"


class JaasError(ValueError):
    """The text says what is wrong, and quotes nothing of the line: it holds passwords."""


class Jaas(NamedTuple):
    module: str
    options: Mapping[str, str]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return MODULES[self.module]

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user: the options `user_NAME="PASSWORD"`."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(text: str, modules: Iterable[str] = MODULES) -> Jaas:
    """Parse the line. `modules`: names that are known. Raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != (";", True) or tokens.count((";", True)) > 1:
        raise JaasError(
            'a JAAS line is one login module, required, options name="value", and a semicolon at '
            "its end"
        )
    module, flag = tokens[0][0], tokens[1][0]
    if module not in modules:
        raise JaasError(f"the login module is not one of {', '.join(modules)}")
    if flag.lower() not in _FLAGS:
        raise JaasError(f"{' or '.join(_FLAGS)} must follow the login module")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for at in range(0, len(rest), 3):
        three = rest[at : at + 3]
        if len(three) < 3 or three[1] != ("=", True) or three[0][1] or three[2][1]:
            raise JaasError('the options of a JAAS line must be name="value"')
        options[three[0][0]] = three[2][0]
    return Jaas(module, options)


def jaas_fault(text: str) -> str | None:
    """Return the fault of a JAAS line, without any text of the line; None: it has no fault."""
    try:
        parse_jaas(text)
    except JaasError as error:
        return str(error)
    return None


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return the tokens, each with True if it is a sign: = or ;"""
    found, position, text = [], 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quote in the JAAS line has no end")
        double, single, bare, sign = match.groups()
        quoted = double if double is not None else single
        found.append(
            (re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), False)
            if quoted is not None
            else (bare or sign, sign is not None)
        )
        position = match.end()
    return found
