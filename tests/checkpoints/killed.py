"""Processes that end in the middle of what they do."""

from __future__ import annotations

import os
from collections.abc import Callable

CHANGES = ("replace", "rename", "unlink", "mkdir", "rmdir", "fsync")  # of the disk


def dies_at(moment: int, run: Callable[[], None]) -> bool:
    """Run in a child that is gone at its `moment`-th change of the disk; False if it lived to the end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            left = [moment]

            def dying(real):
                def call(*args, **kwargs):
                    if left[0] == 0:
                        os._exit(9)
                    left[0] -= 1
                    return real(*args, **kwargs)

                return call

            for name in CHANGES:
                setattr(os, name, dying(getattr(os, name)))
            run()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9
