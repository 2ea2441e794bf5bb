"""Files and JSON that others wrote: read without waiting for ever, and refused with one error."""

from __future__ import annotations

import errno
import json
import os
import stat
from io import FileIO
from pathlib import Path
from typing import Any

# No manifest, header or configuration is larger.
_MOST_JSON_BYTES = 1 << 30

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Opens a regular file for reading, unbuffered.

    Args:
        path: The file.

    Returns:
        The open file.

    Raises:
        OSError: It cannot be opened, or it is a folder, a pipe or a device, which could block or
            have no end.
    """
    # Without O_NONBLOCK a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, no regular file", os.fspath(path))
    return FileIO(descriptor, "r")


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a regular file of JSON.

    Args:
        path: The file.

    Returns:
        What the JSON stands for.

    Raises:
        OSError: It cannot be read, or is no regular file.
        ValueError: It is no JSON, nested too deeply, or larger than 1 GiB.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_JSON_BYTES:
            raise ValueError(f"{Path(path)} has {size} bytes, too many for JSON")
        content = file.readall()
    return parse_json(content, str(path))


def parse_json(text: str | bytes, what: str) -> Any:
    """What JSON stands for.

    Args:
        text: The JSON.
        what: Where it comes from, for the error.

    Returns:
        The value.

    Raises:
        ValueError: It is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{what} is no JSON: {error}") from error
