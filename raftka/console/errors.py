"""Errors of brokers and of the client as answers of the API. Handlers do not catch them."""

from raftka.client.blocking.client import Unreachable
from raftka.client.blocking.connection import ClientError, LoginRefused, Unsupported
from raftka.console.call import ApiError
from raftka.console.sessions import SessionOver
from raftka.wire.errors import Code, KafkaError

UNAUTHORIZED, UNREACHABLE, UNSUPPORTED = "UNAUTHORIZED", "UNREACHABLE", "UNSUPPORTED"
LOG_IN = "log in again: the session has ended"

FORBIDDEN = frozenset(
    {
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        Code.DELEGATION_TOKEN_OWNER_MISMATCH,
        Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
MISSING = frozenset(
    {
        Code.BROKER_NOT_AVAILABLE,
        Code.DELEGATION_TOKEN_NOT_FOUND,
        Code.GROUP_ID_NOT_FOUND,
        Code.LOG_DIR_NOT_FOUND,
        Code.RESOURCE_NOT_FOUND,
        Code.TRANSACTIONAL_ID_NOT_FOUND,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_TOPIC_ID,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
CONFLICTS = frozenset(
    {
        Code.CONCURRENT_TRANSACTIONS,
        Code.DUPLICATE_RESOURCE,
        Code.GROUP_SUBSCRIBED_TO_TOPIC,
        Code.INVALID_TXN_STATE,
        Code.NON_EMPTY_GROUP,
        Code.NO_REASSIGNMENT_IN_PROGRESS,
        Code.REASSIGNMENT_IN_PROGRESS,
        Code.REBALANCE_IN_PROGRESS,
        Code.TOPIC_ALREADY_EXISTS,
        Code.ELECTION_NOT_NEEDED,
    }
)
# to ask again does not help, though CORRUPT_MESSAGE counts as retriable
BROKEN = frozenset({Code.CORRUPT_MESSAGE, Code.UNKNOWN_SERVER_ERROR})
NOT_AUTHENTICATED = frozenset({Code.SASL_AUTHENTICATION_FAILED, Code.ILLEGAL_SASL_STATE})


def is_refused_login(error: BaseException) -> bool:
    """Return whether brokers did not take the login of the connection that failed."""
    if isinstance(error, KafkaError):
        return error.code in NOT_AUTHENTICATED
    return isinstance(error, LoginRefused) or isinstance(error.__cause__, LoginRefused)


def api_error(error: BaseException) -> ApiError | None:
    """Return the answer that says what went wrong at the brokers; None: it is a bug of ours."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, SessionOver):
        return ApiError(401, UNAUTHORIZED, LOG_IN)
    if is_refused_login(error):
        return ApiError(401, UNAUTHORIZED, f"the brokers do not take the login: {error}")
    if isinstance(error, KafkaError):
        return ApiError(status_of(error.code), error.code.name, error.message or _words(error.code))
    if isinstance(error, Unsupported):
        return ApiError(501, UNSUPPORTED, str(error))
    if isinstance(error, Unreachable | OSError):
        return ApiError(503, UNREACHABLE, str(error) or type(error).__name__)
    if isinstance(error, ClientError):
        return ApiError(502, "CLIENT_ERROR", str(error))
    return None


def status_of(code: Code) -> int:
    """Return the status of HTTP that an error of Kafka becomes."""
    for codes, status in ((FORBIDDEN, 403), (MISSING, 404), (CONFLICTS, 409)):
        if code in codes:
            return status
    if code is Code.UNSUPPORTED_VERSION:
        return 501
    if code in BROKEN:
        return 502
    if code.retriable or code is Code.NOT_CONTROLLER:
        return 503
    return 400


def _words(code: Code) -> str:
    return code.name.lower().replace("_", " ")
