"""Memory that a command has freed is kept for its next model call."""

from __future__ import annotations

import ctypes

# Numbers of glibc's <malloc.h>, and what they are set to.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = 1 << 30  # bytes
LARGEST_KEPT = 1 << 25  # bytes of one block: glibc takes no more


def keep_freed_memory() -> bool:
    """Ask the C library to keep up to 1 GB that was freed. For programs of our own: it holds for the whole process.

    By default glibc gives the activations of a picture back after every gradient. The system then maps and clears the
    same pages again for the next one, which takes a fifth of the gradient's time.

    Returns:
        Whether it was done. Other C libraries than glibc are left as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not there; on Windows there is no such library
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT)) and bool(mallopt(MMAP_THRESHOLD, LARGEST_KEPT))
