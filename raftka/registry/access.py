"""Authorization: the rights that ACLs give a user at the topic of a subject."""

from typing import NamedTuple, Protocol

from raftka.registry.subjects import Name

SEE, WRITE, DELETE, ALTER = "see", "write", "delete", "alter"
FORBIDDEN = 40301
SUFFIXES = ("-value", "-key")


class User(NamedTuple):
    name: str
    password: str


class Access(Protocol):
    def may(self, user: User | None, operation: str, subject: str | None) -> bool:
        """`subject`: None for what holds for all."""

    def check(self, user: User | None, operation: str, subject: str | None) -> None:
        """Raises RegistryError."""


class Everybody:
    """May do everything: there are no logins."""

    def may(self, user: User | None, operation: str, subject: str | None) -> bool:
        return True

    def check(self, user: User | None, operation: str, subject: str | None) -> None:
        return


def topic_of(subject: str) -> str:
    """By Confluent's TopicNameStrategy, in every context; a subject of another strategy is a name
    as it is.
    """
    subject = Name.of(subject).subject
    return next(
        (subject.removesuffix(each) for each in SUFFIXES if subject.endswith(each)), subject
    )
