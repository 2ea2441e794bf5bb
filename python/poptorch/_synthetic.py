"""Runs on synthetic data: inputs that are made once, outputs that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl

_Array = np.ndarray[Any, Any]


class SyntheticData:
    """Arrays for the streams of a program in place of a caller's.

    Inputs have normally distributed numbers, integers and bools zeros, which are valid indices.

    Args:
        session: The session of the program.
        seed: The seed of the numbers.
    """

    def __init__(self, session: popxl.Session, seed: int) -> None:
        generator = np.random.default_rng(seed & 0xFFFFFFFF)
        self.inputs: dict[popxl.HostToDeviceStream, _Array] = {}
        for stream in session.expected_inputs():
            shape = session._full_input_shape(stream.shape)
            kind = stream.dtype.as_numpy()
            is_real = stream.dtype.is_floating_point
            self.inputs[stream] = (
                generator.standard_normal(shape, np.float32).astype(kind)
                if is_real
                else np.zeros(shape, kind)
            )
        self.outputs = session.create_host_outputs()
