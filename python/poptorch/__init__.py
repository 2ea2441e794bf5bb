"""poptorch: train and run torch.nn.Modules as compiled programs."""

from __future__ import annotations

from poptorch import enums as enums
from poptorch import ops, testing
from poptorch import optim as optim
from poptorch import options as options
from poptorch import poptorch_core as poptorch_core
from poptorch import profiling as profiling
from poptorch._accessor import AsynchronousDataAccessor
from poptorch._args_parser import ICustomArgParser, registerCustomArgParser
from poptorch._compile_hooks import registerPostCompileHook, registerPreCompileHook
from poptorch._dataloader import DataLoader
from poptorch._devices import ipuHardwareIsAvailable, ipuHardwareVersion
from poptorch._errors import Error, RecoverableError, UnrecoverableError
from poptorch._file_tensors import parameters_in_files
from poptorch._impl import _OverwriteContextManager as _OverwriteContextManager
from poptorch._impl import createPoptorchError as createPoptorchError
from poptorch._impl import getIpuTensorId, isRunningOnIpu
from poptorch._import_effects import geometric_registration, install
from poptorch._load import load
from poptorch._logging import setLogLevel
from poptorch._memory_fit import FitPlan
from poptorch._model_functions import inferenceModel, trainingModel
from poptorch._module_repr import module_repr, print
from poptorch._poplar_executor import PoplarExecutor
from poptorch._saved_model import (
    importPoptorchMetadataFromFile as importPoptorchMetadataFromFile,
)
from poptorch._stages import Phase, Stage
from poptorch._strategies import (
    ParallelPhasedExecution,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
)
from poptorch._version import __version__
from poptorch.enums import *  # noqa: F403
from poptorch.ops import *  # noqa: F403
from poptorch.options import ConfigFileError, Options, TensorLocationSettings

__all__ = [
    "AsynchronousDataAccessor",
    "ConfigFileError",
    "DataLoader",
    "Error",
    "FitPlan",
    "ICustomArgParser",
    "Options",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
    "UnrecoverableError",
    "__version__",
    "enums",
    "getIpuTensorId",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "isRunningOnIpu",
    "load",
    "module_repr",
    "ops",
    "optim",
    "options",
    "parameters_in_files",
    "poptorch_core",
    "print",
    "profiling",
    "registerCustomArgParser",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "setLogLevel",
    "testing",
    "trainingModel",
    *enums.__all__,
    *ops.__all__,
]

install()
if (_register := geometric_registration()) is not None:
    registerGeometricCustomArgParsers = _register  # noqa: N816
    registerGeometricCustomArgParsers()
