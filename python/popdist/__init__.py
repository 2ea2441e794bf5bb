"""Runs of several processes. There is one process here, and these are its answers."""

from __future__ import annotations


def isPopdistEnvSet() -> bool:
    """Whether a launcher of several instances started this process."""
    return False


def getInstanceIndex() -> int:
    return 0


def getNumInstances() -> int:
    return 1


def getNumTotalReplicas() -> int:
    return 1


def getNumLocalReplicas() -> int:
    return 1


def init() -> None:
    """Nothing to prepare for a single process."""


def isBackendInitialized() -> bool:
    return False
