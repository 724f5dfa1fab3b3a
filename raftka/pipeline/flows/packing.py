"""Many rows as one, before Spark sends rows from task to task: the columns that a flow with packed
rows has, and the part of a packing that streams need. A project defines the packing itself.
"""

from typing import Protocol

BUCKET, PACK = "bucket", "pack"


class Packing(Protocol):
    """Rows of one bucket as one row."""

    @property
    def at(self) -> str:
        """The column with the time."""

    def as_json(self) -> str:
        """Return the packing as an option of the stream's source."""
