"""Executors from files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poptorch._model_functions import inferenceModel, trainingModel
from poptorch._optimizer_state import state_of
from poptorch._poplar_executor import PoplarExecutor
from poptorch._saved_model import read_model
from poptorch.enums import ConnectionType
from poptorch.options import Options

# What may be chosen anew for a compiled model.
_RUN_TIME_OPTIONS = ("use_ipu_model", "ipu_id", "connection_type", "log_dir", "max_repeat_logs")


def _options_to_run(stored: Options, edit: Callable[[Options], Any] | None) -> Options:
    """The options of a file, of which only those of the run are edited."""
    options = stored.clone()
    if edit is not None:
        edited = stored.clone()
        edit(edited)
        for name in _RUN_TIME_OPTIONS:
            options._store(name, edited(name))
    options._store("offline_ipu_version", None)
    if options.connection_type == ConnectionType.Never:
        options.connectionType(ConnectionType.Always)
    return options


def load(filename: str, edit_opts_fn: Callable[[Options], Any] | None = None) -> PoplarExecutor:
    """Make an executor of a file that `PoplarExecutor.save` or `compileAndExport` wrote.

    The file says what is executed: load only files of those whose programs you would run.

    Args:
        filename: The file, of a model that was saved with it.
        edit_opts_fn: Changes the options that it is given. Only those of the run have an effect:
            the device, the connection, the folder and repetitions of logs. The connection Never
            becomes Always.

    Returns:
        The executor, with the module, its weights, the optimizer with its state and the state of
        the random numbers. It is attached unless the options say otherwise, and not connected to
        other executors.

    Raises:
        AssertionError: The file has no module, or is of another version.
        Error: It is no such file.
    """
    content, metadata = read_model(filename, AssertionError)
    assert metadata.model is not None, (
        f"{filename} was created with 'export_model=False': it has no module. Wrap the module and "
        "call loadExecutable on the wrapper"
    )
    options = _options_to_run(metadata.options, edit_opts_fn)
    if metadata.training:
        executor = trainingModel(metadata.model, options, metadata.optimizer)
        if metadata.optimizer is not None and metadata.optimizer_state:
            state_of(metadata.optimizer).set_state_dict(metadata.optimizer_state)
    else:
        executor = inferenceModel(metadata.model, options)
    executor._per_replica.update(metadata.groups)
    executor._take_executable(filename, content, metadata)
    if metadata.rng_state is not None:
        executor.rng_state = metadata.rng_state
    return executor
