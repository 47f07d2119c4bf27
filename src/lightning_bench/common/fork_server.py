"""Imported first in a fork server: it ends with the process that started it, however that ends.

By itself it would only notice between two forks, and not while it imports torch.
"""

import ctypes
import os
import signal
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # of Linux's prctl; elsewhere the server ends as soon as its imports are done

with suppress(AttributeError, OSError):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:  # it has ended before
        os.kill(os.getpid(), signal.SIGKILL)
