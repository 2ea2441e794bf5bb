"""Compiled models in files: the methods of executors that write and read them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from poptorch import enums
from poptorch._args_parser import BoundArguments, Signature
from poptorch._compilation import session_of
from poptorch._compile_options import use_cache
from poptorch._impl import createPoptorchError
from poptorch._logging import logger, session_messages
from poptorch._optimizer_base import NamedTensors
from poptorch._optimizer_device import DeviceOptimizer
from poptorch._replica_groups import ReplicaGroups
from poptorch._saved_model import Metadata, path_to_write, read_model, write_model
from poptorch._version import __version__
from poptorch._wrapping import in_modes
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch._executable import Executable

_SUFFIX = "*.popef"


def _only_file(folder: str) -> Path:
    file = next(Path(folder).glob(_SUFFIX), None)
    if file is None:
        raise createPoptorchError(
            f"The executable could not be written to the folder {folder}: make space in "
            f"{tempfile.gettempdir()}, or name another folder in TMPDIR"
        )
    return file


class ExecutorFiles:
    """The methods of executors that write and read files of compiled models."""

    _options: Options
    _executable: Executable | None
    _model: torch.nn.Module
    _signature: Signature
    _training: bool
    _per_replica: dict[str, ReplicaGroups]
    rng_state: list[int]
    _device_optimizer: DeviceOptimizer | None

    @property
    def _optimizer(self) -> torch.optim.Optimizer | None:
        raise NotImplementedError

    def _optimizer_state(self) -> dict[str, NamedTensors]:
        return {} if self._device_optimizer is None else self._device_optimizer.state_beside()

    def _compiled(self) -> Executable:
        raise NotImplementedError

    def _compile(self, bound: BoundArguments, cache: Path | None = None) -> None:
        raise NotImplementedError

    def _attach(self) -> None:
        raise NotImplementedError

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copy parameters and buffers to the host if the device changed them.

        Returns:
            Whether it had.
        """
        raise NotImplementedError

    def compileAndExport(
        self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any
    ) -> None:
        """Compile the model and save it, without running it; no device is needed.

        Args:
            filename: As for `save`.
            *args: Arguments of `forward`, of a whole combined batch.
            export_model: As for `save`.
            **kwargs: Arguments of `forward` by name.

        Raises:
            Error: The model cannot be compiled, or there is no space for temporary files.
            AssertionError: A folder of the file's path is a file.
        """
        path_to_write(filename)
        if self._executable is None:
            with tempfile.TemporaryDirectory() as folder:
                self._compile(self._signature.bind(args, kwargs), Path(folder))
                file = _only_file(folder)
                self._compiled().file = file.name, file.read_bytes()
            if self._options.connection_type == enums.ConnectionType.Always:
                self._attach()
        else:
            logger.warning(
                "compileAndExport: the arguments are ignored: the executable is already compiled"
            )
        self.save(filename, export_model=export_model)

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Save the compiled model, for `poptorch.load` or `loadExecutable`.

        Args:
            filename: The file, whose folder is made; in a folder, `model.poptorch`.
            export_model: Whether the module, which must then be picklable, with its weights and
                the optimizer are saved too.
            save_rng_state: Whether the state of the random numbers is.

        Raises:
            Error: The model is not compiled, or there is no space for temporary files.
            AssertionError: A folder of the file's path is a file.
            OSError: The file cannot be written, as on a full disk; one that was there stays.
        """
        executable = self._compiled()
        path = path_to_write(filename)
        if executable.file is None:
            executable.file = self._executable_file(executable)
        self.copyWeightsToHostIfNeeded()
        name, content = executable.file
        metadata = Metadata(
            version=__version__,
            args=executable.arguments.args,
            kwargs=executable.arguments.kwargs,
            options=self._options,
            training=self._training,
            executable_name=name,
            model=self._model if export_model else None,
            optimizer=self._optimizer if export_model else None,
            optimizer_state=self._optimizer_state() if export_model else {},
            rng_state=self.rng_state if save_rng_state else None,
            groups=self._per_replica,
            modes=executable.modes,
        )
        write_model(path, content, metadata)

    def _executable_file(self, executable: Executable) -> tuple[str, bytes]:
        """What the compiler writes for the program, which it compiles again for that."""
        ir = executable.program.ir
        settings = ir._pb_ir.getSessionOptions()
        before = settings.enableEngineCaching, settings.cachePath
        try:
            with tempfile.TemporaryDirectory() as folder, session_messages():
                use_cache(ir, folder)
                session_of(executable.program, self._options, executable.budget)
                file = _only_file(folder)
                return file.name, file.read_bytes()
        finally:
            settings.enableEngineCaching, settings.cachePath = before

    def loadExecutable(self, filename: str) -> None:
        """Take the executable of a file in place of compiling the model, which must be equal.

        Args:
            filename: A file that `save` or `compileAndExport` wrote for an equal model; the
                weights remain those of this one.

        Raises:
            Error: It is no such file, or of another version; or the model is compiled already.
        """
        self._take_executable(filename, *read_model(filename))

    def _take_executable(self, filename: str, content: bytes, metadata: Metadata) -> None:
        """Takes the executable of a file that was read."""
        if self._executable is not None:
            raise createPoptorchError(
                "loadExecutable: the model is compiled already; call destroy() first"
            )
        bound = self._signature.bind(metadata.args, metadata.kwargs)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / metadata.executable_name).write_bytes(content)
            with in_modes(self._model, metadata.modes):
                self._compile(bound, Path(folder))
        executable = self._compiled()
        if executable.was_read:
            executable.file = metadata.executable_name, content
        else:
            logger.warning(
                "The executable in %s is of another program, machine or version of Pando: the "
                "model was compiled anew",
                filename,
            )
        if self._options.connection_type == enums.ConnectionType.Always:
            self._attach()
