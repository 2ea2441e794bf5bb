"""Files that others wrote: pipes, folders, devices and deep JSON are refused, not waited for."""

import json
import os
import socket

import pytest

from pando.given_files import open_regular, parse_json, read_json


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as endless:
        # Its name may have some 100 characters.
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path.parent)
            endless.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)


def make_link_to_a_device(path):
    path.symlink_to("/dev/zero")


IRREGULAR = [os.mkdir, make_pipe, make_socket, make_link_to_a_device]


@pytest.mark.parametrize("make", IRREGULAR)
def test_what_is_no_regular_file_is_refused(tmp_path, make):
    make(tmp_path / "file")
    for read in (open_regular, read_json):
        with pytest.raises(OSError, match=r"no regular file|No such device or address"):
            read(tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) < 200


def test_regular_files(tmp_path):
    (tmp_path / "file").write_text('{"a": [1, 2.5, null]}')
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == {"a": [1, 2.5, None]}
    with open_regular(tmp_path / "file") as file:
        assert file.read(3) == b'{"a'
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "other")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[", b"\xff\xfe\x00", ""])
def test_json_that_cannot_be_read(tmp_path, text):
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=r"file is (nested too deeply|no JSON)"):
        read_json(tmp_path / "file")
    with pytest.raises(ValueError, match=r"the text is (nested too deeply|no JSON)"):
        parse_json(content, "the text")
    with pytest.raises(ValueError, match="too many for JSON"):
        os.truncate(tmp_path / "file", 2 << 30)
        read_json(tmp_path / "file")
    assert parse_json(json.dumps([1]), "") == [1]
