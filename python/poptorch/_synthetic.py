"""Runs on synthetic data: inputs that are made once, outputs that nobody reads."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl
from poptorch._options_batching import SyntheticDataMode

_Array = np.ndarray[Any, Any]


class SyntheticData:
    """Arrays for the streams of a program in place of a caller's.

    Integers and bools are zeros, which are valid indices.

    Args:
        session: The session of the program.
        seed: The seed of the numbers.
        mode: How other numbers are made.
    """

    def __init__(self, session: popxl.Session, seed: int, mode: SyntheticDataMode) -> None:
        generator = np.random.default_rng(seed & 0xFFFFFFFF)
        draw = generator.random if mode == SyntheticDataMode.UNIFORM else generator.standard_normal
        self.inputs: dict[popxl.HostToDeviceStream, _Array] = {}
        for stream in session.expected_inputs():
            shape = session._full_input_shape(stream.shape)
            kind = stream.dtype.as_numpy()
            is_drawn = stream.dtype.is_floating_point and mode != SyntheticDataMode.ZEROS
            self.inputs[stream] = (
                draw(shape, np.float32).astype(kind) if is_drawn else np.zeros(shape, kind)
            )
        self.outputs = session.create_host_outputs()

    def run(self, session: popxl.Session) -> None:
        """Run the program.

        Args:
            session: The session of the program.
        """
        session.run_with_outputs(self.inputs, self.outputs)
