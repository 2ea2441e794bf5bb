"""Runs of several processes. There is one process here, and these are its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pando.missing_names import missing_names


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


_INSTEAD = {
    "configureSessionOptions": "it is popdist.popart.configureSessionOptions",
    "getDevice": "it is popdist.popart.getDevice",
}

if not TYPE_CHECKING:
    __getattr__ = missing_names(__name__, _INSTEAD)
