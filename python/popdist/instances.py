"""The instances of a run of several processes; there is one process here."""

from __future__ import annotations


def isPopdistEnvSet() -> bool:
    """Tell whether a launcher of several instances started this process.

    Returns:
        False.
    """
    return False


def getInstanceIndex() -> int:
    """Give the number of this instance.

    Returns:
        0.
    """
    return 0


def getNumInstances() -> int:
    """Count the instances.

    Returns:
        1.
    """
    return 1


def getNumTotalReplicas() -> int:
    """Count the replicas of all instances.

    Returns:
        1.
    """
    return 1


def getNumLocalReplicas() -> int:
    """Count the replicas of this instance.

    Returns:
        1.
    """
    return 1


def init() -> None:
    """Prepare the exchange between instances: nothing, for a single one."""


def isBackendInitialized() -> bool:
    """Tell whether the exchange between instances is prepared.

    Returns:
        False.
    """
    return False
