"""Every framework of the benchmarks does the same work: same results from the same weights."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import popxl
from benchmarks import data
from benchmarks.cases import NETWORKS, Case, all_cases
from benchmarks.frameworks import popxl_programs, torch_compile, torch_models
from benchmarks.models import families, generation
from benchmarks.models.families import model_cases
from benchmarks.program import FIRST_STEPS, FIRST_VALUES

ROOT = Path(__file__).resolve().parents[2]
ADAPTORS = {
    "pando": ("popxl", "benchmarks.frameworks.pando_popxl"),
    "poptorch": ("torch", "benchmarks.frameworks.pando_poptorch"),
    "torch_eager": ("torch", "benchmarks.frameworks.torch_eager"),
    "jax": ("jax", "benchmarks.frameworks.jax_jit"),
    "mlx": ("mlx", "benchmarks.frameworks.mlx_cpu"),
}


def small(case: Case) -> Case:
    """One sequence through two layers of a transformer says the same as all."""
    return replace(case, layers=2, batch=1) if case.layers else case


CASES = [
    small(case)
    for case in all_cases()
    if (case.family in NETWORKS and case.batch <= 32) or case.megabytes == 1
]
# Every model, as small as its family has it.
MODELS = [
    replace(case, name=f"{case.family}_{variant}/{case.mode}", variant=variant, batch=2)
    for case in model_cases()
    if case.variant
    for variant in families.model_sizes(case.family)
    if variant.startswith("tiny")
]
MODELS = list({case.name: case for case in MODELS}.values())
ACCUMULATING = [
    replace(case, name=f"{case.name}/accumulate2", batch=4, accumulation=2)
    for case in MODELS
    if case.family == "gpt2" and case.training
]
# No torch modules of a program of their own; poptorch knows no optimizer like the tutorial's.
NOT_OF_POPTORCH = ("generation", "recommender", "light", "gelu", "norm")
RUNS = [(framework, case) for framework in ADAPTORS for case in CASES] + [
    (framework, case)
    for framework in ("pando", "poptorch", "torch_eager", "jax")
    for case in MODELS
]
RUNS += [(framework, case) for framework in ("poptorch", "torch_eager") for case in ACCUMULATING]
RUNS = [
    (framework, case)
    for framework, case in RUNS
    if framework != "poptorch"
    or (case.family not in NOT_OF_POPTORCH and case.optimizer != "tutorial_adam")
]
IDS = [f"{case.name}-{framework}" for framework, case in RUNS]


def doubles(arrays: Iterable[np.ndarray]) -> list[torch.Tensor]:
    tensors = torch_models.tensors(arrays)
    return [t.double() if t.is_floating_point() else t for t in tensors]


def reference_training(case: Case) -> np.ndarray:
    """Losses of the first steps, in float64; the updates are written out here."""
    net = torch_models.model(case).double()
    weights = list(net.parameters())
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    losses = []
    batches = itertools.islice(itertools.cycle(torch_models.host_batches(case)), FIRST_STEPS)
    for count, batch in enumerate(batches, start=1):
        *inputs, labels = doubles(batch)
        loss = torch_models.loss_of(case)(net(*inputs), labels)
        grads = torch.autograd.grad(loss, weights)
        losses.append(loss.item())
        with torch.no_grad():
            for w, g, m, v in zip(weights, grads, first, second, strict=True):
                if case.optimizer == "sgd":
                    w -= data.LEARNING_RATE * g.to_dense()
                    continue
                if case.optimizer == "momentum":
                    m.copy_(data.MOMENTUM * m + g)
                    w -= data.LEARNING_RATE * m
                    continue
                m.copy_(data.BETA1 * m + (1 - data.BETA1) * g)
                v.copy_(data.BETA2 * v + (1 - data.BETA2) * g * g)
                if case.optimizer == "adamw":
                    w *= 1 - data.LEARNING_RATE * data.WEIGHT_DECAY
                corrected = case.optimizer != "tutorial_adam"
                m_scale = 1 - data.BETA1**count if corrected else 1.0
                v_scale = 1 - data.BETA2**count if corrected else 1.0
                step = (m / m_scale) / ((v / v_scale).sqrt() + data.EPSILON)
                w -= data.LEARNING_RATE * step
    return np.array(losses)


def reference_generation(case: Case) -> np.ndarray:
    """Without caches: for every token a pass over the whole text."""
    net = families.on("torch", replace(case, family="gpt2")).Net(families.model(case).of)
    net.load_state_dict(torch_models.model(case).state_dict())
    net.double()
    text = torch.zeros((case.batch, net.of.decoder.sequence), dtype=torch.int64)
    text[:, :1] = torch.from_numpy(data.batches(case)[0].x)
    for i in range(FIRST_STEPS):
        with torch.no_grad():
            scores = net(text).unflatten(0, text.shape)[:, i]
        text[:, i + 1] = scores.argmax(-1)
    return scores.numpy().ravel()[:FIRST_VALUES]


def reference_inference(case: Case) -> np.ndarray:
    if case.family == "generation":
        return reference_generation(case)
    inputs = doubles(torch_models.host_batches(case)[FIRST_STEPS - 1][:-1])
    with torch.no_grad():
        outputs = torch_models.model(case).eval().double()(*inputs)
    return outputs.numpy().ravel()[:FIRST_VALUES]


def reference_pass(case: Case) -> np.ndarray:
    x = data.plane(case).astype(np.float64)
    v = data.row_vectors()
    if case.family == "light":
        y = np.maximum(x * v.a + v.b, 0) * v.c + x * 0.5 - 1.0
    elif case.family == "gelu":
        z = x * v.a + v.b
        tanh = np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))
        y = 0.5 * z * (1 + tanh) * v.c + x
    else:
        e = np.exp(x - x.max(-1, keepdims=True))
        s = e / e.sum(-1, keepdims=True)
        centred = s - s.mean(-1, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * v.a + v.b
    return y.ravel()[:FIRST_VALUES]


def reference(case: Case) -> np.ndarray:
    if case.megabytes:
        return reference_pass(case)
    return reference_training(case) if case.training else reference_inference(case)


def tolerance(case: Case) -> float:
    """A first moment of float16 keeps 11 bits of it."""
    return 1e-3 if case.optimizer == "tutorial_adam" else 1e-4


@pytest.mark.parametrize(("framework", "case"), RUNS, ids=IDS)
def test_first_results_are_those_of_the_reference(framework: str, case: Case) -> None:
    module, adaptor = ADAPTORS[framework]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if framework == "mlx" and case.family == "decoder":
        pytest.skip("MLX has no decoder row: its steps take minutes")
    program = importlib.import_module(adaptor).build(case, 2)
    try:
        given = np.array(program.first)
    finally:
        program.close()
    wanted = reference(case)
    np.testing.assert_allclose(given[: wanted.size], wanted, rtol=tolerance(case), atol=2e-5)
    assert wanted.size >= FIRST_STEPS and np.ptp(wanted) > 1e-4, "values that tell programs apart"


TRAINING = [case for case in CASES if case.training and case.family in ("mlp", "cnn")]
TRAINING += [case for case in MODELS if case.training]


@pytest.mark.parametrize("case", TRAINING, ids=[case.name for case in TRAINING])
def test_the_step_that_torch_compiles_is_that_of_the_reference(case: Case) -> None:
    """Without the compiler: its variants trace this function."""
    step = torch_compile.functional_step(case)
    feed = torch_models.host_batches(case)[:FIRST_STEPS]
    losses = [step(*torch_models.tensors(batch)).item() for batch in feed]
    np.testing.assert_allclose(losses, reference(case), rtol=tolerance(case))


@pytest.mark.parametrize("case", ACCUMULATING, ids=[case.name for case in ACCUMULATING])
def test_the_micro_batches_that_torch_compiles_make_the_step_of_the_reference(case: Case) -> None:
    step = torch_compile.accumulating_step(case, lambda function: function)
    feed = torch_models.host_batches(case)[:FIRST_STEPS]
    losses = [step(*torch_models.tensors(batch)).item() for batch in feed]
    np.testing.assert_allclose(losses, reference(case), rtol=tolerance(case))


NORMALISED = [case for case in TRAINING if case.family == "resnet"]


def torch_running_statistics(case: Case, batch: data.Batch) -> dict[str, np.ndarray]:
    """Those after one batch."""
    net = torch_models.model(case).double()
    net(torch.from_numpy(batch.x).double())
    return {name: b.numpy() for name, b in net.named_buffers() if "running" in name}


def popxl_running_statistics(case: Case, batch: data.Batch) -> dict[str, np.ndarray]:
    built = popxl_programs.training(case)
    with popxl.Session(built.ir, "cpu") as session:
        session.run(dict(zip(built.inputs, (batch.x, batch.labels), strict=True)))
        found = [v for v in built.ir.main_graph.variables if "running" in v.name]
        return {variable.name: session.get_tensor_data(variable) for variable in found}


def jax_running_statistics(case: Case, batch: data.Batch) -> dict[str, np.ndarray]:
    on_jax = pytest.importorskip("benchmarks.models.resnet.on_jax", exc_type=ImportError)
    weights = on_jax.prepare(data.weights(case))
    _, running = on_jax.training_outputs(families.model(case), weights, batch.x)
    return {name: np.asarray(value) for name, value in running.items()}


@pytest.mark.parametrize("found", [popxl_running_statistics, jax_running_statistics])
@pytest.mark.parametrize("case", NORMALISED, ids=[case.name for case in NORMALISED])
def test_running_statistics_are_those_of_pytorch(
    case: Case, found: Callable[[Case, data.Batch], dict[str, np.ndarray]]
) -> None:
    batch = data.batches(case)[0]
    given, wanted = found(case, batch), torch_running_statistics(case, batch)
    assert given.keys() == wanted.keys() and wanted
    for name, value in wanted.items():
        np.testing.assert_allclose(given[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_generation_that_torch_compiles_is_that_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the compiler, which traces this function."""
    monkeypatch.setattr(torch, "compile", lambda net, **_: net)
    case = next(case for case in MODELS if case.family == "generation")
    net = torch_models.model(case).eval()
    decoder = families.on("torch", case).compiled_decoder
    given = generation.steps(case, decoder(families.model(case), case.batch, net)).first
    np.testing.assert_allclose(given, reference(case), rtol=tolerance(case), atol=2e-5)


