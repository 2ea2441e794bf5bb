"""Tensors of torch whose memory is that of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from pando.file_arrays import file_array, folder_of, release_all_pages, release_pages

# Smaller tensors are not worth a file.
_LEAST_BYTES = 1 << 16
# What may be written before pages are given back.
_WRITTEN_BYTES = 128 << 20
Folder = str | os.PathLike[str]


def file_tensor(folder: Folder, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Make a tensor in a new file, which goes when the tensor goes.

    Args:
        folder: Where the file is.
        shape: The shape of the tensor.
        dtype: Its dtype.

    Returns:
        A tensor of zeros.

    Raises:
        OSError: The folder does not exist, or its disk is full.
    """
    size = torch.Size(shape).numel() * dtype.itemsize
    data = torch.from_numpy(file_array(folder, (size,), np.uint8))
    return data.view(dtype).view(shape)


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor, into a file if it is in one.

    Args:
        tensor: The tensor.

    Returns:
        The copy, contiguous if it is in a file.
    """
    folder = folder_of(tensor.data_ptr())
    if folder is None:
        return tensor.clone()
    copied = file_tensor(folder, tuple(tensor.shape), tensor.dtype)
    copied.copy_(tensor)
    for one in (tensor, copied):
        release_pages(one.data_ptr())
    return copied


def move_to_files(module: torch.nn.Module, folder: Folder) -> None:
    """Move the large parameters and buffers of a module to files; they stay the objects they are.

    Args:
        module: The module.
        folder: Where the files are.

    Raises:
        OSError: The folder does not exist, or its disk is full.
    """
    for tensor in (*module.parameters(), *module.buffers()):
        # The class of wrapped tensors would ask the device for newer values.
        data = torch.Tensor.as_subclass(tensor.detach(), torch.Tensor)
        if _is_large(data.nbytes) and data.is_cpu and folder_of(data.data_ptr()) is None:
            moved = file_tensor(folder, tuple(data.shape), data.dtype)
            moved.copy_(data)
            release_pages(moved.data_ptr())
            tensor.data = moved


def _is_large(size: int) -> bool:
    return size >= _LEAST_BYTES


def _device_of(arguments: Mapping[str, Any]) -> str:
    """The kind of device on which a function with these arguments makes a tensor."""
    device = arguments.get("device")
    return torch.get_default_device().type if device is None else torch.device(device).type


class _FileFactory(TorchFunctionMode):
    """Lets `torch.empty` take memory of files, and gives pages back that were written.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        self._folder = folder
        self._written = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a function of torch.

        Args:
            func: The function.
            types: The classes of its tensors.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What it returns, in a file if it is a large new tensor without values.
        """
        given = kwargs or {}
        if func is torch.empty and _device_of(given) == "cpu":
            # Memory that is taken and given back may stay with the process.
            like = func(*args, **{**given, "device": "meta"})
            if _is_large(like.nbytes) and like.is_contiguous():
                made = file_tensor(self._folder, tuple(like.shape), like.dtype)
                return made.requires_grad_(like.requires_grad)
        result = func(*args, **given)
        if isinstance(result, torch.Tensor) and result.is_cpu:
            self._note_written(result)
        return result

    def _note_written(self, result: torch.Tensor) -> None:
        if _is_large(result.nbytes) and folder_of(result.data_ptr()) is not None:
            self._written += result.nbytes
            if self._written > _WRITTEN_BYTES:
                self._written = 0
                release_all_pages()


@contextmanager
def parameters_in_files(folder: Folder) -> Iterator[None]:
    """Let modules that are made in the context have their parameters in files.

    A module of any size can then be made with little memory:

        with poptorch.parameters_in_files("/data/state"):
            model = transformers.GPT2LMHeadModel(config)

    What `torch.empty` makes on the CPU is in a file; so are the parameters of torch's own modules,
    which write their first values into such tensors.

    Args:
        folder: An existing folder, for files without names that go with the parameters.

    Yields:
        Nothing.

    Raises:
        OSError: The folder does not exist, or its disk is full.
    """
    with _FileFactory(folder):
        yield
    release_all_pages()
