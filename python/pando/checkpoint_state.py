"""What a checkpoint holds: from a session's snapshot to files, and back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pando import _core
from pando.checkpoint_files import CheckpointError, DamagedCheckpoint, WrongCheckpoint
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
        snapshot: Its state of one moment.
        folder: Where the files go.
    """

    def __init__(self, core: Any, snapshot: Any, folder: Path) -> None:
        self._snapshot = snapshot
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
        if not all(file.is_complete for of_replica in files for file in of_replica):
            raise CheckpointError("another snapshot of the session began before this one ended")

    def _write_variables(self, replica: int, known: dict[str, str]) -> dict[str, Any]:
        """`known`: checksums of those of replica 0; later replicas leave out what equals them."""
        chosen = []
        for index, entry in self._variables:
            value = np.empty(entry.num_bytes, np.uint8)
            self._snapshot.read_persistent(replica, index, value)
            found = checksum(value)
            if replica == 0:
                known[entry.name] = found
            if replica == 0 or known[entry.name] != found:
                chosen.append((index, entry))
        name = f"variables.replica-{replica}.safetensors"
        file = TensorFileWriter(self._folder / name, [entry for _, entry in chosen])
        for piece, (index, entry) in enumerate(chosen):
            value = np.empty(entry.num_bytes, np.uint8)
            self._snapshot.read_persistent(replica, index, value)
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
                return f"{entry['dtype']} {tuple(entry['shape'])}"

            result.append(f"{what} '{name}': {text(there)} in the checkpoint, {text(own)} here")
    return result


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
    if int(body["program"], 16) != core.fingerprint:
        logging.getLogger(__name__).warning(
            "%s was written by a program with the same state but other ops", path
        )


def check_contents(core: Any, path: Path, body: dict[str, Any]) -> None:
    """Raises DamagedCheckpoint, which names the file, unless all is there that `restore` reads."""
    for record in body["files"]:
        if record.get("replica") not in range(core.num_replicas):
            raise DamagedCheckpoint(
                f"{path} is damaged: {record['name']} is of replica {record.get('replica')!r} of "
                f"{core.num_replicas}"
            )
        try:
            with TensorFileReader(path / record["name"]) as file:
                for entry in _entries_of(core, record):
                    file.seek(entry.name, entry.num_bytes)
        except (OSError, ValueError) as error:
            raise DamagedCheckpoint(str(error)) from error


def _entries_of(core: Any, record: dict[str, Any]) -> Iterator[TensorEntry]:
    """What a file is said to have; ValueError for what the program has not."""
    if "variables" in record:
        known = {entry.name: entry for _, entry in _variables(core)}
        wanted = record["variables"]
    else:
        known = {entry.name: entry for entry in _buffers(core)}
        wanted = [record.get("remote_buffer")]
    for name in wanted:
        if name not in known:
            raise ValueError(f"{record['name']} has the state of {name!r}, which is not known")
        yield known[name]


def restore(core: Any, path: Path, body: dict[str, Any]) -> None:
    """Writes the state of a checkpoint to a session.

    Args:
        core: The core's session.
        path: The checkpoint, which has been checked.
        body: What its manifest says.
    """
    # The files of replica 0 come first; later ones have only what differs.
    for record in body["files"]:
        with TensorFileReader(path / record["name"]) as file:
            if "variables" in record:
                _restore_variables(core, file, record)
            else:
                _restore_buffer(core, file, record)


def _restore_variables(core: Any, file: TensorFileReader, record: dict[str, Any]) -> None:
    known = {entry.name: (index, entry) for index, entry in _variables(core)}
    replica = record["replica"]
    for name in record["variables"]:
        index, entry = known[name]
        value = np.empty(entry.num_bytes, np.uint8)
        file.seek(name, entry.num_bytes)
        file.read_into(value)
        for target in range(core.num_replicas) if replica == 0 else [replica]:
            core.write_persistent(target, index, value)


def _restore_buffer(core: Any, file: TensorFileReader, record: dict[str, Any]) -> None:
    entries = _buffers(core)
    index = [entry.name for entry in entries].index(record["remote_buffer"])
    slots = entries[index].shape[0]
    row = np.empty(entries[index].num_bytes // slots, np.uint8)
    file.seek(entries[index].name, entries[index].num_bytes)
    for slot in range(slots):
        file.read_into(row)
        core.write_remote(record["replica"], index, slot, row)
