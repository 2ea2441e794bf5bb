"""The accessor with real processes: against plain iteration, and when things go wrong."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from poptorch._accessor import AsynchronousDataAccessor
from poptorch._args_parser import registerCustomArgParser
from poptorch._errors import Error
from poptorch.enums import SharingStrategy
from tests.python.poptorch import loader_data
from tests.python.poptorch.loader_data import Items, Numbers

pytestmark = pytest.mark.usefixtures("quick_processes")
Make = Callable[..., AsynchronousDataAccessor]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for_end(pid: int) -> None:
    """Returns when a process that is no child of this one is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor) as file:
        assert multiprocessing.connection.wait([file], timeout=30), f"process {pid} lives on"


@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_the_same_items_as_without_it(accessor: Make, strategy: SharingStrategy) -> None:
    loader = DataLoader(Numbers(10), batch_size=2)
    loaded = accessor(loader, sharing_strategy=strategy)
    assert len(loaded) == 5
    for _ in range(2):
        for (number, row), expected in zip(loaded, loader, strict=True):
            torch.testing.assert_close([number, row], list(expected))


@pytest.mark.parametrize("indefinitely", [True, False])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("buffer_size", [1, 3])
def test_every_epoch_is_whole_and_in_order(
    accessor: Make, indefinitely: bool, early: bool, buffer_size: int
) -> None:
    loaded = accessor(
        loader_data.OncePerEpoch(4),
        load_indefinitely=indefinitely,
        early_preload=early,
        buffer_size=buffer_size,
    )
    for epoch in range(3):
        assert [item.tolist() for item in loaded] == [[epoch, index] for index in range(4)]


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("indefinitely", [True, False])
def test_when_epochs_are_begun(
    accessor: Make, tmp_path: Path, early: bool, indefinitely: bool
) -> None:
    pipe = str(tmp_path / "epochs")
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "rb", buffering=0) as epochs:

        def begun(timeout: float) -> bool:
            """Whether one more epoch begins within a time."""
            is_ready = bool(multiprocessing.connection.wait([epochs], timeout=timeout))
            return is_ready and epochs.read(1) == b"e"

        loaded = accessor(
            loader_data.NotingEpochs(pipe), early_preload=early, load_indefinitely=indefinitely
        )
        assert begun(30 if early else 0.3) == early
        assert len(list(loaded)) == 1
        assert early or begun(30)
        # With load_indefinitely the next one begins before it is asked for.
        assert begun(30 if indefinitely else 0.3) == indefinitely


@pytest.mark.parametrize("taken", [0, 1, 3, 4])
def test_an_epoch_that_is_left_is_not_continued(accessor: Make, taken: int) -> None:
    loaded = accessor(loader_data.OncePerEpoch(4))
    items = iter(loaded)
    left = [next(items).tolist() for _ in range(taken)]
    again = [item.tolist() for item in loaded]
    assert [index for _, index in left] == list(range(taken))
    assert [index for _, index in again] == list(range(4))
    assert len({epoch for epoch, _ in again}) == 1
    with pytest.raises(StopIteration):
        next(loaded)


def test_an_item_stays_until_the_next_is_asked_for(accessor: Make) -> None:
    """Any slot is written again only after that: the process never has one to write to."""
    loaded = accessor(Items(*(torch.full((1000,), float(i)) for i in range(50))), buffer_size=1)
    for index, item in enumerate(loaded):
        kept = item.clone()
        item += 0.5  # a slot is ordinary memory
        torch.testing.assert_close(item, kept + 0.5)
        assert kept.unique().tolist() == [float(index)]


def test_kinds_of_items(accessor: Make) -> None:
    item = torch.arange(3)
    for given, expected in [
        (item, item),
        ((item, item + 1), [item, item + 1]),
        ([item], [item]),
        ({"b": item, "a": item + 1}, {"b": item, "a": item + 1}),
        (loader_data.Named(item, item), loader_data.Named(item, item)),
    ]:
        loaded = accessor(Items(given, given), early_preload=True)
        for got in loaded:
            assert type(got) is type(expected)
            torch.testing.assert_close(got, expected)
        loaded.terminate()


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]


def test_dtypes_shapes_and_strides(accessor: Make) -> None:
    tensors = [torch.arange(6).reshape(2, 3).to(dtype) for dtype in DTYPES]
    tensors += [torch.tensor(5.0), torch.zeros(0, 4), torch.arange(6).reshape(2, 3).t()]
    loaded = accessor(Items(tensors, [tensor + tensor for tensor in tensors]))
    torch.testing.assert_close(next(loaded), tensors)
    torch.testing.assert_close(next(loaded), [tensor + tensor for tensor in tensors])


