"""Waiting with a deadline: a test polls for what it needs and fails if it does not come."""

import time


def wait_until(condition, timeout_s, what, interval_s=0.02):
    """Calls condition() until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"within {timeout_s} s: not {what() if callable(what) else what}")
        time.sleep(interval_s)
