"""Files that are written over: what stands behind an append while old bytes follow."""

PAGE_BYTES = 4096  # of the page cache
END_BYTES = 64  # at least so many zeros: no batch can begin there
MOST_ZEROS_BYTES = PAGE_BYTES + END_BYTES
_ZEROS = memoryview(bytes(MOST_ZEROS_BYTES))


def zeros_behind(end: int, old_end: int) -> memoryview:
    """What an append that ends at `end` writes behind itself, in a file whose old bytes end at `old_end`: zeros, that tell where the new ones end.

    They go on to the end of the page: a page that is written whole need not be read first. Both positions are in bytes.
    """
    size = -end % PAGE_BYTES
    return _ZEROS[: max(0, min(size if size >= END_BYTES else size + PAGE_BYTES, old_end - end))]
