"""Files that are written over: the zeros behind an append, while old bytes follow."""

PAGE_BYTES = 4096  # of the page cache
END_BYTES = 64  # at least so many zeros: no batch can begin there
_ZEROS = memoryview(bytes(PAGE_BYTES + END_BYTES))


def zeros_behind(end: int, old_end: int) -> memoryview:
    """Return the zeros that an append ending at `end` writes behind itself, in a file whose old
    bytes end at `old_end` (positions in bytes).

    They mark the end of the new bytes. They go on to the end of the page, because the kernel need
    not read a page that is written whole.
    """
    size = -end % PAGE_BYTES
    return _ZEROS[: max(0, min(size if size >= END_BYTES else size + PAGE_BYTES, old_end - end))]
