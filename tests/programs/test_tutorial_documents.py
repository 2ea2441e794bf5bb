"""The published tutorial programs, run as their documents print them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documents import between, document, numbered_lines, run_program

from pando.datasets import DEFAULT_FOLDER

pytestmark = pytest.mark.skipif(
    not DEFAULT_FOLDER.is_dir(), reason=f"the data set {DEFAULT_FOLDER} is not installed"
)

DEVICES = ["ipu_hw", "ipu_model", "cpu"]
WHOLE, SOME = "60000", "1600"


def custom_optimiser_program(text: str) -> str:
    """The code of the document, which stands between prose and output."""
    sections = [
        ("from typing import Dict, Mapping", "Defining the Adam optimiser"),
        ("class Adam(addons.Module):", "The Adam optimiser needs state"),
        ("ir = popxl.Ir(replication=1)", "Adam with float learning rate"),
        ("def optimiser_step(", "We load the data"),
        ("def get_mnist_data(", "The training code is almost unchanged"),
        ("def train_program(", "You will notice above"),
        ("train_batch_size = 8", "Epoch 1/1"),
        ("# Retrieve the trained weights", "Validation"),
        ("def test_program(", "We create the test program"),
        ("test_session, test_input_streams", "Finally, "),
        ("def accuracy(", "100%|"),
    ]
    return "\n".join(between(text, start, end) for start, end in sections)


def recorded_output(text: str) -> str:
    return between(text, "Adam with float learning rate", "MNIST with Adam")


def as_recorded(output: str) -> str:
    """The document shows no blanks at line ends."""
    return "\n".join(line.rstrip() for line in output.splitlines())


@pytest.mark.parametrize(("device", "images"), [*((d, SOME) for d in DEVICES), ("cpu", WHOLE)])
def test_the_custom_optimiser_tutorial(tmp_path: Path, device: str, images: str) -> None:
    text = document("popxl-custom-optimiser.txt")
    source = custom_optimiser_program(text)
    assert source.count('"ipu_hw"') == 2
    source = source.replace('"ipu_hw"', f'"{device}"')
    output = run_program(source, tmp_path, TORCHVISION_SHIM_IMAGES=images)
    shown = as_recorded(output).rstrip().split("\nEpoch 1/1")[0]
    assert shown.strip() == recorded_output(text).strip()
    accuracy = float(re.findall(r"Accuracy on test set: ([\d.]+)%", output)[-1])
    # Batches of eight move it by several percent from step to step, in PyTorch as well.
    assert accuracy > (75 if images == WHOLE else 50)


# The document leaves out the lines between its listings; these are ours, by the line after which
# they stand.
_BETWEEN_LISTINGS = {
    15: "\n\n",
    113: "def calculate_grads(outputs, params, linears, fwd_call_infos, dy):\n",
    157: '    return {"W0": grad_w_0, "b0": grad_b_0, "W1": grad_w_1, "b1": grad_b_1}\n',
    170: "def build_train_ir(opts):\n",
    203: "        outputs, params, linears, fwd_call_infos = create_network_fwd_graph(ir, x)\n",
    211: (
        "        grads = calculate_grads(outputs, params, linears, fwd_call_infos, dy)\n"
        "        update_weights_bias(opts, grads, params)\n"
    ),
    221: "    return ir, (img_stream, label_stream), loss_stream, params\n",
    270: """
def build_test_ir(opts):
    ir = popxl.Ir()
    ir.num_host_transfers = 1
    ir.replication_factor = 1
    with ir.main_graph, popxl.in_sequence():
        in_stream = popxl.h2d_stream([opts.test_batch_size, 28, 28], popxl.float32, "input")
        x = ops.host_load(in_stream, "x")
        outputs, params, _, _ = create_network_fwd_graph(ir, x)
        out_stream = popxl.d2h_stream(outputs[1].shape, outputs[1].dtype, "output")
        ops.host_store(out_stream, outputs[1])
    return ir, (in_stream,), out_stream, params


def get_test_var_values(test_variables, trained_weights_data_dict):
    values = {tensor.name: data for tensor, data in trained_weights_data_dict.items()}
    return {variable: values[name].copy() for name, variable in test_variables.items()}


def test(test_session, test_data, input_streams, out_stream):
    hits = count = 0
    for data, labels in test_data:
        images = data.squeeze().float().numpy()
        scores = test_session.run({input_streams[0]: images})[out_stream]
        hits += int((scores.argmax(-1) == labels.numpy()).sum())
        count += len(labels)
    print(f"Accuracy on test set: {100 * hits / count:.2f}%")


def main():
        opts = argparse.Namespace(batch_size=8, test_batch_size=80, epochs=1, lr=0.05)
        np.random.seed(42)
        training_data, test_data = get_mnist_data(opts.test_batch_size, opts.batch_size)
        train_ir, input_streams, loss_stream, train_variables = build_train_ir(opts)
""",
    347: (
        "        trained_weights_data_dict = "
        "train_session.get_tensors_data(train_variables.values())\n"
    ),
    364: '\n\nif __name__ == "__main__":\n    main()\n',
}

_LISTED = [
    (6, 15),
    (30, 53),
    (58, 113),
    (126, 145),
    (148, 157),
    (165, 170),
    (188, 191),
    (194, 203),
    (209, 211),
    (219, 221),
    (255, 270),
    (345, 347),
    (354, 364),
]


def user_guide_program(text: str) -> str:
    """The listings in the order of their line numbers, with our lines between them."""
    code = numbered_lines(text)
    parts = []
    for first, last in _LISTED:
        parts += [code[number] + "\n" for number in range(first, last + 1)]
        parts.append(_BETWEEN_LISTINGS.get(last, ""))
    return "".join(parts)


@pytest.mark.parametrize(("device", "images"), [*((d, SOME) for d in DEVICES), ("cpu", WHOLE)])
def test_the_user_guides_mnist_program(tmp_path: Path, device: str, images: str) -> None:
    source = user_guide_program(document("popxl-mnist.txt"))
    assert source.count('"ipu_model"') == 2
    source = source.replace('"ipu_model"', f'"{device}"')
    output = run_program(source, tmp_path, TORCHVISION_SHIM_IMAGES=images)
    accuracy = float(re.findall(r"Accuracy on test set: ([\d.]+)%", output)[-1])
    assert accuracy > (75 if images == WHOLE else 40)