def test_items_that_change(accessor: Make) -> None:
    """Values, structure and shapes, as long as an item is not larger than the first one."""
    row = torch.arange(8)
    items = [
        {"x": [row, row], "name": "a"},
        {"x": [row], "name": "b"},
        {"x": [row[:3]], "name": "b"},
        {"x": [row.int(), row.int()], "name": None},
        {"x": [row + 1], "name": "a"},
    ]
    loaded = accessor(Items(*items))
    for got, expected in zip(loaded, items, strict=True):
        assert list(got) == ["x", "name"]
        assert got["name"] == expected["name"]
        torch.testing.assert_close(got["x"], expected["x"])
    grown = accessor(Items(row, row.repeat(64)))
    with pytest.raises(Error, match=r"an item has 4096 bytes, more than the first one's 64"):
        list(grown)


@pytest.fixture
def graph_parser() -> Iterator[None]:
    registerCustomArgParser(loader_data.Graph, loader_data.GraphParser())
    yield
    registerCustomArgParser(loader_data.Graph, None)


def test_registered_types(accessor: Make, graph_parser: None) -> None:
    graphs = [
        loader_data.Graph(torch.full((4,), float(i)), torch.full((2, 3), i), "title")
        for i in range(3)
    ]
    for got, expected in zip(accessor(Items(*graphs)), graphs, strict=True):
        assert type(got) is loader_data.Graph
        assert got.title == "title"
        torch.testing.assert_close([got.nodes, got.edges], [expected.nodes, expected.edges])


def test_rows_put_together(accessor: Make) -> None:
    loader = DataLoader(Numbers(11), batch_size=2)
    loaded = accessor(loader, rebatched_size=4)
    assert len(loaded) == 2
    for _ in range(2):
        batches = [[part.tolist() for part in item] for item in loaded]
        assert batches == [
            [[0, 1, 2, 3], [[i, i] for i in range(4)]],
            [[4, 5, 6, 7], [[i, i] for i in range(4, 8)]],
        ]


def test_rows_that_cannot_be_put_together(accessor: Make) -> None:
    for items, message in [
        ((torch.zeros(()),), "equally many rows"),
        (([torch.zeros(2), torch.zeros(3)],), "equally many rows"),
        ((torch.zeros(3, 2), torch.zeros(3, 1)), "Shape mismatch for item"),
        ((torch.zeros(3), torch.zeros(3).int()), "Data type mismatch for item"),
    ]:
        with pytest.raises(Error, match=message):
            list(accessor(Items(*items), rebatched_size=2))
    with pytest.raises(TypeError, match=r"given Items, of which the rows are put together anew"):
        len(accessor(Items(torch.zeros(2)), rebatched_size=2))


def test_random_numbers_follow_the_seed(accessor: Make) -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(torch.stack([item.clone() for item in accessor(loader_data.Shuffling())]))
    torch.testing.assert_close(drawn[0], drawn[1], rtol=0, atol=0)
    assert (drawn[0] != drawn[2]).all()


def test_an_empty_dataset(accessor: Make) -> None:
    with pytest.raises(Error, match="The Dataset is empty"):
        next(iter(accessor(Items())))
    # A generator has one epoch.
    once = accessor((torch.zeros(1) for _ in range(2)), sharing_strategy=SharingStrategy.Fork)
    assert len(list(once)) == 2
    with pytest.raises(Error, match="The Dataset is empty"):
        list(once)


def test_what_the_dataset_raises(accessor: Make) -> None:
    loaded = accessor(loader_data.Raising())
    items = iter(loaded)
    next(items)
    with pytest.raises(Error, match=r"(?s)An error occurred in the data fetcher.*no such file"):
        next(items)
    assert multiprocessing.active_children() == []
    with pytest.raises(StopIteration):
        next(items)
    # Another loop is another try.
    assert next(iter(loaded)).tolist() == [0, 0]


def test_a_process_that_is_killed(accessor: Make) -> None:
    items = iter(accessor(loader_data.Dying()))
    next(items)
    with pytest.raises(Error, match=r"An error occurred in the data fetcher: .*signal SIGKILL"):
        next(items)
    assert multiprocessing.active_children() == []


def test_a_process_that_cannot_start(accessor: Make) -> None:
    text = r"AsynchronousDataAccessor worker thread failed to start \(Check above for details\)"
    with pytest.raises(Error, match=r"(?s)" + text + ".*(pickle|lambda)"):
        accessor(Items(lambda: None))
    with pytest.raises(Error, match=text):
        next(accessor(Items(UnpicklesBadly())))
    assert multiprocessing.active_children() == []


class UnpicklesBadly:
    def __reduce__(self) -> Any:
        return os._exit, (3,)


@pytest.mark.parametrize("strategy", [SharingStrategy.ForkServer, SharingStrategy.Fork])
def test_termination_ends_all_processes(accessor: Make, strategy: SharingStrategy) -> None:
    """Also one that does not come back from loading, and what it started."""
    loaded = accessor(loader_data.Stuck(), sharing_strategy=strategy)
    worker, child = next(loaded).tolist()
    assert is_alive(worker)
    assert is_alive(child)
    loaded.terminate()
    wait_for_end(worker)
    wait_for_end(child)
    with pytest.raises(Error, match="was terminated"):
        iter(loaded)
    loaded.terminate()


