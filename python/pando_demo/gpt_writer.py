"""A session that writes texts with the decoder, one byte of each text in a run.

Weights are in remote buffers, as in training: a run loads one layer after the other, so that a
decoder that is larger than memory writes as well. Keys and values of the positions so far stay in
memory. Scores come to the host, which chooses the next byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import numpy as np

import popxl
import popxl_addons as addons
from pando.session_info import memory_plan
from pando.settings import use_session_settings
from pando.text_data import END_OF_TEXT
from pando_demo.gpt_network import (
    CACHES,
    CachedBlock,
    EmbeddingAt,
    GptShape,
    Head,
    variable_shapes,
)
from pando_demo.gpt_training import GptOptions
from popxl import ops
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote_rows import RemoteRows
from popxl_addons.variable_factory import NamedVariableFactories

# Layers whose weights may come while one computes.
_LAYERS_AHEAD = 2


@dataclass(frozen=True)
class WriterProgram:
    """One run reads a token of each text and gives the scores of the next.

    Attributes:
        ir: The program.
        tokens: int32 (texts, 1).
        position: Where these tokens stand, int32 (1,).
        scores: float32 (texts, vocabulary).
        buffers: The buffers of the weights, by the keys of `variable_shapes`.
    """

    ir: popxl.Ir
    tokens: popxl.HostToDeviceStream
    position: popxl.HostToDeviceStream
    scores: popxl.DeviceToHostStream
    buffers: dict[str, popxl.RemoteBuffer]


class _Part:
    """Layers of one kind: one graph, and buffers with a row for each.

    Args:
        module: The layer.
        rows: How many there are.
        *inputs: What its graph is made for.
    """

    def __init__(self, module: addons.Module, rows: int, *inputs: popxl.Tensor) -> None:
        facts, self._graph = module.create_graph(*inputs)
        factories = facts.to_dict()
        caches = {name: factories.pop(name) for name in CACHES if name in factories}
        self._caches = NamedVariableFactories.from_dict(caches)
        weights = NamedVariableFactories.from_dict(factories)
        buffers = addons.named_variable_buffers(weights, rows)
        self.buffers = buffers.to_dict()
        self._load, self._keys = addons.load_remote_graph(buffers, rows)

    def call(self, row: int, *inputs: popxl.Tensor) -> popxl.Tensor:
        """Loads the weights of a row and computes.

        Args:
            row: The layer.
            *inputs: What its graph takes.

        Returns:
            What the layer gives.
        """
        weights = NamedTensors.pack(self._keys, self._load.call(row)).to_dict()
        caches = self._caches.init(f"layer{row}").to_dict()
        (result,) = self._graph.bind(NamedTensors.from_dict(weights | caches)).call(*inputs)
        return result


def writer_program(shape: GptShape, texts: int) -> WriterProgram:
    """The program that scores the next token.

    Args:
        shape: The sizes of the decoder.
        texts: Those that are written at once.

    Returns:
        The program with its streams and buffers.
    """
    ir = popxl.Ir()
    ir.num_host_transfers = 1
    with ir.main_graph, popxl.in_sequence():
        tokens = popxl.h2d_stream((texts, 1), popxl.int32, "tokens")
        position = popxl.h2d_stream((1,), popxl.int32, "position")
        given, at = ops.host_load(tokens), ops.host_load(position)
        parts = {"embedding": _Part(EmbeddingAt(shape), 1, given, at)}
        x = parts["embedding"].call(0, given, at)
        parts["block"] = _Part(CachedBlock(shape), shape.layers, x, at)
        for layer in range(shape.layers):
            x = parts["block"].call(layer, x, at)
        parts["head"] = _Part(Head(shape), 1, x)
        result = parts["head"].call(0, x)
        scores = popxl.d2h_stream(result.shape, result.dtype, "scores")
        ops.host_store(scores, result)
    buffers = {
        f"{name}.{key}": buffer
        for name, part in parts.items()
        for key, buffer in part.buffers.items()
    }
    return WriterProgram(ir, tokens, position, scores, buffers)


class GptWriter:
    """Writes texts with `write`; use it inside `with`, and give it weights first.

    Args:
        shape: The sizes of the decoder.
        texts: How many are written at once.
        options: Where the weights are kept (`tier`, `folder`), and threads.

    Attributes:
        shape: The sizes of the decoder.
        texts: How many are written at once.
        session: Its session.
    """

    def __init__(self, shape: GptShape, texts: int, options: GptOptions) -> None:
        self.shape = shape
        self.texts = texts
        self._program = writer_program(shape, texts)
        self._is_file = options.tier == "file"
        with use_session_settings(
            num_threads=options.threads,
            remote_tier=options.tier,
            remote_folder=os.fspath(options.folder),
            remote_prefetch_bytes=_LAYERS_AHEAD * 4 * shape.layer_parameters,
            remote_io_threads=options.io_threads,
            # The page cache keeps as much of the files as the machine has room for.
            remote_direct=False,
        ):
            self.session = popxl.Session(self._program.ir, "cpu")
        self._rows = RemoteRows(self.session, self._program.buffers)

    def __enter__(self) -> GptWriter:
        self.session.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.session.__exit__(kind, value, traceback)

    @property
    def memory_bytes(self) -> int:
        """What it takes in memory: the plan and, without files, the weights."""
        weights = 0 if self._is_file else self._rows.total_bytes
        return int(memory_plan(self.session).peak_bytes) + weights

    def take_weights(self, read: Callable[[str, int], np.ndarray]) -> None:
        """Copies weights, one row at a time.

        Args:
            read: Gives the value of a key of `variable_shapes` in a row.
        """
        for key, (_, rows) in variable_shapes(self.shape).items():
            for row in range(rows):
                self._rows.write(key, row, read(key, row))

    def scores(self, tokens: np.ndarray, position: int) -> np.ndarray:
        """Reads a token of each text, behind those of the positions before.

        Args:
            tokens: Integers (texts,).
            position: Where they stand, from 0 on.

        Returns:
            The scores of the next tokens, float32 (texts, vocabulary).

        Raises:
            ValueError: There is no such position.
        """
        if not 0 <= position < self.shape.sequence:
            raise ValueError(
                f"position: wanted one of the {self.shape.sequence} of the network, from 0 on; "
                f"given {position}"
            )
        given = {
            self._program.tokens: tokens.astype(np.int32).reshape(-1, 1),
            self._program.position: np.full(1, position, np.int32),
        }
        return self.session.run(given)[self._program.scores]

    def write(
        self,
        prompt: np.ndarray,
        count: int,
        choose: Callable[[np.ndarray], np.ndarray],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """Writes on behind a prompt.

        Args:
            prompt: Tokens (n,), at least one, that all texts begin with.
            count: How many tokens are written; fewer when all texts have ended before, by
                `END_OF_TEXT`. With the prompt at most one more than the network has positions.
            choose: Takes scores (texts, vocabulary), gives the tokens (texts,) that follow.
            should_stop: Asked before each token whether to write no more.

        Returns:
            int32 (texts, written), without the prompt.

        Raises:
            ValueError: The prompt is empty, or there are too many tokens.
        """
        last = prompt.size + count - 1
        if prompt.size == 0 or not count >= 0 or last > self.shape.sequence:
            raise ValueError(
                f"wanted a prompt of 1 token or more, and at most {self.shape.sequence + 1} tokens "
                f"with it; given a prompt of {prompt.size} and {count} to write"
            )
        written = np.empty((self.texts, 0), np.int32)
        tokens = np.full(self.texts, prompt[0])
        for position in range(last):
            if should_stop() or (written == END_OF_TEXT).any(axis=1).all():
                break
            scores = self.scores(tokens, position)
            if position + 1 < prompt.size:
                tokens = np.full(self.texts, prompt[position + 1])
                continue
            tokens = choose(scores)
            written = np.concatenate([written, tokens[:, np.newaxis].astype(np.int32)], axis=1)
        return written


def readable(tokens: np.ndarray) -> str:
    """Tokens as text to be shown.

    Args:
        tokens: Bytes and `END_OF_TEXT`, integers (n,).

    Returns:
        What stands before the first `END_OF_TEXT`; bytes that are no UTF-8, and control characters
        but for newlines and tabs, are replaced by U+FFFD.
    """
    ends = np.flatnonzero(tokens == END_OF_TEXT)
    content = tokens[: ends[0]] if ends.size else tokens
    text = bytes(content.astype(np.uint8)).decode(errors="replace")
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
