"""Arrays in files: values, memory, and what goes with them."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from pando.file_arrays import file_array, folder_of, release_all_pages, release_pages
from pando.process_memory import resident_bytes

SIZE = 64 << 20


def test_values_survive_leaving_memory(tmp_path) -> None:
    array = file_array(tmp_path, (SIZE // 8,), np.float64)
    assert not array.any()
    array[...] = np.arange(array.size)
    before = resident_bytes()
    release_pages(array.ctypes.data)
    assert before - resident_bytes() > SIZE // 2
    np.testing.assert_array_equal(array, np.arange(array.size))
    release_all_pages()
    assert before - resident_bytes() > SIZE // 2
    np.testing.assert_array_equal(array, np.arange(array.size))


def test_the_file_has_no_name_and_goes_with_the_array(tmp_path) -> None:
    before = os.statvfs(tmp_path)
    array = file_array(tmp_path, (SIZE,), np.uint8)
    assert os.listdir(tmp_path) == []
    during = os.statvfs(tmp_path)
    assert (before.f_bfree - during.f_bfree) * before.f_frsize > SIZE // 2
    address = array.ctypes.data
    assert folder_of(address) == str(tmp_path)
    del array
    gc.collect()
    assert folder_of(address) is None
    release_pages(address)
    after = os.statvfs(tmp_path)
    assert (after.f_bfree - during.f_bfree) * before.f_frsize > SIZE // 2


def test_other_memory_is_left_alone() -> None:
    array = np.ones(1 << 16)
    assert folder_of(array.ctypes.data) is None
    release_pages(array.ctypes.data)
    assert array.all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (3, 5)])
def test_shapes(tmp_path, shape) -> None:
    array = file_array(tmp_path, shape, np.int16)
    assert array.shape == shape and array.dtype == np.int16
    array[...] = 7
    assert (array == 7).all()


def test_a_folder_that_is_missing_is_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        file_array(tmp_path / "nowhere", (3,), np.float32)
