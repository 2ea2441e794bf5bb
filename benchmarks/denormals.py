"""Flushes denormal floats to zero in this process, as Pando does while a program runs.

Every worker calls this before its framework is imported: a thread starts with the floating-point
environment of the thread that creates it, so the pools of the frameworks flush as well.
"""

from __future__ import annotations

import ctypes
import platform

# glibc's fenv_t on x86-64: 28 bytes of the x87 unit, then MXCSR.
_FENV_BYTES, _MXCSR = 32, 28
_FLUSH_TO_ZERO, _DENORMALS_ARE_ZERO = 1 << 15, 1 << 6


def flush_denormals() -> None:
    """Raises OSError where the processor's mode cannot be set: times would not compare."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise OSError(f"denormals can be flushed on x86-64 only, this is {platform.machine()}")
    libm = ctypes.CDLL("libm.so.6")
    environment = ctypes.create_string_buffer(_FENV_BYTES)
    if libm.fegetenv(environment) != 0:
        raise OSError("fegetenv failed")
    mxcsr = int.from_bytes(environment[_MXCSR:_FENV_BYTES], "little")
    mxcsr |= _FLUSH_TO_ZERO | _DENORMALS_ARE_ZERO
    environment[_MXCSR:_FENV_BYTES] = mxcsr.to_bytes(4, "little")
    if libm.fesetenv(environment) != 0:
        raise OSError("fesetenv failed")
