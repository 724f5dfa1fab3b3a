"""A node with a bug, for `python -m`: it tells readers of what is committed of no aborted
transaction.
"""

from raftka.cli import main
from raftka.log.producers.aborted import AbortedTransactions
from raftka.log.segments.transaction_index import AbortedTransaction


def _nothing(self: AbortedTransactions, offset: int, end: int) -> list[AbortedTransaction]:
    return []


AbortedTransactions.find = _nothing  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
