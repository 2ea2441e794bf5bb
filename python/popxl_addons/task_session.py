"""A session that knows its streams and its state, and saves and loads checkpoints."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

import popxl
from pando.checkpoint import DamagedCheckpoint
from pando.checkpoint_folder import remove_folder, replaced_folder, whole_folder
from pando.given_files import open_regular, read_json
from popxl_addons import wandb_artifacts
from popxl_addons.named_tensors import NamedTensorData, NamedTensors
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.utils import WeightsDict, timer

_SESSION_INFO = "session_info.json"
_DATALOADER = "dataloader.bin"
# Bytes that one byte of a compressed archive can stand for.
_MOST_DEFLATED = 1032


def write_variables_pb(session: popxl.Session, weights: Mapping[Any, np.ndarray]) -> None:
    """Writes host values of variables, to the device too when the session is attached.

    Args:
        session: The session.
        weights: Variable -> array of its dtype and host shape.
    """
    session.write_variables_data(dict(weights))


def initialise_memmap_dir_from_checkpoint(
    checkpoint_dir: str | Path, memmap_dir: str | Path
) -> None:
    """Copies the memory-mapped files of a checkpoint.

    Args:
        checkpoint_dir: A folder or an artifact, as for `TaskSession.load_checkpoint`.
        memmap_dir: The folder for the copies, made when missing; `~` is the home folder.

    Raises:
        CheckpointError: There is no such checkpoint.
        DamagedCheckpoint: A file of it is not what was written.
        ImportError: It is an artifact and wandb is not installed.
    """
    with _checked_folder(checkpoint_dir) as folder:
        target = Path(memmap_dir).expanduser()
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted((folder / "model").glob("*.npy")):
            shutil.copy(path, target / path.name)


def _report_missing(kind: str, here: Iterable[str], there: Iterable[str], how: str) -> None:
    """Tells about names on one side only: "none", "warn" (log) or "error" (ValueError)."""
    if how not in ("none", "warn", "error"):
        raise ValueError(f"report_missing must be 'none', 'warn' or 'error'; got {how!r}.")
    only_here = sorted(set(here) - set(there))
    only_there = sorted(set(there) - set(here))
    if how == "none" or not (only_here or only_there):
        return
    message = f"{kind} only in the session: {only_here}; only in the source: {only_there}."
    if how == "error":
        raise ValueError(message)
    logging.warning(message)


def _local_folder(checkpoint_dir: str | Path) -> Path:
    return Path(os.path.abspath(Path(checkpoint_dir).expanduser()))


@contextmanager
def _checked_folder(
    checkpoint_dir: str | Path, may_lack: Callable[[str], bool] = lambda _: False
) -> Iterator[Path]:
    """The folder with the content of a checkpoint, which has been compared with its checksums; of
    an artifact, while the body runs. `may_lack`: whether a file of this name may be missing."""
    if wandb_artifacts.is_artifact(checkpoint_dir):
        with wandb_artifacts.downloaded(checkpoint_dir) as folder:
            yield _whole_folder(folder, may_lack)
    else:
        yield _whole_folder(_local_folder(checkpoint_dir), may_lack)


def _is_reported_when_missing(name: str) -> bool:
    """Whether the lack of a checkpoint's file is a matter of `report_missing`."""
    return name == _SESSION_INFO or name.startswith("model/")


def _whole_folder(given: Path, may_lack: Callable[[str], bool]) -> Path:
    folder, checked = whole_folder(given, may_lack)
    if not checked:
        logging.warning(
            "%s has no manifest.json: another program wrote it, and whether it is whole is not "
            "known.",
            folder,
        )
    return folder


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = read_json(path)
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error}") from error
    if not isinstance(state, dict):
        raise DamagedCheckpoint(f"{path}: wanted names and values; found {type(state).__name__}")
    return state


