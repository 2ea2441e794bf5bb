"""Runs on synthetic data: inputs that are made once, outputs that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl

_Array = np.ndarray[Any, Any]
# The modes, as the original's compiler counts them; 2 is normally distributed.
_ZEROS = 1
_UNIFORM = 3


class SyntheticData:
    """Arrays for the streams of a program in place of a caller's.

    Integers and bools are zeros, which are valid indices.

    Args:
        session: The session of the program.
        seed: The seed of the numbers.
        mode: How other numbers are: 1: zeros, 2: normally distributed, 3: uniform in [0, 1).
    """

    def __init__(self, session: popxl.Session, seed: int, mode: int) -> None:
        generator = np.random.default_rng(seed & 0xFFFFFFFF)
        draw = generator.random if mode == _UNIFORM else generator.standard_normal
        self.inputs: dict[popxl.HostToDeviceStream, _Array] = {}
        for stream in session.expected_inputs():
            shape = session._full_input_shape(stream.shape)
            kind = stream.dtype.as_numpy()
            is_drawn = stream.dtype.is_floating_point and mode != _ZEROS
            self.inputs[stream] = (
                draw(shape, np.float32).astype(kind) if is_drawn else np.zeros(shape, kind)
            )
        self.outputs = session.create_host_outputs()
