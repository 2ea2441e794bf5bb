"""Image data sets in the IDX format of MNIST, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pando.given_files import open_regular

DEFAULT_FOLDER = Path("/usr/share/datasets/fashion-mnist")

# The third byte of an IDX magic number names the element type; numbers are big-endian.
_ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}


def _find_file(path: Path) -> Path:
    """`path`, or the same name with .gz added or removed."""
    other = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
    for candidate in (path, other):
        if candidate.is_file():
            return candidate
    for candidate in (path, other):
        if candidate.exists():
            return candidate  # reading it says what it is
    raise FileNotFoundError(f"There is no IDX file {path}, nor {other.name} beside it.")


def _read_bytes(path: Path) -> bytes:
    """The content of `path`, decompressed when it starts as a gzip file does."""
    with open_regular(path) as file:
        raw = file.readall()
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} ({len(raw)} bytes) is not a whole gzip file: {error}. It may have been cut "
            "off; fetch it again."
        ) from error


def read_idx(path: str | Path) -> np.ndarray:
    """The array in an IDX file, plain or compressed by gzip.

    Args:
        path: The file; `.gz` may be missing from or added to the name.

    Returns:
        A new array of the dtype and shape that the file states.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It is a folder, a pipe or a device, or cannot be read.
        ValueError: It is no IDX file, or does not have the size that its header states.
    """
    file = _find_file(Path(path))
    data = _read_bytes(file)
    if len(data) < 4:
        raise ValueError(f"{file} has {len(data)} bytes; an IDX file starts with 4 bytes of magic.")
    zeros, element_code, rank = struct.unpack(">HBB", data[:4])
    if zeros != 0 or element_code not in _ELEMENT_TYPES:
        raise ValueError(
            f"{file} is not an IDX file: it starts with 0x{data[:4].hex()}, where 0x0000, an "
            f"element type of {[f'0x{code:02x}' for code in _ELEMENT_TYPES]} and a rank belong."
        )
    header_size = 4 + 4 * rank
    if len(data) < header_size:
        raise ValueError(
            f"{file} has {len(data)} bytes; the header of an IDX array of rank {rank} has "
            f"{header_size}."
        )
    shape = struct.unpack(f">{rank}I", data[4:header_size])
    element = _ELEMENT_TYPES[element_code]
    wanted = header_size + math.prod(shape) * element.itemsize
    if len(data) != wanted:
        raise ValueError(
            f"{file} holds {len(data)} bytes, but its header (shape {shape}, elements of "
            f"{element.itemsize} bytes) calls for {wanted}."
        )
    array: np.ndarray = np.frombuffer(data, element, offset=header_size).reshape(shape)
    return array.astype(element.newbyteorder("="))


@dataclass(frozen=True)
class ImageSet:
    """Images and their labels.

    Attributes:
        images: uint8 (n, height, width).
        labels: uint8 (n,).
    """

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class ImageData:
    """A training and a test set.

    Attributes:
        train: The images to train on.
        test: The images to test with.
    """

    train: ImageSet
    test: ImageSet

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.train.images.shape[1:]
        return height, width

    @property
    def num_classes(self) -> int:
        """One more than the highest label."""
        return int(max(self.train.labels.max(), self.test.labels.max())) + 1

    def mean_and_deviation(self) -> tuple[float, float]:
        """Mean and deviation of the training pixels scaled to 0..1.

        Returns:
            Mean and standard deviation.
        """
        counts = np.bincount(self.train.images.reshape(-1), minlength=256) / self.train.images.size
        values = np.arange(256) / 255
        mean = float(np.sum(values * counts))
        return mean, float(np.sqrt(np.sum((values - mean) ** 2 * counts)))


def _load_set(folder: Path, prefix: str) -> ImageSet:
    images = read_idx(folder / f"{prefix}-images-idx3-ubyte")
    labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte")
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(
            f"The {prefix} files in {folder} do not belong together: images of shape "
            f"{images.shape} (three dimensions wanted), labels of shape {labels.shape} (one for "
            "each image wanted)."
        )
    if len(images) == 0:
        raise ValueError(f"The {prefix} files in {folder} hold no images.")
    if images.dtype != np.uint8 or labels.dtype != np.uint8:
        raise ValueError(
            f"The {prefix} files in {folder} hold images of {images.dtype} and labels of "
            f"{labels.dtype}; both must be uint8."
        )
    return ImageSet(images, labels)


def load_mnist_format(folder: str | Path = DEFAULT_FOLDER) -> ImageData:
    """A data set in the format of MNIST.

    Args:
        folder: Holds `train-` and `t10k-` `images-idx3-ubyte` and `labels-idx1-ubyte`, with or
            without `.gz`.

    Returns:
        Training and test set.

    Raises:
        FileNotFoundError: The folder or a file is missing.
        ValueError: The content is not that of such a set.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        hint = (
            " On Debian the package dataset-fashion-mnist installs it."
            if path == DEFAULT_FOLDER
            else ""
        )
        raise FileNotFoundError(f"There is no data folder {path}.{hint}")
    data = ImageData(_load_set(path, "train"), _load_set(path, "t10k"))
    if data.train.images.shape[1:] != data.test.images.shape[1:]:
        raise ValueError(
            f"The images in {path} differ in size: {data.train.images.shape[1:]} for training, "
            f"{data.test.images.shape[1:]} for testing."
        )
    return data


class Batches:
    """Normalised float32 images and int32 labels in batches of one size; the remainder is left out.

    Args:
        data: The images.
        batch_size: Images in a batch.
        mean: What is subtracted from pixels scaled to 0..1.
        deviation: What they are divided by then.
        shuffle_seed: Every iteration takes the images in another order, the same orders for the
            same seed; None keeps their order.

    Raises:
        ValueError: The batch size is less than 1 or larger than the set.
    """

    def __init__(
        self,
        data: ImageSet,
        batch_size: int,
        mean: float,
        deviation: float,
        shuffle_seed: int | None = None,
    ) -> None:
        if not 1 <= batch_size <= len(data):
            raise ValueError(
                f"The batch size must be 1 to {len(data)}, the number of images; got {batch_size}."
            )
        self._data = data
        self._batch_size = batch_size
        pixels = np.arange(256, dtype=np.float32) / np.float32(255)
        self._normalised = (pixels - np.float32(mean)) / np.float32(deviation)
        self._rng = None if shuffle_seed is None else np.random.default_rng(shuffle_seed)

    def __len__(self) -> int:
        return len(self._data) // self._batch_size

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        count = len(self._data)
        order = np.arange(count) if self._rng is None else self._rng.permutation(count)
        labels = self._data.labels.astype(np.int32)
        for index in range(len(self)):
            chosen = order[index * self._batch_size : (index + 1) * self._batch_size]
            yield self._normalised[self._data.images[chosen]], labels[chosen]
