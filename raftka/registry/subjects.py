"""Names of subjects and of their contexts: `:.staging:orders-value` is the subject `orders-value`
of the context `.staging`.

A context is a registry in the registry: subjects, ids, level and mode are its own. A name without
one is of the context `.`, and is written without. `:.staging:` alone names what holds for a whole
context, `:.__GLOBAL:` what holds for all contexts that have nothing of their own.
"""

import re
from typing import NamedTuple

from raftka.registry.errors import LimitReached, RegistryError
from raftka.registry.limits import CONTEXT_CHARACTERS, NAME_CHARACTERS

DEFAULT, GLOBAL, EVERY = ".", ".__GLOBAL", "*"
UNPROCESSABLE = 422
RESERVED = ("__GLOBAL", "__EMPTY")
_CONTEXT = re.compile(r"\.[A-Za-z0-9._+%~-]*")


class Name(NamedTuple):
    context: str
    subject: str  # empty: the context

    @classmethod
    def of(cls, text: str) -> "Name":
        if text.startswith(":*:"):
            return cls(EVERY, text[3:])
        if not text.startswith(":."):
            return cls(DEFAULT, text)
        context, _, subject = text[1:].partition(":")
        return cls(context, subject)

    @property
    def text(self) -> str:
        return prefix_of(self.context) + self.subject


def prefix_of(context: str) -> str:
    return "" if context == DEFAULT else f":{context}:"


def context_of(subject: str) -> str:
    return Name.of(subject).context


def within(context: str, subject: str) -> str:
    """Return the full name of a subject in a request to a context, or in a reference of its
    schemas: a name without a context is one of this context.
    """
    name = Name.of(subject)
    return Name(context, subject).text if not subject.startswith((":.", ":*:")) else name.text


def read_context(text: str) -> str:
    """Read a context from a path, where its dot and its colons may be left out. Raise
    RegistryError.
    """
    context = text.removeprefix(":").removesuffix(":")
    context = context if context.startswith(".") else f".{context}"
    check_context(context)
    return context


def check_context(context: str) -> None:
    """Raises RegistryError."""
    if len(context) > CONTEXT_CHARACTERS.value:
        raise LimitReached(
            CONTEXT_CHARACTERS, UNPROCESSABLE, f"a context's name has {len(context):,} characters"
        )
    if not _CONTEXT.fullmatch(context):
        raise RegistryError(
            UNPROCESSABLE,
            f"The context {context!r:.300} is invalid: its name has a dot first, then letters, "
            "digits and ._-+%~",
        )


def new_subject(text: str) -> str:
    """Check the name of a subject that is to have a version. Raise RegistryError."""
    name = _checked(text)
    if not name.subject or name.context == GLOBAL or name.subject in RESERVED:
        raise RegistryError(
            UNPROCESSABLE, f"The specified subject {text!r:.300} is not a valid subject."
        )
    return name.text


def new_scope(text: str) -> str | None:
    """Check the name of a subject or a context that is to have a level or a mode; None for the
    context `.`. Raise RegistryError.
    """
    name = _checked(text)
    if name.subject in RESERVED or (name.context == GLOBAL and name.subject):
        raise RegistryError(
            UNPROCESSABLE, f"The specified subject {text!r:.300} is not a valid subject."
        )
    return name.text or None


def _checked(text: str) -> Name:
    if len(text) > NAME_CHARACTERS.value:
        raise LimitReached(
            NAME_CHARACTERS, UNPROCESSABLE, f"a subject's name has {len(text):,} characters"
        )
    if any(ord(each) < ord(" ") for each in text):
        raise RegistryError(UNPROCESSABLE, "a subject's name has no control characters")
    name = Name.of(text)
    check_context(name.context)
    return name
