"""Make the C library's allocator give memory back to the kernel. Knows no one who allocates."""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
# from here on an allocation is a mapping of its own, which goes when it is freed
MAPPED_BYTES = 256 * 1024
KEPT_BYTES = 512 * 1024  # of what is free at the end of the heap


def give_memory_back() -> bool:
    """Tell glibc to keep little of what is freed, for all threads together. False where there is no
    glibc: nothing is changed then.

    By itself glibc learns from the largest allocation it has seen, up to 32 MiB, to keep twice as
    much, and makes a heap for each thread.
    """
    library = ctypes.CDLL(None)
    if not (hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt")):
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, MAPPED_BYTES), (M_TRIM_THRESHOLD, KEPT_BYTES))
    return bool(min(library.mallopt(what, value) for what, value in settings))
