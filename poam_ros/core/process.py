"""What an entry point sets for its whole process: threads, and memory that is used again."""

from __future__ import annotations

import ctypes
from functools import cache

# Of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Blocks up to this size, and so much free memory at the end of the heap, stay in the process.
KEPT = 1 << 28


@cache
def keep_freed_memory() -> None:
    """Tell the C library to keep freed matrices for the next ones, for the whole process.

    glibc maps large blocks anew each time, and the system fills every page with zeros at its first
    use: a tenth to a third of a prediction, and more where MALLOC_TRIM_THRESHOLD_ is small, as in
    dask's workers. Other C libraries are left alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, KEPT)
    mallopt(_M_TRIM_THRESHOLD, KEPT)


def configure_process(threads: int) -> None:
    """Make a process ready for a model: so many threads of the linear algebra, freed memory kept.

    For entry points: nothing else in the package changes the process.
    """
    # Its BLAS must be loaded to be limited.
    import scipy.linalg  # noqa: F401
    import torch
    from threadpoolctl import threadpool_limits

    # torch has its own threads, SciPy's BLAS others.
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    keep_freed_memory()
