"""Checkpoint folders as artifacts of Weights & Biases: paths that begin with `wandb://`.

The package wandb is imported only here, when such a path is used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pando.checkpoint import CheckpointError

# A pathlib.Path drops one of the two slashes.
_SCHEME = "wandb:"
_TYPE = "model"


def is_artifact(path: str | Path) -> bool:
    """Whether a path names an artifact of wandb.

    Args:
        path: Text or path.

    Returns:
        True for `wandb://name` and `wandb://entity/project/name:alias`.
    """
    return str(path).startswith(_SCHEME)


def _name(path: str | Path) -> str:
    name = str(path).removeprefix(_SCHEME).strip("/")
    if not name:
        raise ValueError(f"{str(path)!r} names no artifact: give wandb://name")
    return name


def _wandb(path: str | Path) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise ImportError(f"{path} needs the package wandb: pip install wandb") from error
    return wandb


def check_artifact(path: str | Path) -> None:
    """Raises what stands against an upload.

    Args:
        path: `wandb://name`.

    Raises:
        ImportError: wandb is not installed.
        ValueError: The path has no name, or one with a project or version.
        CheckpointError: There is no run of wandb that it can belong to.
    """
    name = _name(path)
    if "/" in name or ":" in name:
        raise ValueError(
            f"{path}: a checkpoint is saved in the project of the running wandb run, as the newest "
            f"version: give wandb://name, not {name!r}"
        )
    if _wandb(path).run is None:
        raise CheckpointError(f"{path}: artifacts belong to a run: call wandb.init() first")


def upload(folder: Path, path: str | Path) -> None:
    """Logs the files of a folder as a new version of an artifact of the running run.

    Returns when the server has it; an offline run keeps it for `wandb sync`.

    Args:
        folder: The folder.
        path: `wandb://name`.

    Raises:
        ImportError: wandb is not installed.
        ValueError: The path has no name, or one with a project or version.
        CheckpointError: There is no run, or the server does not take it.
    """
    check_artifact(path)
    wandb = _wandb(path)
    artifact = wandb.Artifact(_name(path), type=_TYPE)
    artifact.add_dir(str(folder))
    try:
        logged = wandb.run.log_artifact(artifact)
        if not wandb.run.offline:
            logged.wait()
    except (wandb.Error, ValueError) as error:
        raise CheckpointError(f"{path} cannot be uploaded: {error}") from error


@contextmanager
def downloaded(path: str | Path) -> Iterator[Path]:
    """The files of an artifact, while the body runs.

    A running run is told that it uses the artifact.

    Args:
        path: `wandb://name` or with all parts `wandb://entity/project/name:alias`; the version is
            `latest` unless the path names another one.

    Yields:
        The folder with the files, which is removed at the end.

    Raises:
        ImportError: wandb is not installed.
        ValueError: The path has no name.
        CheckpointError: There is no such artifact, or the server cannot be reached.
    """
    name = _name(path)
    wandb = _wandb(path)
    full = name if ":" in name else f"{name}:latest"
    with tempfile.TemporaryDirectory(prefix="pando-wandb-") as root:
        try:
            running = wandb.run is not None and not wandb.run.offline
            source = wandb.run.use_artifact if running else wandb.Api().artifact
            folder = source(full, type=_TYPE).download(root=root)
        except (wandb.Error, ValueError, OSError) as error:
            raise CheckpointError(f"{path} cannot be downloaded: {error}") from error
        yield Path(folder)
