"""Text as tokens, one per byte, and batches of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pando.given_files import open_regular

# Perl's manual, as Debian's package perl-doc installs it: about 9 MB of English.
DEFAULT_ROOT = Path("/usr/share/perl")
DEFAULT_PATTERN = "*/pod/*.pod"
# After each text; no byte.
END_OF_TEXT = 256
VALIDATION_SHARE = 0.05


def _default_files() -> list[Path]:
    # The version's folder is there under two names.
    files = sorted({file.resolve() for file in DEFAULT_ROOT.glob(DEFAULT_PATTERN)})
    if not files:
        raise FileNotFoundError(
            f"There are no texts {DEFAULT_ROOT / DEFAULT_PATTERN}. On Debian the package perl-doc "
            "installs them; --data FILE takes any text."
        )
    return files


def _read(path: Path) -> np.ndarray:
    if not path.exists():
        raise FileNotFoundError(f"There is no text file {path}.")
    with open_regular(path) as file:
        return np.frombuffer(file.readall(), np.uint8)


def read_tokens(path: str | Path | None = None) -> np.ndarray:
    """The bytes of a text as tokens.

    Args:
        path: A text file; None means Perl's manual, as Debian's package perl-doc installs it.

    Returns:
        uint16, one per byte, each file followed by END_OF_TEXT.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It is a folder, a pipe or a device, or cannot be read.
        ValueError: It is empty.
    """
    files = _default_files() if path is None else [Path(path).expanduser()]
    parts: list[np.ndarray] = []
    for file in files:
        content = _read(file)
        if content.size == 0:
            raise ValueError(f"The text file {file} is empty.")
        parts += [content.astype(np.uint16), np.array([END_OF_TEXT], np.uint16)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Batch:
    """Tokens and the ones that follow them.

    Attributes:
        tokens: int32 (micro-batches, sequences, length).
        labels: int32 of the same shape: the next token for each.
    """

    tokens: np.ndarray
    labels: np.ndarray


class TextBatches:
    """Windows of a text to train on and to validate with.

    Those to train on are random ones of its beginning, the others are spread over its held-out end.

    Args:
        tokens: The text, integers (n,).
        shape: Micro-batches, sequences in each, their length.
        seed: The seed of the random windows.

    Attributes:
        generator: The NumPy generator that draws windows; its state belongs to a checkpoint.

    Raises:
        ValueError: The text is too short to hold a window in each part.
    """

    def __init__(self, tokens: np.ndarray, shape: tuple[int, int, int], seed: int) -> None:
        self._shape = shape
        held_out = max(int(tokens.size * VALIDATION_SHARE), shape[2] + 1)
        self._training, self._validation = tokens[:-held_out], tokens[-held_out:]
        if self._training.size <= shape[2]:
            raise ValueError(
                f"The text has {tokens.size} tokens; sequences of {shape[2]} need at least "
                f"{2 * (shape[2] + 1)}."
            )
        self.generator = np.random.default_rng(seed)

    def _cut(self, text: np.ndarray, starts: np.ndarray) -> Batch:
        windows = text[starts[:, np.newaxis] + np.arange(self._shape[2] + 1)].astype(np.int32)
        windows = windows.reshape(*self._shape[:2], -1)
        return Batch(
            np.ascontiguousarray(windows[..., :-1]), np.ascontiguousarray(windows[..., 1:])
        )

    def next(self) -> Batch:
        """Random windows to train on.

        Returns:
            The next batch.
        """
        count = self._shape[0] * self._shape[1]
        last = self._training.size - self._shape[2]
        return self._cut(self._training, self.generator.integers(0, last, count))

    def validation(self) -> Batch:
        """Windows of the held-out part.

        Returns:
            The same batch every time.
        """
        count = self._shape[0] * self._shape[1]
        last = self._validation.size - self._shape[2] - 1
        return self._cut(self._validation, np.linspace(0, last, count).astype(np.int64))
