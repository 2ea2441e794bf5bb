"""The IDX reader, against arrays written here byte by byte, and on damaged files."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pando.datasets import DEFAULT_FOLDER, Batches, ImageSet, load_mnist_format, read_idx

RNG = np.random.default_rng(7)


def idx_bytes(array: np.ndarray, code: int) -> bytes:
    header = struct.pack(">HBB", 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_set(folder: Path, compress: bool = True) -> dict[str, np.ndarray]:
    arrays = {}
    for prefix, count in (("train", 20), ("t10k", 6)):
        images = RNG.integers(0, 256, (count, 4, 5), dtype=np.uint8)
        labels = RNG.integers(0, 10, count, dtype=np.uint8)
        for name, array in ((f"{prefix}-images-idx3", images), (f"{prefix}-labels-idx1", labels)):
            data = idx_bytes(array, 0x08)
            path = folder / f"{name}-ubyte"
            if compress:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
            else:
                path.write_bytes(data)
            arrays[name] = array
    return arrays


@pytest.mark.parametrize("compress", [False, True])
def test_a_whole_folder_is_read(tmp_path: Path, compress: bool) -> None:
    arrays = write_set(tmp_path, compress)
    data = load_mnist_format(tmp_path)
    np.testing.assert_array_equal(data.train.images, arrays["train-images-idx3"])
    np.testing.assert_array_equal(data.train.labels, arrays["train-labels-idx1"])
    np.testing.assert_array_equal(data.test.images, arrays["t10k-images-idx3"])
    np.testing.assert_array_equal(data.test.labels, arrays["t10k-labels-idx1"])
    scaled = arrays["train-images-idx3"] / 255
    np.testing.assert_allclose(data.mean_and_deviation(), (scaled.mean(), scaled.std()), rtol=1e-12)


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")],
)
def test_every_element_type(tmp_path: Path, code: int, dtype: str) -> None:
    array = RNG.normal(0, 30, (2, 3)).astype(dtype)
    path = tmp_path / "array"
    path.write_bytes(idx_bytes(array, code))
    result = read_idx(path)
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(result, array)


def test_a_missing_folder_and_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no data folder .*nowhere"):
        load_mnist_format(tmp_path / "nowhere")
    write_set(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        load_mnist_format(tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    write_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    make(tmp_path / "train-labels-idx1-ubyte")
    with pytest.raises(OSError, match=r"no regular file.*train-labels"):
        load_mnist_format(tmp_path)
    # A file of the other name wins.
    wrong = idx_bytes(np.zeros(20, np.uint8), 8)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(wrong))
    assert len(load_mnist_format(tmp_path).train) == 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has 0 bytes"),
        (b"\0\0\x08", "has 3 bytes"),
        (b"\x89PNG\r\n", "not an IDX file: it starts with 0x89504e47"),
        (b"\0\0\x07\x01\0\0\0\x01\0", "not an IDX file"),
        (b"\0\0\x08\x03\0\0\0\x01", "header of an IDX array of rank 3 has 16"),
        (idx_bytes(np.zeros((3, 2), np.uint8), 8)[:-1], "holds 17 bytes.*calls for 18"),
        (idx_bytes(np.zeros((3, 2), np.uint8), 8) + b"x", "holds 19 bytes.*calls for 18"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    for name, data in (("plain", content), ("packed.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message) as error:
            read_idx(path)
        assert str(path) in str(error.value)


def test_a_cut_off_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "array.gz"
    whole = gzip.compress(idx_bytes(RNG.integers(0, 256, (50, 50), dtype=np.uint8), 8))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"array\.gz \(\d+ bytes\) is not a whole gzip file"):
        read_idx(path)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match="not a whole gzip file"):
        read_idx(path)


def test_images_and_labels_must_belong_together(tmp_path: Path) -> None:
    write_set(tmp_path)
    wrong = idx_bytes(np.zeros(19, np.uint8), 8)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(wrong))
    with pytest.raises(ValueError, match=r"\(20, 4, 5\).*\(19,\)"):
        load_mnist_format(tmp_path)


def small_set(count: int = 10) -> ImageSet:
    images = np.arange(count, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)
    return ImageSet(images, np.arange(count, dtype=np.uint8))


def test_batches_are_normalised_and_drop_the_remainder() -> None:
    batches = Batches(small_set(), 4, mean=0.25, deviation=0.5)
    assert len(batches) == 2
    images, labels = zip(*batches, strict=True)
    np.testing.assert_array_equal(np.concatenate(labels), np.arange(8))
    assert labels[0].dtype == np.int32 and images[0].dtype == np.float32
    wanted = (np.arange(8) / 255 - 0.25) / 0.5
    np.testing.assert_allclose(np.concatenate(images)[:, 1, 0], wanted, rtol=1e-6)


def test_shuffling_is_reproducible_and_changes_between_epochs() -> None:
    def epochs(seed: int) -> list[list[int]]:
        batches = Batches(small_set(), 5, 0.0, 1.0, shuffle_seed=seed)
        return [np.concatenate([labels for _, labels in batches]).tolist() for _ in range(2)]

    first, second = epochs(3)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert epochs(3) == [first, second]


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_batch_that_cannot_be_filled_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 10.*got {size}"):
        Batches(small_set(), size, 0.0, 1.0)


@pytest.mark.skipif(not DEFAULT_FOLDER.is_dir(), reason=f"{DEFAULT_FOLDER} is not installed")
def test_the_installed_data_set() -> None:
    data = load_mnist_format()
    assert data.train.images.shape == (60000, 28, 28) and data.test.images.shape == (10000, 28, 28)
    assert np.bincount(data.train.labels).tolist() == [6000] * 10
    mean, deviation = data.mean_and_deviation()
    assert (round(mean, 4), round(deviation, 4)) == (0.2860, 0.3530)
