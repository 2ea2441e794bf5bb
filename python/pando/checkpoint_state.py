"""What a checkpoint holds: from a session's snapshot to files, and back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pando import _core
from pando.checkpoint_files import (
    MANIFEST,
    CheckpointError,
    DamagedCheckpoint,
    WrongCheckpoint,
)
from pando.safetensors_file import (
    TensorEntry,
    TensorFileReader,
    TensorFileWriter,
    checksum,
)

# More differences than these are counted only.
_MOST_DIFFERENCES = 10


def _dtype_name(dtype: Any) -> str:
    return str(dtype.name)


def _variables(core: Any) -> list[tuple[int, TensorEntry]]:
    """Persistent tensors with state: their index and description."""
    tensors = core.persistent
    return [
        (
            int(index),
            TensorEntry(
                tensors[index].id,
                _dtype_name(tensors[index].dtype),
                tuple(tensors[index].shape),
                int(_core.dtype_bytes(tensors[index].dtype)),
            ),
        )
        for index in core.state_tensors
    ]


def _buffers(core: Any) -> list[TensorEntry]:
    """One entry per remote buffer, with the slots as the first axis."""
    return [
        TensorEntry(
            f"remote_buffer_{buffer.id}",
            _dtype_name(buffer.dtype),
            (int(buffer.entries), *buffer.shape),
            int(_core.dtype_bytes(buffer.dtype)),
        )
        for buffer in core.remote_buffers
    ]


def model_of(core: Any) -> dict[str, Any]:
    """What a checkpoint and a program must agree on.

    Args:
        core: The core's session.

    Returns:
        Replicas, variables and remote buffers with dtypes and shapes, for JSON.
    """

    def described(entries: list[TensorEntry]) -> dict[str, Any]:
        return {e.name: {"dtype": e.dtype, "shape": list(e.shape)} for e in entries}

    return {
        "replicas": int(core.num_replicas),
        "variables": described([entry for _, entry in _variables(core)]),
        "remote_buffers": described(_buffers(core)),
    }


class StateWriter:
    """Writes one snapshot to files in a folder.

    Args:
        core: The core's session.
        snapshot: Its rows of remote buffers of one moment.
        values: What has the variables of that moment: the snapshot, or a session that does not run.
        folder: Where the files go.
        progress: Called with the bytes of each row that has been written; None: nobody asks.
    """

    def __init__(
        self,
        core: Any,
        snapshot: Any,
        values: Any,
        folder: Path,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._progress = progress
        self._snapshot = snapshot
        self._values = values
        self._folder = folder
        self._replicas = int(core.num_replicas)
        self._variables = _variables(core)
        self._buffers = _buffers(core)

    def write(self) -> list[dict[str, Any]]:
        """Writes all files, durably.

        Returns:
            What the manifest says of each; those of replica 0 come first.

        Raises:
            CheckpointError: Another snapshot of the session began.
        """
        rows = [self._buffer_files(replica) for replica in range(self._replicas)]
        self._write_rows(rows)
        known: dict[str, str] = {}
        records = []
        for replica, files in enumerate(rows):
            records.append(self._write_variables(replica, known))
            for entry, file in zip(self._buffers, files, strict=True):
                file.close()
                records.append({**file.record(), "replica": replica, "remote_buffer": entry.name})
        return records

    def _buffer_files(self, replica: int) -> list[TensorFileWriter]:
        return [
            TensorFileWriter(
                self._folder / f"{entry.name}.replica-{replica}.safetensors",
                [entry],
                entry.num_bytes // entry.shape[0],
            )
            for entry in self._buffers
        ]

    def _write_rows(self, files: list[list[TensorFileWriter]]) -> None:
        sizes = [entry.num_bytes // entry.shape[0] for entry in self._buffers]
        memory = np.empty(max(sizes, default=0), np.uint8)
        while (row := self._snapshot.next_row(memory)) is not None:
            files[row.replica][row.buffer].write(row.slot, memory[: sizes[row.buffer]])
            if self._progress:
                self._progress(sizes[row.buffer])
        if not all(file.is_complete for of_replica in files for file in of_replica):
            raise CheckpointError("another snapshot of the session began before this one ended")

    def _write_variables(self, replica: int, known: dict[str, str]) -> dict[str, Any]:
        """`known`: checksums of those of replica 0; later replicas leave out what equals them."""
        chosen = []
        memory = np.empty(max((e.num_bytes for _, e in self._variables), default=0), np.uint8)
        for index, entry in self._variables:
            value = memory[: entry.num_bytes]
            self._values.read_persistent(replica, index, value)
            found = checksum(value)
            if replica == 0:
                known[entry.name] = found
            if replica == 0 or known[entry.name] != found:
                chosen.append((index, entry))
        name = f"variables.replica-{replica}.safetensors"
        file = TensorFileWriter(self._folder / name, [entry for _, entry in chosen])
        for piece, (index, entry) in enumerate(chosen):
            value = memory[: entry.num_bytes]
            self._values.read_persistent(replica, index, value)
            file.write(piece, value)
        file.close()
        return {
            **file.record(),
            "replica": replica,
            "variables": [entry.name for _, entry in chosen],
        }


def _differences(saved: dict[str, Any], here: dict[str, Any]) -> list[str]:
    result = []
    if saved["replicas"] != here["replicas"]:
        result.append(f"replicas: {saved['replicas']} in the checkpoint, {here['replicas']} here")
    for kind, what in (("variables", "variable"), ("remote_buffers", "remote buffer")):
        for name in sorted(saved[kind].keys() | here[kind].keys()):
            there, own = saved[kind].get(name), here[kind].get(name)
            if there == own:
                continue

            def text(entry: dict[str, Any] | None) -> str:
                if entry is None:
                    return "missing"
                return f"{entry.get('dtype')} {tuple(entry.get('shape', ()))}"

            result.append(f"{what} '{name}': {text(there)} in the checkpoint, {text(own)} here")
    return result


def check_parts(path: Path, body: dict[str, Any]) -> None:
    """Refuses the manifest of another kind of checkpoint.

    Args:
        path: The checkpoint's folder.
        body: What its manifest says.

    Raises:
        WrongCheckpoint: Something is missing.
    """
    wanted = {"step": int, "extra": dict, "generators": dict, "model": dict, "program": str}
    missing = [key for key, kind in wanted.items() if not isinstance(body.get(key), kind)]
    model = body.get("model")
    if not missing and isinstance(model, dict):
        parts = {"replicas": int, "variables": dict, "remote_buffers": dict}
        missing = [key for key, kind in parts.items() if not isinstance(model.get(key), kind)]
    if not missing and isinstance(model, dict):
        entries = [*model["variables"].values(), *model["remote_buffers"].values()]
        missing = ["shapes"] if any(not isinstance(entry, dict) for entry in entries) else []
    if missing:
        raise WrongCheckpoint(
            f"{path} is no checkpoint of a session's state: its manifest has no {missing[0]}; a "
            "folder of TaskSession.save_checkpoint is for TaskSession.load_checkpoint"
        )


def check_model(path: Path, body: dict[str, Any], core: Any) -> None:
    """Compares a checkpoint with a program; warns where only the ops differ.

    Args:
        path: The checkpoint.
        body: What its manifest says.
        core: The core's session.

    Raises:
        WrongCheckpoint: Replicas, variables or remote buffers differ.
    """
    different = _differences(body["model"], model_of(core))
    if different:
        shown = different[:_MOST_DIFFERENCES]
        more = len(different) - len(shown)
        tail = f"\n  and {more} more" if more else ""
        raise WrongCheckpoint(
            f"{path} is a checkpoint of another model:\n  " + "\n  ".join(shown) + tail
        )
    if body["program"] != f"{core.fingerprint:016x}":
        logging.getLogger(__name__).warning(
            "%s was written by a program with the same state but other ops", path
        )


def check_files(core: Any, path: Path, body: dict[str, Any]) -> None:
    """Refuses files that lack what `restore` reads, so that it does not end half-way.

    Args:
        core: The core's session.
        path: The checkpoint's folder.
        body: What its manifest says.

    Raises:
        DamagedCheckpoint: A file or the manifest does not fit the session; it is named.
    """
    variables = {entry.name: entry for _, entry in _variables(core)}
    buffers = {entry.name: entry for entry in _buffers(core)}
    wanted = {(replica, name) for replica in range(int(core.num_replicas)) for name in buffers}
    wanted |= {(0, name) for name in variables}
    for record in body["files"]:
        replica = record.get("replica")
        names = record.get("variables", [record.get("remote_buffer")])
        known = variables if "variables" in record else buffers
        if replica not in range(int(core.num_replicas)) or not set(names) <= known.keys():
            raise DamagedCheckpoint(
                f"{path / MANIFEST} is damaged: it says that {record['name']} holds {names} of "
                f"replica {replica}"
            )
        try:
            with TensorFileReader(path / record["name"]) as file:
                for name in names:
                    file.check(known[name])
        except (OSError, ValueError) as error:
            raise DamagedCheckpoint(f"{path / record['name']} cannot be read: {error}") from error
        wanted -= {(replica, name) for name in names}
    if wanted:
        raise DamagedCheckpoint(
            f"{path / MANIFEST} is damaged: no file holds {sorted(wanted)[:_MOST_DIFFERENCES]}"
        )


def restore(
    core: Any, path: Path, body: dict[str, Any], progress: Callable[[int], object] | None
) -> None:
    """Writes the state of a checkpoint to a session.

    Args:
        core: The core's session.
        path: The checkpoint, which has been checked.
        body: What its manifest says.
        progress: Called with the bytes of each row that has been read; None: nobody asks.
    """
    # The files of replica 0 come first; later ones have only what differs.
    for record in body["files"]:
        with TensorFileReader(path / record["name"]) as file:
            if "variables" in record:
                _restore_variables(core, file, record)
            else:
                _restore_buffer(core, file, record, progress)


def _restore_variables(core: Any, file: TensorFileReader, record: dict[str, Any]) -> None:
    known = {entry.name: (index, entry) for index, entry in _variables(core)}
    memory = np.empty(max((e.num_bytes for _, e in known.values()), default=0), np.uint8)
    replica = record["replica"]
    for name in record["variables"]:
        index, entry = known[name]
        value = memory[: entry.num_bytes]
        file.seek(name)
        file.read_into(value)
        for target in range(core.num_replicas) if replica == 0 else [replica]:
            core.write_persistent(target, index, value)


def _restore_buffer(
    core: Any,
    file: TensorFileReader,
    record: dict[str, Any],
    progress: Callable[[int], object] | None,
) -> None:
    entries = _buffers(core)
    index = [entry.name for entry in entries].index(record["remote_buffer"])
    slots = entries[index].shape[0]
    row = np.empty(entries[index].num_bytes // slots, np.uint8)
    file.seek(entries[index].name)
    for slot in range(slots):
        file.read_into(row)
        core.write_remote(record["replica"], index, slot, row)
        if progress:
            progress(row.size)
