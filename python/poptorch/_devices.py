"""Virtual devices: how many a model needs, and whether it may have them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from poptorch._impl import createPoptorchError
from poptorch._logging import logger
from poptorch.enums import ConnectionType
from poptorch.options import Options

# The most virtual devices of one process.
MAX_DEVICES = 64
_FALSE_TEXTS = ("", "0", "false", "no", "off")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() not in _FALSE_TEXTS


def _environment_wants_model() -> bool:
    return _is_set("POPTORCH_IPU_MODEL") or _is_set("POPTORCH_SMALL_IPU_MODEL")


def uses_model(options: Options) -> bool:
    """Tell whether options or the environment ask for a model of the device.

    Args:
        options: The options, which stand over the environment.

    Returns:
        Whether they do.
    """
    chosen = options.use_ipu_model
    return _environment_wants_model() if chosen is None else bool(chosen)


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Tell whether so many virtual devices can be had, other than as a model.

    Args:
        num_ipus: Their number.

    Returns:
        True for 1 to 64, unless POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set.
    """
    return 1 <= num_ipus <= MAX_DEVICES and not _environment_wants_model()


def ipuHardwareVersion() -> int:
    """Give the version of the devices.

    Returns:
        2.

    Raises:
        AssertionError: Only a model is available.
    """
    assert ipuHardwareIsAvailable(), "No IPU hardware available on this system"
    return 2


def devices_per_replica(ipu_ids: Iterable[int]) -> int:
    """Count the devices that a replica needs.

    Args:
        ipu_ids: The devices of all its ops.

    Returns:
        The highest number plus 1.

    Raises:
        Error: There are no ops.
    """
    ids = set(ipu_ids)
    if not ids:
        raise createPoptorchError(
            "Your compiled model is empty (All the operations have been optimised out)"
        )
    return max(len(ids), max(ids) + 1)


def devices_to_reserve(num_devices: int, options: Options) -> int:
    """Check the number of devices of a model.

    Args:
        num_devices: The devices of all replicas in this process.
        options: The model's options.

    Returns:
        The number of devices to take, which may be more.

    Raises:
        Error: There are too many, or another number than a power of 2 without
            `autoRoundNumIPUs`; or a model of the device was asked for without connecting to it.
    """
    on_model = uses_model(options)
    if on_model and options.connection_type == ConnectionType.Never:
        raise createPoptorchError(
            "ConnectionType.Never / poptorch.Options.useOfflineIpuTarget not supported for the IPU "
            "model"
        )
    if num_devices > MAX_DEVICES:
        raise createPoptorchError(
            f"Too many IPUs requested ({num_devices}). Experiments that need more than "
            f"{MAX_DEVICES} IPUs require distributed execution."
        )
    reserved = 1 << (num_devices - 1).bit_length()
    if on_model or reserved == num_devices:
        return num_devices
    text = (
        f"The model specifies the use of {num_devices} IPUs, however PopTorch must reserve a "
        f"minimum of {reserved} in order to allow the model to run, because PopTorch must reserve "
        f"a power of 2 or maximum of {MAX_DEVICES} IPUs per process."
    )
    if not options.auto_round_num_ipus:
        raise createPoptorchError(
            f"{text} Please reconfigure your model to use a different number of IPUs or set "
            "poptorch.Options().autoRoundNumIPUs(True)."
        )
    logger.warning("%s The other %d are idle.", text, reserved - num_devices)
    return reserved
