"""Refusals of requests: an HTTP status, and the number and text that Confluent's registry has for
them.
"""

from raftka.limits import Limit


class RegistryError(Exception):
    """`code`: its first three digits are the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


class LimitReached(RegistryError):
    """A request asks for more than a limit allows. The HTTP server counts it under the limit's
    metric.
    """

    def __init__(self, limit: Limit, code: int, text: str) -> None:
        super().__init__(code, f"{text}; at most {limit.value:,} are allowed")
        self.limit = limit


INVALID_SCHEMA, INVALID_VERSION, INVALID_LEVEL, INVALID_MODE = 42201, 42202, 42203, 42204
NOT_PERMITTED, REFERENCE_EXISTS, TOO_LARGE, INVALID_RULE_SET = 42205, 42206, 42209, 42210
UNPROCESSABLE = 422
STORE_FAILED = 50001


def no_subject(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def no_schema(schema_id: int | None = None) -> RegistryError:
    return RegistryError(
        40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete "
        "permanently",
    )


def version_not_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently "
        "deleted",
    )


def no_level(subject: str) -> RegistryError:
    return RegistryError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )
