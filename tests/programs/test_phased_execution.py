"""The phased-execution tutorial: the program of the document, and what it computes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import document, notebook_cells, run_program
from image_batches import photo_batches
from torch_reference import train_with_adam

from pando.datasets import DEFAULT_FOLDER

DOCUMENT = "popxl-phased-execution.txt"
MODES = ["compute", "io", "io_overlapped"]
STEPS = 24
needs_photos = pytest.mark.skipif(
    not DEFAULT_FOLDER.is_dir(), reason=f"the data set {DEFAULT_FOLDER} is not installed"
)


def program(io_mode: str) -> list[str]:
    """The cells of the document, in one of its modes; the document itself has "io"."""
    text = document(DOCUMENT)
    # The line of the document that sets the mode has a spelling mistake and no effect.
    default = 'io_mode: str = "io"\n'
    assert text.count(default) == 1
    return notebook_cells(text.replace(default, f'io_mode: str = "{io_mode}"\n'))


def definitions(io_mode: str) -> str:
    """Everything up to the first use of the data."""
    cells = program(io_mode)
    first_use = next(i for i, cell in enumerate(cells) if "global_batch_size = (" in cell)
    return "\n".join(cells[:first_use])


@needs_photos
@pytest.mark.parametrize(
    ("io_mode", "images"), [*((mode, "1600") for mode in MODES), ("io", "16000")]
)
def test_the_tutorial(tmp_path: Path, io_mode: str, images: str) -> None:
    source = "\n".join(program(io_mode))
    output = run_program(source, tmp_path, TORCHVISION_SHIM_IMAGES=images)
    assert output.count("Mean duration") == 2
    accuracy = float(re.findall(r"Accuracy on test set: ([\d.]+)%", output)[-1])
    assert accuracy > (55 if images == "16000" else 20)


_TRAIN = """
import json
from image_batches import photo_batches


def train(session, streams, loss_stream, lr):
    losses = []
    with session:
        for images, labels in photo_batches(STEPS, 64):
            outputs = session.run({
                stream: array.reshape(session._full_input_shape(stream.shape))
                for stream, array in zip(streams, [images, labels])
            })
            losses.append(outputs[loss_stream].reshape(4, 2).tolist())
    return losses


def unphased_program(opts):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((8, 784), popxl.float32, "image")
        labels = popxl.h2d_stream((8,), popxl.int32, "labels")
        loss_stream = popxl.d2h_stream((), popxl.float32, "loss")
        facts, forward = Net().create_graph(images.spec)
        grad_facts, backward = addons.autodiff_with_accumulation(forward, forward.args.tensors)
        variables, accums = facts.init(), grad_facts.init()
        for _ in range(8):
            info = forward.bind(variables).call_with_info(ops.host_load(images))
            loss, dx = addons.ops.cross_entropy_with_grad(
                info.outputs[0], ops.host_load(labels)
            )
            ops.host_store(loss_stream, loss)
            args = backward.grad_graph_info.inputs_dict(info)
            backward.bind(accums).call(dx, args=args)
        grads = accums.accum.named_tensors
        for name, var in variables.named_tensors.items():
            state, graph = Adam().create_graph(
                var, var.spec, lr=opts.train.lr, bias_correction=False
            )
            graph.bind(state.init(name)).call(var, grads[name])
        ops.var_updates.accumulator_scale_(accums.mean_accum_counter, 0.0)
    ir.num_host_transfers = 8
    return popxl.Session(ir, "cpu"), [images, labels], variables, loss_stream


assert (opts.train.data_parallel, opts.train.gradient_accumulation) == (2, 4)
opts.train.lr = 1e-4
result = {}
session, streams, variables, loss_stream = train_program(opts)
start = session.get_tensors_data(variables.tensors)
start = {name: start[t].copy() for name, t in variables.to_dict().items()}
result["phased"] = train(session, streams, loss_stream, opts.train.lr)
phased = session.get_tensors_data(variables.tensors)
plain, streams, plain_variables, loss_stream = unphased_program(opts)
plain.write_variables_data({t: start[name] for name, t in plain_variables.to_dict().items()})
result["unphased"] = train(plain, streams, loss_stream, opts.train.lr)
trained = plain.get_tensors_data(plain_variables.tensors)
result["difference"] = {
    name: float(np.max(np.abs(phased[t] - trained[plain_variables[name]])))
    for name, t in variables.to_dict().items()
}
np.savez("start.npz", **start)
print(json.dumps(result))
"""


@needs_photos
@pytest.mark.parametrize("io_mode", MODES)
def test_the_losses_are_those_of_the_unphased_program(tmp_path: Path, io_mode: str) -> None:
    source = f"STEPS = {STEPS}\n" + definitions(io_mode) + _TRAIN
    path = str(Path(__file__).parent)
    output = run_program(f"import sys\nsys.path.insert(0, {path!r})\n" + source, tmp_path)
    result = json.loads(output.splitlines()[-1])
    assert np.shape(result["phased"]) == (STEPS, 4, 2)
    np.testing.assert_allclose(result["phased"], result["unphased"], rtol=1e-5, atol=1e-6)
    assert np.mean(result["phased"][-10:]) < 0.7 * np.mean(result["phased"][:10])
    # A fifth of one step: where gradients are close to zero, the order of their sums and the
    # rounding of the float16 moments count.
    assert max(result["difference"].values()) < 2e-5

    batches = photo_batches(STEPS, 64)
    start = dict(np.load(tmp_path / "start.npz"))
    wanted, _ = train_with_adam(start, batches, 1e-4)
    np.testing.assert_allclose(np.mean(result["phased"], axis=(1, 2)), wanted, rtol=1e-4, atol=1e-5)


_SHORT_TRAIN = """
import json
from image_batches import photo_batches

session, streams, variables, loss_stream = train_program(opts)
values = np.random.default_rng(4)
session.write_variables_data({
    t: (0.05 * values.standard_normal(t.shape_on_host)).astype(t.dtype.as_numpy())
    for t in variables.tensors
})
losses = []
with session:
    for images, labels in photo_batches(4, 64):
        outputs = session.run({
            stream: array.reshape(session._full_input_shape(stream.shape))
            for stream, array in zip(streams, [images, labels])
        })
        losses.append(outputs[loss_stream].tolist())
    report = session._pb_session.program.io_report
trained = session.get_tensors_data(variables.tensors)
result = {name: trained[t].tobytes().hex()[:2000] for name, t in variables.to_dict().items()}
print(json.dumps([losses, result, report.bytes_loaded]))
"""


@needs_photos
@pytest.mark.parametrize("io_mode", ["io", "io_overlapped"])
def test_remote_buffers_in_files_give_the_same_bits(tmp_path: Path, io_mode: str) -> None:
    path = str(Path(__file__).parent)
    source = f"import sys\nsys.path.insert(0, {path!r})\n" + definitions(io_mode) + _SHORT_TRAIN

    def run(**environment: str) -> list[Any]:
        result: list[Any] = json.loads(
            run_program(source, tmp_path, **environment).splitlines()[-1]
        )
        return result

    in_ram = run()
    in_files = run(PANDO_REMOTE_TIER="file", PANDO_REMOTE_FOLDER=str(tmp_path / "remote"))
    assert in_files[:2] == in_ram[:2]
    assert in_files[2] > 0
    assert in_ram[2] == 0
