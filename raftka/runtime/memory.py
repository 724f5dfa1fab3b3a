"""Bytes that were received. A plain memoryview may lie in a buffer that the next turn fills again;
an `Owned` one stays as it is.

A function that keeps a view past its turn (a generator that yields, an object, a closure) takes an
Owned one, and mypy refuses any other. The dispatcher makes requests own their bytes, in one place,
before they are decoded. With RAFTKA_POISON=1, and always in the simulation, buffers are overwritten
when their turn ends (`poison`), so that a view that was kept without being owned does not go
unnoticed.
"""

from typing import NewType

Owned = NewType("Owned", memoryview)

VARIABLE = "RAFTKA_POISON"  # in the environment of a debug run: 1
POISON_BYTE = b"\xdd"
_POISON = POISON_BYTE * 65536


def owned(view: memoryview) -> Owned:
    """Return a copy that can be written to."""
    # a call of Owned would cost as much as the copy
    return memoryview(bytearray(view))  # type: ignore[return-value]


NO_BYTES = owned(memoryview(b""))


def poison(buffer: bytearray | memoryview) -> None:
    """Overwrite bytes that nothing may read any more."""
    size = len(buffer)
    buffer[:] = _POISON[:size] if size <= len(_POISON) else POISON_BYTE * size
