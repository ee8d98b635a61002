"""Programs of a training run end with whoever started them, however that ends.

Run as a program (`python -m trainer.together …`) it is torch's launcher of several ranks, tied to ours.
"""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """The kernel sends this process SIGTERM when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    from torch.distributed.run import main as run

    end_with_parent()
    run()


if __name__ == "__main__":
    main()
