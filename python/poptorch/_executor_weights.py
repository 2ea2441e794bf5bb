"""Parameters and buffers between a module and the device, checkpoints, and the plan of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm

from pando import checkpoint
from pando.file_arrays import release_pages
from pando.transfer_parts import parts_of
from poptorch._impl import createPoptorchError
from poptorch._memory_fit import FitPlan
from poptorch._optimizer_device import DeviceOptimizer
from poptorch._private_torch import plain_functions
from poptorch._wrapping import (
    Members,
    count_host_weights,
    host_weights_version,
    sync_from_device,
    tensors_of,
)
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch._executable import Executable

# Transfers of fewer bytes are over before a bar can be read.
_SHOWN_BYTES = 1 << 30


def _release(tensors: Iterable[torch.Tensor]) -> None:
    """Takes tensors that are in files out of memory."""
    for tensor in tensors:
        release_pages(tensor.data_ptr())


class ExecutorWeights:
    """The methods of executors that move weights and state."""

    _options: Options
    _executable: Executable | None
    _model: torch.nn.Module
    _user_model: torch.nn.Module
    _training: bool
    _device_optimizer: DeviceOptimizer | None
    _members: Members
    _dirty_host_weights: bool
    # Whether the module has values that are to go to the device before the next run.
    _is_upload_due: bool
    _uploaded_version: int

    def _compiled(self) -> Executable:
        raise NotImplementedError

    def isAttachedToDevice(self) -> bool:
        """Whether the executor holds a device.

        Returns:
            Whether it does.
        """
        raise NotImplementedError

    def destroy(self) -> None:
        """Give up the program and the device, and take the wrapper off the user's module."""
        raise NotImplementedError

    def _host_tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers of the module by the names that the program has for them.

        In training they are those that it was made of, also where the module has others by now.
        """
        if self._training:
            return self._members.tensors
        return tensors_of(self._model, self._compiled().program.names)

    def _upload(self) -> None:
        executable, tensors = self._compiled(), self._host_tensors()
        self._members.check_tensors(tensors)
        self._is_upload_due = True
        self._dirty_host_weights = False
        remote = {name: t for name, t in tensors.items() if executable.variables.is_remote(name)}
        with torch.no_grad(), self._bar("to the device", remote) as bar:
            for names in parts_of({n: t.nbytes for n, t in tensors.items() if n not in remote}):
                executable.write({name: tensors[name] for name in names})
                _release(tensors[name] for name in names)
            for name, tensor in remote.items():
                executable.write({name: tensor})
                release_pages(tensor.data_ptr())
                bar.update(tensor.nbytes)
        self._is_upload_due = False
        self._uploaded_version = host_weights_version(self._user_model)

    def _finish_upload(self) -> None:
        """Uploads again what an error or Ctrl-C left half done."""
        if self._is_upload_due:
            self._upload()

    def _bar(self, direction: str, tensors: Mapping[str, torch.Tensor]) -> Any:
        total = sum(tensor.nbytes for tensor in tensors.values())
        is_shown = self._options.show_compilation_progress_bar and total >= _SHOWN_BYTES
        return tqdm(
            desc=f"Weights {direction}",
            total=total,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
            leave=False,
            disable=not is_shown,
        )

    def copyWeightsToHost(self) -> None:
        """Copy all parameters and buffers from the device to the user's module.

        Raises:
            Error: The model is not compiled, or a parameter was replaced since, or has another
                dtype or shape.
        """
        self._compiled()
        self._members.check()
        tensors = self._host_tensors()
        self._members.check_tensors(tensors)
        self._read_weights(tensors)

    def _written_tensors(self) -> dict[str, torch.Tensor]:
        """Those that a run changes."""
        written = self._compiled().program.written
        return {name: one for name, one in self._host_tensors().items() if name in written}

    def _read_weights(self, tensors: Mapping[str, torch.Tensor]) -> None:
        if self._is_upload_due:
            return  # the module has what the device is to get
        # Neither these nor others that train the same tensors must be asked for values meanwhile.
        with plain_functions():
            self._read_tensors(self._compiled(), tensors)
        # Not before all are read: after an error or Ctrl-C they are read again.
        self._dirty_host_weights = False
        if self._training:
            count_host_weights(self._user_model)

    def _read_tensors(self, executable: Executable, tensors: Mapping[str, torch.Tensor]) -> None:
        remote = {name: t for name, t in tensors.items() if executable.variables.is_remote(name)}
        here = {name: t for name, t in tensors.items() if name not in remote}
        if not executable.attached:
            remote = {}  # giving the device up brought them to the module
        with torch.no_grad(), self._bar("to the host", remote) as bar:
            for names in parts_of({name: tensor.nbytes for name, tensor in here.items()}):
                for name, value in executable.read(names).items():
                    _take(tensors[name], value)
                _release(tensors[name] for name in names)
            # One at a time: together they may be more than there is memory.
            for name, tensor in remote.items():
                _take(tensor, executable.read([name])[name])
                release_pages(tensor.data_ptr())
                bar.update(tensor.nbytes)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copy parameters and buffers to the host if the device changed them.

        Returns:
            Whether it had.
        """
        if not self._dirty_host_weights or self._executable is None:
            return False
        self._members.check()
        self._read_weights(self._written_tensors())
        return True

    def copyWeightsToDevice(self) -> None:
        """Copy parameters and buffers of the user's module to the device.

        Raises:
            Error: The model is not compiled, or a parameter was replaced since, or has another
                dtype or shape.
        """
        self._compiled()
        self._members.check()
        self._upload()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Load a state into the user's module and the device.

        Args:
            state_dict: Tensors by name.
            strict: Whether names must be exactly those of the module.

        Returns:
            The missing and the unexpected names.
        """
        result = self._user_model.load_state_dict(state_dict, strict)
        if self.isAttachedToDevice():
            self.copyWeightsToDevice()
        return result

    def _sync_from_training(self) -> None:
        """Of a module that is trained too, an inference run takes the newest weights."""
        sync_from_device(self._user_model)
        if host_weights_version(self._user_model) != self._uploaded_version:
            self._upload()

    # Memory.

    def fitPlan(self) -> FitPlan:
        """Give what was planned for the memory that `Options.fit_in` names.

        Returns:
            The plan; `print` shows it as a sentence.

        Raises:
            Error: The model is not compiled, or its options name no memory.
        """
        plan = self._compiled().plan
        if plan is None:
            raise createPoptorchError(
                "fitPlan: the options name no memory; Options().fit_in('4GiB', folder) does"
            )
        return plan

    # Checkpoints.

    def saveCheckpoint(
        self,
        folder: str | os.PathLike[str],
        *,
        step: int,
        extra: Mapping[str, Any] | None = None,
        generators: Mapping[str, np.random.Generator] | None = None,
        keep: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> checkpoint.Checkpoint:
        """Save weights, state of the optimizer and random state as `folder/step-...`.

        A checkpoint is durable and checksummed, and those before it stay until it is whole.

        Args:
            folder: The folder of checkpoints, made when missing.
            step: The number of runs so far.
            extra: What else belongs to it, as JSON can hold it.
            generators: NumPy generators by name, whose state `loadCheckpoint` brings back.
            keep: How many of the newest checkpoints stay; None: all.
            progress: Called with the bytes of each row of a remote buffer that has been written.

        Returns:
            The checkpoint.

        Raises:
            Error: The model is not compiled.
            CheckpointError: It cannot be written; earlier checkpoints stay as they are.
            ValueError: The model is not on a device, `step` is negative or `keep` less than 1.
        """
        executable = self._compiled()
        if executable.attached:
            self._finish_upload()
            if self._device_optimizer is not None:
                self._device_optimizer.write_loaded_state()
        return checkpoint.save(
            executable.session,
            folder,
            step=step,
            extra=extra,
            generators=generators,
            keep=keep,
            progress=progress,
        )

    def loadCheckpoint(
        self,
        folder: str | os.PathLike[str],
        *,
        generators: Mapping[str, np.random.Generator] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> checkpoint.Checkpoint:
        """Go on from the newest whole checkpoint, of the same model and options.

        Args:
            folder: The folder of checkpoints.
            generators: NumPy generators by name, which get their state back.
            progress: Called with the bytes of each row of a remote buffer that has been read.

        Returns:
            What was loaded.

        Raises:
            Error: The model is not compiled.
            CheckpointError: There is none, it is damaged or of another program.
            ValueError: The model is not on a device.
        """

        def restored() -> None:
            self._is_upload_due = False
            self._dirty_host_weights = self._training
            if self._device_optimizer is not None:
                self._device_optimizer.restored()

        return checkpoint.load(
            self._compiled().session,
            folder,
            generators=generators,
            progress=progress,
            restored=restored,
        )


def _take(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Gives a tensor of the module a new value."""
    if value.shape == tensor.shape:
        tensor.data.copy_(value)
    else:  # one value for each replica in place of each group
        tensor.data = value.to(tensor.dtype)
