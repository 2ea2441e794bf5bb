"""Work that a fault would make wait for ever."""

import threading
from collections.abc import Callable

WAIT = 60.0  # seconds


def run_in_time(work: Callable[[], None]) -> None:
    """Runs `work` on another thread. Raises what it does, and AssertionError if it does not end."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive(), "it waits for ever"
    for error in errors:
        raise error