def _check_array_size(file: IO[bytes], key: str) -> None:
    """ValueError where the header of an archive's array counts more than the archive can hold."""
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(f"{key}.npy")
        with archive.open(entry) as stored:
            version = np.lib.format.read_magic(stored)
            read = np.lib.format.read_array_header_1_0
            if version != (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _, kind = read(stored)
    packed = min(entry.compress_size, os.fstat(file.fileno()).st_size)
    growth = 1 if entry.compress_type == zipfile.ZIP_STORED else _MOST_DEFLATED
    if math.prod(shape) * kind.itemsize > packed * growth:
        raise ValueError(f"an array of shape {shape} and dtype {kind} in {packed} bytes")
    file.seek(0)


def _read_tensor(path: Path, key: str) -> np.ndarray:
    """The array `key` of an archive of NumPy's. DamagedCheckpoint."""
    try:
        with BufferedReader(open_regular(path)) as file:
            _check_array_size(file, key)
            with np.load(file) as archive:
                value: np.ndarray = archive[key]
                return value
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedCheckpoint(f"{path} cannot be read: {error}") from error


class TaskSession(popxl.Session):
    """A popxl session with named streams, named variables and values that belong to the run.

    `session_state` is a dict of those values, with the number of `steps`.

    Args:
        inputs: The input streams; others than InputStreams get their `tensor_id` as names.
        outputs: The output streams, likewise.
        state: The variables that checkpoints hold; None means none.
        max_checkpoints: How many folders that this session saved stay.
        *args: Arguments of `popxl.Session`: the Ir, the device and so on.
        model: The older name of `state`.
        **kwargs: Keyword arguments of `popxl.Session`.
    """

    def __init__(
        self,
        inputs: InputStreams | Iterable[popxl.HostToDeviceStream],
        outputs: OutputStreams | Iterable[popxl.DeviceToHostStream],
        state: NamedTensors | None = None,
        max_checkpoints: int = 1,
        *args: Any,
        model: NamedTensors | None = None,
        **kwargs: Any,
    ) -> None:
        self.inputs = (
            inputs if isinstance(inputs, InputStreams) else InputStreams.from_streams(inputs)
        )
        self.outputs = (
            outputs if isinstance(outputs, OutputStreams) else OutputStreams.from_streams(outputs)
        )
        chosen = state if state is not None else model
        self.state = chosen if chosen is not None else NamedTensors()
        self.max_checkpoints = max_checkpoints
        self.session_state: dict[str, Any] = {"steps": 0}
        self._saved: list[Path] = []
        self._dataloader: Any = None
        with timer("PopXL compilation"):
            super().__init__(*args, **kwargs)

    @property
    def model(self) -> NamedTensors:
        """The older name of `state`."""
        return self.state

    def run(self, inputs: Any = None, downcast_inputs: bool = True) -> Any:
        """Runs the program once, as `popxl.Session.run`, and counts the step.

        Args:
            inputs: Stream -> array; None for a program without inputs.
            downcast_inputs: Whether 64-bit data may be converted to 32 bits.

        Returns:
            Stream -> array of what the program stored.
        """
        self.session_state["steps"] += 1
        return super().run(inputs, downcast_inputs)

    # Values ---------------------------------------------------------------------------------

    def get_named_tensors_data(self) -> NamedTensorData:
        """The values of `state`.

        Returns:
            Host arrays under the same keys; they are views that later transfers change.
        """
        tensors = self.state.to_dict()
        values = self.get_tensors_data(list(tensors.values()))
        return NamedTensorData.from_dict({key: values[t] for key, t in tensors.items()})

    def load_from_session(self, src: TaskSession, report_missing: str = "none") -> None:
        """Copies the values under the keys that both sessions have.

        Args:
            src: The session whose values are taken.
            report_missing: What happens to keys of one side only: "none", "warn" (logged) or
                "error".

        Raises:
            ValueError: There are such keys and `report_missing` is "error", or it is none of the
                three.
        """
        mine, theirs = self.state.to_dict(), src.state.to_dict()
        _report_missing("Tensors", mine, theirs, report_missing)
        values = src.get_tensors_data(list(theirs.values()))
        common = {mine[key]: values[t].copy() for key, t in theirs.items() if key in mine}
        self.write_variables_data(WeightsDict(common))

    def add_session_state_info(self, info: Mapping[str, Any]) -> None:
        """Merges values into `session_state`.

        Args:
            info: Name -> value; what a checkpoint shall hold must be JSON.
        """
        self.session_state.update(info)

    # Logs -----------------------------------------------------------------------------------

    def wandb_histogram(self, name: str, step: int, data: np.ndarray) -> None:
        """Logs a histogram to wandb.

        The finite values go to `<name>:histogram`, the number of others to `<name>:not_finite`.

        Args:
            name: The name of the histogram.
            step: The step that it belongs to.
            data: Numbers of any shape.

        Raises:
            ImportError: wandb is not installed.
        """
        import wandb

        finite = np.isfinite(data)
        values = {
            f"{name}:histogram": wandb.Histogram(data[finite]),
            f"{name}:not_finite": int(np.count_nonzero(~finite)),
        }
        wandb.log(values, step=step)

    def wandb_variable_histograms(self, step: int = 0) -> None:
        """Logs a histogram of every tensor of `state`.

        Args:
            step: The step that they belong to.

        Raises:
            ImportError: wandb is not installed.
        """
        for name, data in self.get_named_tensors_data().to_dict().items():
            self.wandb_histogram(name, step, data)

    # Data loader ----------------------------------------------------------------------------

    @property
    def dataloader(self) -> Any:
        """What feeds the session; checkpoints hold its state."""
        if self._dataloader is None:
            logging.warning("The session has no dataloader.")
        return self._dataloader

    @dataloader.setter
    def dataloader(self, dataloader: Any) -> None:
        if not (hasattr(dataloader, "save") and hasattr(dataloader, "resume")):
            raise ValueError(
                f"A dataloader needs the methods save and resume; {type(dataloader).__name__} "
                "does not have both."
            )
        self._dataloader = dataloader

    # Checkpoints ----------------------------------------------------------------------------

    def save_checkpoint(self, checkpoint_dir: str | Path) -> None:
        """Saves `state`, the data loader and `session_state`.

        A folder takes its place when it is whole and durable: a process that is killed leaves what
        was there before. Beyond `max_checkpoints` folders saved by this session the oldest is
        deleted.

        Args:
            checkpoint_dir: A folder, or `wandb://name` to upload it as a new version of the
                artifact `name` of the running run of wandb. Versions are not deleted.

        Raises:
            CheckpointError: It cannot be written or uploaded, or there is no run of wandb.
            ImportError: It is an artifact and wandb is not installed.
            ValueError: The artifact has no name, or one with a project or version.
        """
        if wandb_artifacts.is_artifact(checkpoint_dir):
            wandb_artifacts.check_artifact(checkpoint_dir)
            with tempfile.TemporaryDirectory(prefix="pando-wandb-") as root:
                folder = Path(root) / "checkpoint"
                self._write_checkpoint(folder)
                wandb_artifacts.upload(folder, checkpoint_dir)
            return
        folder = _local_folder(checkpoint_dir)
        self._write_checkpoint(folder)
        self._forget_old_checkpoints(folder)

    def _write_checkpoint(self, folder: Path) -> None:
        tensors = self.state.to_dict()
        values = self.get_tensors_data(list(tensors.values()))
        with replaced_folder(folder) as writing:
            model = writing / "model"
            model.mkdir()
            for key, tensor in tensors.items():
                value = values[tensor]
                if isinstance(value, np.memmap) and value.filename is not None:
                    value.flush()
                    shutil.copy(value.filename, model / Path(value.filename).name)
                else:
                    arrays: dict[str, Any] = {key: value}
                    np.savez(model / f"{key}.npz", **arrays)
            if self._dataloader is not None:
                self._dataloader.save(str(writing / _DATALOADER))
            text = json.dumps(self.session_state)
            (writing / _SESSION_INFO).write_text(text, encoding="utf-8")

    def _forget_old_checkpoints(self, newest: Path) -> None:
        self._saved = [path for path in self._saved if path != newest] + [newest]
        while len(self._saved) > self.max_checkpoints:
            remove_folder(self._saved.pop(0))

    def load_checkpoint(
        self, checkpoint_dir: str | Path, report_missing: str = "warn", skip_memmap: bool = False
    ) -> None:
        """Reads what `save_checkpoint` wrote.

        Files of variables in memory-mapped files are not read: those have their data.

        Args:
            checkpoint_dir: A folder, or an artifact of wandb `wandb://name` or
                `wandb://entity/project/name:version`, which is downloaded.
            report_missing: What happens when `state` and the checkpoint, or their session states,
                do not have the same names: "none", "warn" (a log message) or "error". The others
                are loaded. A checkpoint without `session_info.json` counts as one of 0 steps.
            skip_memmap: Has no effect.

        Raises:
            CheckpointError: There is no checkpoint.
            DamagedCheckpoint: A file is damaged; the message names it, and nothing is changed.
            ValueError: Names are missing and `report_missing` is "error"; nothing is changed.
            ImportError: An artifact is named and wandb is not installed.
        """
        with _checked_folder(checkpoint_dir, _is_reported_when_missing) as folder:
            self._load_folder(folder, report_missing)

    def _load_folder(self, folder: Path, report_missing: str) -> None:
        files = {path.stem: path for path in sorted((folder / "model").glob("*.npz"))}
        tensors = self.state.to_dict()
        info = folder / _SESSION_INFO
        state = _read_state(info) if info.exists() else {"steps": 0}
        _report_missing("Tensors", tensors, files, report_missing)
        _report_missing("Session state", self.session_state, state, report_missing)
        weights: Any = WeightsDict()
        for key in tensors.keys() & files.keys():
            weights[tensors[key]] = _read_tensor(files[key], key)
        self.write_variables_data(weights)
        if self._dataloader is not None and (folder / _DATALOADER).exists():
            self._dataloader.resume(filename=str(folder / _DATALOADER))
            logging.info("Dataloader state: %s", self._dataloader.get_state())
        self.session_state.update(state)
