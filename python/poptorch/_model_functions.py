"""The two functions that wrap a module."""

from __future__ import annotations

from typing import Any

import torch

from poptorch import enums
from poptorch._impl import createPoptorchError
from poptorch._poplar_executor import PoplarExecutor
from poptorch._strategies import PipelinedExecution
from poptorch._wrapping import check_may_be_wrapped
from poptorch.options import Options


def _user_module(model: Any) -> torch.nn.Module:
    module = model._user_model if isinstance(model, PoplarExecutor) else model
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"wanted a torch.nn.Module or a PoplarExecutor; given {type(model).__name__}. Put a "
            "function into the forward of a module"
        )
    return module


def _own_options(options: Any, mode: enums.OutputMode) -> Options:
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        raise createPoptorchError(
            f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)"
        )
    options._freeze()
    own = options.clone()
    if own.defaultOutputMode():
        own.outputMode(mode)
    own._freeze()
    return own


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """Wrap a module so that a call of it is a training step: forward, backward and update.

    Args:
        model: A module whose `forward` computes a loss, or another wrapper of such a module. Its
            class changes, so that its weights are read from the device where they are newer.
        options: How it is compiled and run; they are frozen. None: the defaults.
        optimizer: How weights are updated; None: SGD with a learning rate of 0.01.

    Returns:
        What is called in place of the module. It returns the results of the last micro-batch
        unless the options say otherwise.

    Raises:
        TypeError: `model` is no module.
        RuntimeError: The module is wrapped for training already.
        Error: `options` are no options, or a buffer of the module is no plain tensor.
    """
    module = _user_module(model)
    check_may_be_wrapped(module)
    own = _own_options(options, enums.OutputMode.Final)
    if optimizer is None:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    return PoplarExecutor(module, own, training=True, optimizer=optimizer)


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor, options: Options | None = None
) -> PoplarExecutor:
    """Wrap a module so that a call of it runs its forward pass as a program.

    Args:
        model: A module, or another wrapper of it, which then shares weights with this one.
        options: How it is compiled and run; they are frozen. None: the defaults.

    Returns:
        What is called in place of the module. It returns the results of all micro-batches unless
        the options say otherwise.

    Raises:
        TypeError: `model` is no module.
        Error: `options` are no options, or they ask for gradient accumulation.
    """
    module = _user_module(model)
    own = _own_options(options, enums.OutputMode.All)
    if own.Training.gradient_accumulation != 1:
        text = (
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its "
            "default value (1) when running a poptorch.inferenceModel()."
        )
        if isinstance(own._execution_strategy, PipelinedExecution):
            text += (
                " Use poptorch.Options().deviceIterations to process a sufficient number of "
                "batches each run for pipelined execution instead."
            )
        raise createPoptorchError(text)
    return PoplarExecutor(module, own, training=False)
