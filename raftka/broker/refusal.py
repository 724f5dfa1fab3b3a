"""The reason why a node cannot start or go on, for the user who started it: one sentence with the
fault and the remedy. Knows no node.
"""

from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL, EDQUOT, EEXIST, ENOSPC, ENOTDIR, EPERM, EROFS

from raftka.broker.controller.boot_counter import OlderDisk
from raftka.broker.network.listening import CannotListen
from raftka.log.directory import LogDirectoryError
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.quorum.journal import WrongDirectory
from raftka.metadata.quorum.journal_format import JournalDamaged
from raftka.versions import NewerFormat
from raftka.wire.errors import Code, KafkaError

# What a node's start may raise that is nobody's mistake but the machine's, or of whoever wrote the
# file; anything else is a bug, with its traceback.
REFUSALS = (OSError, ValueError, NewerFormat, JournalDamaged, WrongDirectory, LogDirectoryError)
OF_LISTENERS = {
    EADDRINUSE: "stop the process that listens there, or change `{setting}`",
    EADDRNOTAVAIL: "no network of this machine has that address: change `{setting}`",
}
OF_SYSTEM = {
    **dict.fromkeys(
        (EACCES, EPERM, EROFS), "let the user that raftka runs as write there, or change `log.dirs`"
    ),
    **dict.fromkeys((ENOSPC, EDQUOT), "make room there"),
    **dict.fromkeys((EEXIST, ENOTDIR), "`log.dirs` must name directories, there is something else"),
}


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group, however deep it lies."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe_error(error: BaseException, settings: NodeSettings) -> str:
    """One line."""
    wrong, remedy = _wrong(error, settings), _remedy(error, settings)
    return " ".join((f"{wrong}; {remedy}" if remedy else wrong).split())


def _wrong(error: BaseException, settings: NodeSettings) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error) or type(error).__name__
    return (
        text
        if settings.metadata_directory in text or not isinstance(error, JournalDamaged)
        else f"{settings.metadata_directory}: {text}"
    )


def _remedy(error: BaseException, settings: NodeSettings) -> str:
    match error:
        case BlockingIOError():
            return "stop the process that uses it, or change `log.dirs`"
        case CannotListen():
            return OF_LISTENERS.get(error.errno or 0, "change `{setting}`").format(
                setting=error.setting
            )
        case OSError():
            return OF_SYSTEM.get(error.errno or 0, "")
        case LogDirectoryError():
            return error.remedy
        case OlderDisk():
            return (
                "it lacks promises that this node made later: empty `log.dirs` and start again, "
                "the others have all records"
            )
        case WrongDirectory() | KafkaError(code=Code.INCONSISTENT_CLUSTER_ID):
            return LogDirectoryError("").remedy
        case JournalDamaged() if len(settings.voters) > 1:
            return (
                "while a majority of the other controllers runs, move "
                f"{settings.metadata_directory} away and start again, they have all of it"
            )
        case JournalDamaged():
            return (
                "there is no other controller to bring it up to date, put a copy of that "
                "directory in its place"
            )
        case NewerFormat():
            return (
                "start a release that knows it (docs/versions.md), the newer data stay as they are"
            )
    return ""