def test_tensors_outlive_the_accessor(accessor: Make) -> None:
    loaded = accessor(Items(torch.arange(5)))
    item = next(loaded)
    loaded.terminate()
    assert item.tolist() == [0, 1, 2, 3, 4]


def test_an_accessor_that_nothing_refers_to() -> None:
    items = iter(AsynchronousDataAccessor(Items(torch.zeros(1))))
    next(items)
    assert len(multiprocessing.active_children()) == 1
    del items
    gc.collect()
    assert multiprocessing.active_children() == []


def test_ctrl_c_while_an_item_is_waited_for(
    accessor: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process interrupts this one once it is told that this one begins to wait."""
    waiting = tmp_path / "waiting"
    os.mkfifo(waiting)
    loaded = accessor(loader_data.Interrupting(os.getpid(), str(waiting)))
    (worker,) = next(loaded).tolist()
    receive = loaded._receive

    def note_and_receive() -> Any:
        waiting.write_text("now")
        return receive()

    with monkeypatch.context() as patches:
        patches.setattr(loaded, "_receive", note_and_receive)
        with pytest.raises(KeyboardInterrupt):
            next(loaded)
    wait_for_end(worker)
    assert multiprocessing.active_children() == []
    # The next loop has a new process.
    assert next(iter(loaded)).tolist() != [worker]


PROGRAM = """
    import os, signal, sys
    import torch
    import poptorch
    from tests.python.poptorch import loader_data

    if __name__ == "__main__":
        loaded = poptorch.AsynchronousDataAccessor(loader_data.Stuck())
        print(*next(iter(loaded)).tolist(), flush=True)
        {end}
"""
ENDS = {
    "exit": "",
    "exception": "raise SystemExit(3)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
}


def shared_memory() -> set[str]:
    """The names of shared memory; semaphores may be those of tests that run beside this one."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def run_program(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program, which is written to a folder, as a process of its own."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    root = Path(__file__).resolve().parents[3]
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{root}/python:{root}"} | environment,
        timeout=120,
    )


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_the_program(end: str, tmp_path: Path) -> None:
    """However it ends: the shared memory has no name that could stay."""
    before = shared_memory()
    done = run_program(PROGRAM.format(end=ENDS[end]), tmp_path)
    assert done.returncode == {"exit": 0, "exception": 3, "killed": -9}[end], done.stderr
    for pid in map(int, done.stdout.split()):
        wait_for_end(pid)
    assert shared_memory() <= before


def test_workers_remove_their_temporary_folders(tmp_path: Path) -> None:
    """Those of torch's loader have one each for tensors that they send."""
    program = """
        import poptorch
        from tests.python.poptorch import loader_data

        if __name__ == "__main__":
            mode = poptorch.DataLoaderMode.Async
            data = loader_data.Numbers(64)
            loader = poptorch.DataLoader(
                poptorch.Options(), data, batch_size=4, num_workers=2, mode=mode
            )
            assert len(list(loader)) == 16
            next(iter(loader))
    """
    # Paths of sockets must be short, shorter than with tmp_path.
    with tempfile.TemporaryDirectory() as folder:
        done = run_program(program, tmp_path, TMPDIR=folder)
        assert done.returncode == 0, done.stderr
        assert os.listdir(folder) == []


def test_a_loader_with_workers_of_its_own(accessor: Make) -> None:
    loader = DataLoader(Numbers(12), batch_size=3, num_workers=2)
    for (number, row), expected in zip(accessor(loader), loader, strict=True):
        torch.testing.assert_close([number, row], list(expected))


@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_workers_start_as_in_the_program(accessor: Make, strategy: SharingStrategy) -> None:
    """Not as the process itself was started."""
    (method,) = accessor(loader_data.StartMethod(), sharing_strategy=strategy)
    assert bytes(method.tolist()).decode() == multiprocessing.get_context().get_start_method()


def test_arguments_that_are_refused() -> None:
    items = Items(torch.zeros(1))
    for arguments, error, message in [
        ({"buffer_size": 0}, ValueError, "buffer_size: wanted at least 1; given 0"),
        ({"buffer_size": 1.5}, TypeError, "buffer_size: wanted an int; given 1.5"),
        ({"rebatched_size": 1}, ValueError, "rebatched_size: wanted at least 2; given 1"),
        ({"miss_sleep_time_in_ms": -1}, ValueError, "miss_sleep_time_in_ms: .* given -1"),
        ({"sharing_strategy": "fork"}, TypeError, "sharing_strategy: wanted a poptorch.Sharing"),
    ]:
        with pytest.raises(error, match=message):
            AsynchronousDataAccessor(items, **arguments)


def test_items_are_usable_as_arrays_without_a_copy(accessor: Make) -> None:
    item = next(accessor(Items(torch.arange(6.0).reshape(2, 3))))
    assert item.numpy().flags.aligned
    assert item.data_ptr() % 64 == 0
    assert np.shares_memory(item.numpy(), item.numpy())
