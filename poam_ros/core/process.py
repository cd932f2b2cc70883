"""Settings of a whole process, made by its entry point: threads, memory, garbage collection."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

# Of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Bytes: blocks up to this size, and this much free memory, are not returned to the system.
MAX_FREE = 1 << 28


def configure_process(threads: int) -> None:
    """Set the number of threads of linear algebra, reuse freed memory, and leave the objects of
    torch out of garbage collections, each of which would stop a turn for some 0.1 s.

    Only for entry points: nothing else in the package changes the process.
    """
    # SciPy's BLAS must be loaded before it can be limited.
    import scipy.linalg  # noqa: F401
    import torch
    from threadpoolctl import threadpool_limits

    # torch has its own threads, SciPy's BLAS others.
    torch.set_num_threads(threads)
    threadpool_limits(threads)
    # By default glibc maps large blocks again each time, and the system fills every page with zeros
    # on first use: a tenth to a third of a prediction, and more in dask's workers.
    with suppress(AttributeError, OSError, TypeError):  # other C libraries are left unchanged
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, MAX_FREE)
        mallopt(_M_TRIM_THRESHOLD, MAX_FREE)
    if not gc.get_freeze_count():  # once: what is garbage by then would never be freed
        gc.collect()
        gc.freeze()
