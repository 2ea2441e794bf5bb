"""What all Python tests need before they start."""

import signal

import pytest

# Half a minute and more each.
LONG_FILES = {
    "test_accessor.py",
    "test_benchmarks.py",
    "test_phased_execution.py",
    "test_random_sessions.py",
    "test_slot_collate.py",
    "test_torch_gpt.py",
    "test_tutorial_documents.py",
    "test_whole_models.py",
}


def pytest_configure() -> None:
    """Whoever started the tests may ignore SIGINT, as `nohup` and background jobs do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: of several processes none is left with one when the others are done."""
    items.sort(key=lambda item: item.path.name not in LONG_FILES)