DENORMAL = """
from benchmarks.denormals import flush_denormals
flush_denormals()
import numpy as np
x = np.full(1 << 20, 1e-39, np.float32)
{body}
print(int(np.count_nonzero(y.view(np.int32))))
"""
BODIES = {
    "numpy": "y = x * np.float32(1)",
    "torch": "import torch\ny = (torch.from_numpy(x) * 1.0).numpy()",
    "jax": "import jax\ny = np.array(jax.jit(lambda a: a * np.float32(0.5) + a)(x))",
    "mlx": "import mlx.core as mx\nmx.set_default_device(mx.cpu)\n"
    "a = mx.array(x) * 0.5\nmx.eval(a)\ny = np.array(a)",
}


@pytest.mark.parametrize("library", BODIES)
def test_denormals_are_flushed_on_every_thread(library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    script = DENORMAL.format(body=BODIES[library])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "0"


def test_the_lower_bound_counts_products_and_bytes_of_a_step() -> None:
    """One dense layer is counted by hand: the head of the tutorial network, its last shape."""
    from benchmarks.frameworks import lower_bound, traffic

    case = next(c for c in all_cases() if c.name == "mlp/infer/b8")
    products = [(8, 784, 512), (8, 512, 512), (8, 512, 512), (8, 512, 10)]
    assert lower_bound.operations(case) == sum(2 * m * k * n for m, k, n in products)
    assert traffic.least_traffic(case).moved == 4 * (932_362 + 8 * 784)
    training = next(c for c in all_cases() if c.name == "mlp/train/adam/b8")
    # The gradient of the first input is not needed.
    assert lower_bound.operations(training) == 3 * lower_bound.operations(case) - 2 * 8 * 784 * 512
    # Weight and two moments, read and written.
    assert traffic.least_traffic(training).moved == 24 * 932_362 + 4 * 8 * 784


def test_figures_keep_the_sections_of_other_benchmarks(tmp_path: Path) -> None:
    from benchmarks.figures import NotFigures, load_sections, save_section

    path = tmp_path / "figures.json"
    save_section(path, "one", [{"name": "a"}])
    save_section(path, "two", [{"name": "b"}])
    save_section(path, "one", [{"name": "c"}])
    sections = load_sections(path)
    assert {name: s["rows"] for name, s in sections.items()} == {
        "one": [{"name": "c"}],
        "two": [{"name": "b"}],
    }
    assert {"commit", "processor", "cores", "date", "versions"} <= set(sections["one"]["measured"])
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(NotFigures, match=r"figures\.json"):
        load_sections(path)


def test_rows_that_are_measured_one_by_one_make_one_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import figures

    path, order = tmp_path / "figures.json", ["a", "b", "c"]
    for rows in ([{"name": "c"}], [{"name": "a", "pando": 1}], [{"name": "a", "pando": 2}]):
        figures.save_rows(path, "models", rows, order)
    assert figures.load_sections(path)["models"]["rows"] == [
        {"name": "a", "pando": 2},
        {"name": "c"},
    ]
    assert figures.load_sections(path)["models"]["missing"] == ["b"]
    sections = figures.load_sections(path)
    sections["models"]["measured"]["date"] = "2001-01-01"
    path.write_text(json.dumps(sections))
    figures.save_rows(path, "models", [{"name": "b"}], order)
    assert [row["name"] for row in figures.load_sections(path)["models"]["rows"]] == order
    # Rows of another commit say nothing of this one.
    monkeypatch.setattr(figures, "_commit", lambda: "another")
    figures.save_rows(path, "models", [{"name": "b"}], order)
    assert figures.load_sections(path)["models"]["rows"] == [{"name": "b"}]
    # A quick check says nothing of times.
    figures.save_rows(path, "models", [{"name": "a"}], order, quick=True)
    assert figures.load_sections(path)["models"]["rows"] == [{"name": "a"}]
