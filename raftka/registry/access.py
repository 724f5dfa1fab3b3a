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
        """Return True if the user may do the operation on a subject; None: on all subjects."""

    def check(self, user: User | None, operation: str, subject: str | None) -> None:
        """Raise RegistryError if the user may not do the operation."""


class Everybody:
    """Access without logins: every client may do everything."""

    def may(self, user: User | None, operation: str, subject: str | None) -> bool:
        return True

    def check(self, user: User | None, operation: str, subject: str | None) -> None:
        return


def topic_of(subject: str) -> str:
    """Return the topic of a subject by Confluent's TopicNameStrategy, in every context; a subject
    of another strategy is taken as a topic's name.
    """
    subject = Name.of(subject).subject
    return next(
        (subject.removesuffix(each) for each in SUFFIXES if subject.endswith(each)), subject
    )
