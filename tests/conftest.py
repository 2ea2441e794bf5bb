"""What all Python tests need before they start."""

import signal


def pytest_configure() -> None:
    """Whoever started the tests may ignore SIGINT, as `nohup` and background jobs do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
