"""Imported first in a fork server: it ends with the process that started it, however that ends.

By itself it would only notice between two forks, and not while it imports torch.
"""

import os
import signal

from lightning_bench.common.processes import end_with_parent

end_with_parent()
if os.getppid() == 1:  # it has ended before
    os.kill(os.getpid(), signal.SIGKILL)
