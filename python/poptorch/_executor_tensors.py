"""What an executor tells of tensors inside its program: anchors, random state, buffers, ops."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

import popxl
from poptorch import enums
from poptorch._batching import OutputSizes, Result
from poptorch._impl import createPoptorchError
from poptorch._lower.dtypes import torch_dtype
from poptorch._lower.program import SEED_VARIABLE, Program
from poptorch._popart_ops import ops_of_program
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch._executable import Executable


class ExecutorTensors:
    """The methods of executors that read and write single tensors."""

    _options: Options
    _executable: Executable | None
    _model: torch.nn.Module
    _training: bool
    _output_sizes: OutputSizes
    _anchored: dict[str, torch.Tensor]

    def _compiled(self) -> Executable:
        raise NotImplementedError

    # Anchors.

    def getTensorNames(self) -> list[str]:
        """List the tensors that `Options.anchorTensor` can return.

        Returns:
            The names of inputs, parameters, buffers, and of what each operator gives; in training
            also those of gradients, updated parameters and what the optimizer keeps.

        Raises:
            AssertionError: The model is not compiled.
        """
        assert self._executable is not None, "Model must be compiled before calling getTensorNames"
        return list(self._executable.tensor_names)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """Give a tensor that `Options.anchorTensor` asked for, of the last run.

        Args:
            short_name: The name that it has there.

        Returns:
            Its values, with a first dimension as that of results: (n * count, ...). What changes
            with an update only, as a gradient or a state, is the same for all its micro-batches.

        Raises:
            AssertionError: There is none of that name, or no run yet.
        """
        assert short_name in self._anchored, f"No tensor with name {short_name} found."
        return self._anchored[short_name]

    def _anchor_memory(self, program: Program) -> dict[popxl.DeviceToHostStream, Result]:
        """Memory for what anchors name beside tensors of the forward pass, by stream."""
        if not program.anchored:
            return {}
        sizes = replace(self._output_sizes, mode=enums.OutputMode.All)
        steps = sizes.batches.steps
        return {
            stream: sizes.make(stream.shape, torch_dtype(stream.dtype), steps)
            for stream in program.anchored.values()
        }

    def _keep_anchors(
        self,
        executable: Executable,
        streamed: Sequence[torch.Tensor],
        others: Mapping[popxl.DeviceToHostStream, Result],
    ) -> None:
        """Keeps what a run gave beside the results."""
        self._anchored = dict(zip(executable.anchors, streamed, strict=True))
        if not executable.other_anchors:
            return
        sizes = self._output_sizes
        stored = sizes.batches.device_iterations if self._training else 1
        for short_name, name in executable.other_anchors.items():
            stream = executable.program.anchored[name]
            self._anchored[short_name] = sizes.of_updates(
                others[stream].tensor(), stream.shape, stored
            )

    # Buffers.

    def copyNamedBuffersToDevice(self) -> None:
        """Copy the buffers that `Options.updatableNamedBuffers` names to the device, and no others.

        Raises:
            Error: The model is not compiled, no buffers are named, or one is not in the program.
        """
        executable = self._compiled()
        names = self._options.updatable_named_buffers
        if not names:
            raise createPoptorchError(
                "No named buffers marked as updatable via updatableNamedBuffers option"
            )
        buffers = dict(self._model.named_buffers())
        known = [name for name in executable.program.names if name in buffers]
        if unknown := [name for name in names if name not in known]:
            raise createPoptorchError(
                f"updatableNamedBuffers names {unknown}; the buffers of the model are {known}"
            )
        executable.write({name: buffers[name] for name in names})

    # Random numbers.

    @property
    def rng_state(self) -> list[int]:
        """The state of the random numbers: the seed, then the words of each replica's state.

        Raises:
            Error: The model is not compiled.
        """
        executable = self._compiled()
        words = executable.variables.get_variable(SEED_VARIABLE)
        return [executable.seed, *map(int, np.ravel(words))]

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        executable = self._compiled()
        words = executable.variables.get_variable(SEED_VARIABLE)
        given = [int(word) for word in state]
        if len(given) != words.size + 1 or any(not 0 <= word < 2**32 for word in given[1:]):
            raise createPoptorchError(
                f"rng_state: wanted a seed and {words.size} words from 0 to {2**32 - 1}, as "
                f"another executor's rng_state gives them; given {list(state)}"
            )
        executable.seed = given[0]
        array = np.array(given[1:], np.uint32).reshape(words.shape)
        executable.variables.set_variables({SEED_VARIABLE: array})

    # Ops.

    def _debugGetPopartIR(self) -> str:
        """The ops of the program as JSON, in their order; those of graphs where they are called.

        Types are those of this compiler, but for `Restore`, `MultiConv`, `AdamVarUpdate` and
        `SGD0VarUpdate`, which programs search for. What a pipeline keeps between stages is carried
        by its loop: there is no `Stash`.
        """
        executable = self._executable
        if executable is None:
            return "unavailable: the model is not compiled"
        weights = {name for name, _ in self._model.named_parameters()}
        ops = ops_of_program(executable.program.ir.main_graph._pb, weights)
        return json.dumps({"maingraph": ops})
