"""The texts that the decoder writes when it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np
from tqdm import tqdm

from pando.plots import bytes_text
from pando.sampling import sample_tokens
from pando_demo.gpt_network import GptShape
from pando_demo.gpt_training import GptOptions, GptTrainer
from pando_demo.gpt_writer import GptWriter, readable

DEFAULT_BYTES = 160


@dataclass(frozen=True)
class TextOptions:
    """What is written.

    Attributes:
        texts: How many, at once.
        count: Bytes of each; 0: nothing is written.
        prompt: What they begin with, which is not counted.
        temperature: As `pando.sampling.sample_tokens` takes it.
        top_k: The same.
        seed: Of the draws.
    """

    texts: int
    count: int
    prompt: bytes
    temperature: float
    top_k: int
    seed: int

    @classmethod
    def fitting(
        cls,
        shape: GptShape,
        count: int | None,
        prompt: str,
        default: int,
        **others: Any,
    ) -> TextOptions:
        """Checks sizes against those of a network.

        Args:
            shape: The sizes of the decoder.
            count: Bytes of each text; None: `default`, or fewer where there is no room.
            prompt: What texts begin with.
            default: Bytes of each text where no number is given.
            **others: The other attributes.

        Returns:
            The options.

        Raises:
            ValueError: There is no prompt, or it and the bytes are more than there are positions.
        """
        given = prompt.encode()
        room = shape.sequence + 1 - len(given)
        if not given:
            raise ValueError("--prompt is empty: a text begins with at least one byte")
        if count is None:
            count = min(default, max(room, 0))
        elif count > room:
            raise ValueError(
                f"--write {count}: with a prompt of {len(given)} bytes and sequences of "
                f"{shape.sequence} there is room for {max(room, 0)}"
            )
        return cls(count=count, prompt=given, **others)

    @property
    def passes(self) -> int:
        """Runs of the writer."""
        return len(self.prompt) + self.count - 1 if self.count else 0


def writer_within(
    shape: GptShape, training: GptOptions, texts: int, room: int
) -> tuple[GptWriter | None, str]:
    """A writer, if it fits.

    Args:
        shape: The sizes of the decoder.
        training: How it is trained.
        texts: How many are written at once.
        room: Bytes of memory that training leaves.

    Returns:
        The writer, not entered, or None; and then why there is none.
    """
    writer = GptWriter(shape, texts, training)
    need = writer.memory_bytes
    if need <= room:
        return writer, ""
    return None, (
        f"none, since writing needs {bytes_text(need)} of memory beside training, which leaves "
        f"{bytes_text(max(room, 0))}: give more, or write fewer --texts"
    )


def write_texts(
    writer: GptWriter, trainer: GptTrainer, text: TextOptions, should_stop: Callable[[], bool]
) -> list[str]:
    """Writes texts with the weights of now.

    Args:
        writer: Not entered.
        trainer: Entered; whose weights are taken.
        text: What is written.
        should_stop: Asked before each byte whether to write no more.

    Returns:
        The texts with their prompt, as they can be shown.

    Raises:
        ValueError: The scores are not finite.
    """
    generator = np.random.default_rng([text.seed, trainer.steps_done])
    prompt = np.frombuffer(text.prompt, np.uint8).astype(np.int32)
    with writer, tqdm(desc="writing", total=text.count, unit="B", leave=False) as bar:
        writer.take_weights(trainer.read_weight)

        def choose(scores: np.ndarray) -> np.ndarray:
            bar.update()
            return sample_tokens(scores, generator, text.temperature, text.top_k)

        written = writer.write(prompt, text.count, choose, should_stop)
    return [readable(np.concatenate([prompt, tokens])) for tokens in written]


def show_texts(texts: Sequence[str]) -> None:
    """Prints texts, their lines indented.

    Args:
        texts: What was written.
    """
    for number, text in enumerate(texts, 1):
        print(f"\ntext {number}")
        print(indent(text.strip("\n"), "    ", lambda _: True), flush=True)
