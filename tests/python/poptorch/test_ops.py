"""Functions of poptorch on the CPU, beside torch and NumPy; and their errors."""

from __future__ import annotations

import collections
import math

import pytest
import torch

import poptorch
from poptorch.ops import accessAttributes
from tests.python.poptorch.marks import recorded

Pair = collections.namedtuple("Pair", ["a", "b"])


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- values pass through -------------------------------------------------------------------------

IDENTITIES = {
    "nop": poptorch.nop,
    "print": poptorch.ipu_print_tensor,
    "checkpoint": poptorch.recomputationCheckpoint,
    "memory": lambda x: poptorch.set_available_memory(x, 0.3),
    "overlap_input": lambda x: poptorch.set_overlap_for_input(
        x, poptorch.OverlapMode.OverlapAccumulationLoop
    ),
    "overlap_output": lambda x: poptorch.set_overlap_for_output(x, poptorch.OverlapMode.NoOverlap),
    "none": lambda x: poptorch.identity_loss(x, "none"),
}


@pytest.mark.parametrize("function", IDENTITIES.values(), ids=IDENTITIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
def test_identities_keep_values_and_gradients(function, dtype):
    x = values(2, 3).to(dtype).requires_grad_(dtype.is_floating_point)
    y = function(x)
    assert y.dtype == dtype and torch.equal(x, y)
    if dtype.is_floating_point:
        weights = values(2, 3, seed=1).to(dtype)
        (y * weights).sum().backward()
        assert torch.equal(x.grad, weights)


@pytest.mark.parametrize("function", IDENTITIES.values(), ids=IDENTITIES)
def test_identities_make_a_value_of_their_own_in_a_trace(function):
    x = torch.empty(2, 3, device="meta", requires_grad=True)
    with recorded() as calls:
        y = function(x)
    assert len(calls) == 1
    assert y is not x and y.requires_grad
    assert y.untyped_storage()._cdata != x.untyped_storage()._cdata
    with recorded(), torch.no_grad():
        assert not function(x).requires_grad


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_identity_loss_reduces(reduction):
    x = values(3, 4).requires_grad_()
    poptorch.identity_loss(x, reduction).backward()
    wanted = values(3, 4).requires_grad_()
    getattr(wanted, reduction)().backward()
    assert torch.equal(poptorch.identity_loss(x, reduction), getattr(x, reduction)())
    assert torch.equal(x.grad, wanted.grad)


def test_identity_loss_knows_its_reductions():
    with pytest.raises(AssertionError, match="Unsupported reduction type!"):
        poptorch.identity_loss(torch.ones(2), "max")
    with pytest.raises(poptorch.Error, match=r"reduction must be sum \(0\), mean \(1\) or none"):
        torch.ops.poptorch.identity_loss(torch.ones(2), 3)


def test_print_takes_first_characters_and_known_formats():
    with recorded() as calls:
        poptorch.ipu_print_tensor(
            torch.ones(2, device="meta"),
            "t",
            print_gradient=False,
            float_format="fixed",
            separator=", ",
            open_bracket="<<",
            close_bracket=">>",
        )
    assert calls[-1][0] == "ipu_print_tensor"
    assert calls[-1][1][1:] == ("t", 0, 1000, 3, 80, 4, 1, ",", "<", ">")
    with pytest.raises(KeyError, match="engineering"):
        poptorch.ipu_print_tensor(torch.ones(1), float_format="engineering")


def test_checkpoints_keep_their_structure():
    a, b = values(2), values(3)
    assert isinstance(poptorch.recomputationCheckpoint(a), torch.Tensor)
    for given, kind in (((a, b), tuple), (([a, b],), list), (((a, b),), tuple), (([a],), list)):
        kept = poptorch.recomputationCheckpoint(*given)
        assert type(kept) is kind
        assert torch.equal(kept[0], a)
    pair = poptorch.recomputationCheckpoint(Pair(a, b))
    assert isinstance(pair, Pair) and torch.equal(pair.b, b)
    for wrong in ((1,), ([a, 2],), (), ([a], b)):
        with pytest.raises(ValueError, match="All inputs must be tensors"):
            poptorch.recomputationCheckpoint(*wrong)


def test_available_memory_is_for_tensors():
    with pytest.raises(
        poptorch.Error, match=r"only set available memory for torch.tensor values\."
    ):
        poptorch.set_available_memory([torch.ones(1)], 0.5)


def test_serialized_products_are_products():
    a, b = values(2, 3, 4), values(4, 5, seed=1)
    for mode in poptorch.MatMulSerializationMode:
        product = poptorch.serializedMatMul(a, b, mode, factor=2, keep_precision=True)
        assert torch.equal(product, a @ b)
    with pytest.raises(AssertionError, match="MatMulSerializationMode"):
        poptorch.serializedMatMul(a, b, "none")


def test_overlap_keeps_any_nesting():
    a, b = values(2), values(3)
    nested = {"x": (a, [b]), "y": Pair(a, None)}
    for function in (poptorch.set_overlap_for_input, poptorch.set_overlap_for_output):
        result = function(nested, poptorch.OverlapMode.NoOverlap)
        assert torch.equal(result["x"][1][0], b) and torch.equal(result["y"].a, a)
        assert isinstance(result["x"], tuple) and result["y"].b is None
        with pytest.raises(AssertionError, match="OverlapMode"):
            function(nested, "no_overlap")


# --- slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [torch.tensor(2), torch.tensor([2], dtype=torch.int32)])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_dynamic_slice(start, step):
    x = values(3, 8).requires_grad_()
    y = poptorch.dynamic_slice(x, 1, start, 4, step)
    assert torch.equal(y, x[:, 2:6:step])
    y.sum().backward()
    wanted = torch.zeros(3, 8)
    wanted[:, 2:6:step] = 1
    assert torch.equal(x.grad, wanted)
    meta = x.to("meta")
    assert poptorch.dynamic_slice(meta, 1, start, 4, step).shape == (3, math.ceil(4 / step))


@pytest.mark.parametrize(
    ("size", "step", "text"),
    [
        (7, 1, r"The size of the slice \(7\) must be a factor of the slicing dimension \(8\)\."),
        (0, 1, "The start and end of a slice must be different."),
        (-2, 1, "with the end less than the start is not supported."),
        (4, 0, "The step of a slice must be at least 1; given 0"),
    ],
)
def test_sizes_of_dynamic_slices_are_checked_in_a_program(size, step, text):
    x = torch.ones(8, device="meta")
    with pytest.raises(poptorch.Error, match=text):
        poptorch.dynamic_slice(x, 0, torch.zeros((), dtype=torch.int32, device="meta"), size, step)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_starts_are_single_integers(device):
    x = torch.ones(8, device=device)
    for start in (torch.ones((), device=device), torch.ones((), dtype=torch.bool, device=device)):
        with pytest.raises(poptorch.Error, match="Expected integer typed start tensor"):
            poptorch.dynamic_slice(x, 0, start, 4, 1)
        with pytest.raises(poptorch.Error, match="Expected integer typed start tensor"):
            poptorch.dynamic_update(x, x[:4], 0, start, 4)
    with pytest.raises(poptorch.Error, match="a start tensor of one element"):
        poptorch.dynamic_slice(x, 0, torch.ones(2, dtype=torch.int32, device=device), 4, 1)


def test_dynamic_update():
    x, src = values(3, 8).requires_grad_(), values(3, 4, seed=1).requires_grad_()
    y = poptorch.dynamic_update(x, src, 1, torch.tensor(3), 4)
    wanted = x.detach().clone()
    wanted[:, 3:7] = src.detach()
    assert torch.equal(y, wanted)
    (y * wanted).sum().backward()
    assert torch.equal(src.grad, wanted[:, 3:7])
    kept = wanted.clone()
    kept[:, 3:7] = 0
    assert torch.equal(x.grad, kept)
    start = torch.empty((), dtype=torch.int32, device="meta")
    assert poptorch.dynamic_update(x.to("meta"), src.to("meta"), 1, start, 4).shape == (3, 8)


def test_arguments_of_dynamic_updates_agree():
    start = torch.tensor(0)
    with pytest.raises(
        poptorch.Error, match=r"tensors must have same dimensionality. \(2\) vs \(1\)"
    ):
        poptorch.dynamic_update(torch.ones(2, 2), torch.ones(2), 0, start, 2)
    with pytest.raises(poptorch.Error, match=r"src tensor must have same dtype. .torch.float32 vs"):
        poptorch.dynamic_update(torch.ones(2), torch.ones(2).int(), 0, start, 2)


# --- decoding and users' ops ---------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_beam_search_has_the_shapes_of_its_results(device):
    probs = torch.zeros(6, 2, 5, device=device, requires_grad=True)
    lengths = torch.full((2,), 6, device=device)
    scores, counts, labels = poptorch.ctc_beam_search_decoder(probs, lengths, top_paths=3)
    assert (scores.shape, counts.shape, labels.shape) == ((2, 3), (2, 3), (2, 3, 6))
    assert (scores.dtype, counts.dtype, labels.dtype) == (
        torch.float32,
        torch.int32,
        torch.int32,
    )
    assert not scores.requires_grad
    if device == "cpu":
        assert not scores.any() and not counts.any() and not labels.any()


@pytest.mark.parametrize(
    ("shape", "lengths", "options", "text"),
    [
        ((6, 5), 6, {}, "Incorrect shape for first input to CTC beam search decoder."),
        ((6, 2, 5), 3, {}, "Incorrect shape for second input"),
        ((6, 2, 5), 2, {"top_paths": 4, "beam_width": 3}, "at most beam_width, 3; given 4"),
        ((6, 2, 5), 2, {"blank": 5}, "a blank among 5 classes; given 5"),
    ],
)
def test_arguments_of_beam_search_are_checked(shape, lengths, options, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.ctc_beam_search_decoder(torch.zeros(shape), torch.ones(lengths), **options)


def test_custom_ops_give_their_example_outputs():
    x, example = values(2), values(3)
    results = poptorch.custom_op([x], "Cube", "com.acme", 1, example_outputs=[example, x])
    assert isinstance(results, list)
    assert torch.equal(results[0], example) and torch.equal(results[1], x)


def test_custom_ops_in_a_trace_need_gradients_where_inputs_do():
    x = torch.empty(2, device="meta", requires_grad=True)
    number = torch.empty(3, device="meta", dtype=torch.int32)
    attributes = {
        "float": 1.0,
        "int": -5,
        "floats": (1.0, -2.0),
        "ints": [1, 2],
        "text": "quotes \" ' \\ end",
        "texts": ["abc", "def"],
    }
    with recorded() as calls:
        floats, ints = poptorch.custom_op([x], "A", "b", 2, [x, number], attributes)
    assert floats.requires_grad and not ints.requires_grad and ints.dtype == torch.int32
    floats.add_(1)  # which torch refuses for a leaf that needs a gradient
    name, args = calls[0]
    assert name == "custom_operation" and args[1:5] == ("A", "b", 2, 2)
    read = accessAttributes(args[6])
    assert read == {**attributes, "floats": [1.0, -2.0]}
    assert isinstance(read["float"], float) and isinstance(read["int"], int)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2.0], r"must have one type; given \['float', 'int'\]"),
        ([1, "a"], "must have one type"),
        ([], "must not be an empty list"),
        ({"a": 1}, "given dict"),
        (None, "given NoneType"),
        ([[1]], "given list"),
        ("é", "é contains non-ASCII characters."),
        (["a", "é"], "é contains non-ASCII characters."),
        (1e39, "is too high for a Popart float attribute."),
        ([0.0, -1e39], "is too low for a Popart float attribute."),
        (2**63, "is too high for a Popart int attribute."),
        (-(2**63) - 1, "is too low for a Popart int attribute."),
    ],
)
def test_attributes_of_custom_ops_are_checked(value, text):
    with pytest.raises(ValueError, match=text):
        poptorch.custom_op([], "A", "b", 1, [], {"key": value})


# --- loops, conditions, the host -----------------------------------------------------------------


def test_loops_run_on_the_cpu():
    x = torch.ones(2)
    doubled, count = poptorch.for_loop(5, lambda a, n: (a * 2, n + 1), [x, torch.tensor(0)])
    assert torch.equal(doubled, torch.full((2,), 32.0)) and count == 5
    (single,) = poptorch.for_loop(0, lambda a: a + 1, [x])
    assert torch.equal(single, x)


def test_loops_take_their_inputs_by_value():
    x = torch.zeros(2)
    (y,) = poptorch.for_loop(3, lambda a: a.add_(1), [x])
    assert torch.equal(x, torch.zeros(2)) and torch.equal(y, torch.full((2,), 3.0))


def test_a_loop_in_a_trace_calls_its_body_once():
    x = torch.empty(2, device="meta")
    with recorded() as calls:
        (result,) = poptorch.for_loop(7, lambda a: [a * 2], [x])
    assert [name for name, _ in calls] == [
        "aten::clone",
        "start_for_loop",
        "aten::mul.Tensor",
        "end_for_loop",
    ]
    (outputs, inputs, count) = calls[-1][1]
    assert count == 7 and inputs[0] is calls[1][1][0][0] and result is not outputs[0]


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (torch.ones(2), r"\(Object is not list\)$"),
        ((torch.ones(2),), r"\(Object is not list\)$"),
        ([torch.ones(2), 3], r"\(Object contained in list at index 1 is not torch.tensor\)$"),
    ],
)
def test_inputs_of_bodies_are_lists_of_tensors(inputs, text):
    with pytest.raises(ValueError, match=text):
        poptorch.for_loop(2, lambda *x: x, inputs)
    true = torch.tensor(True)
    with pytest.raises(ValueError, match=text):
        poptorch.cond(true, lambda *x: x, inputs, lambda *x: x, [])
    with pytest.raises(ValueError, match=text):
        poptorch.cond(true, lambda *x: x, [], lambda *x: x, inputs)


def test_what_bodies_return_is_checked():
    x = torch.ones(2)
    for body in (lambda a: (a, a), lambda a: a.sum(), lambda a: a.double()):
        with pytest.raises(poptorch.Error, match="as many tensors as it takes"):
            poptorch.for_loop(2, body, [x])
    with pytest.raises(poptorch.Error, match="must return a tensor, or a list or tuple"):
        poptorch.for_loop(2, lambda a: 3, [x])
    for count in (-1, 2.0, True):
        with pytest.raises(ValueError, match="must be an int of 0 or more"):
            poptorch.for_loop(count, lambda a: a, [x])


def test_conditions_choose_on_the_cpu():
    x = torch.ones(2)
    for truth, wanted in ((True, 2.0), (False, 5.0)):
        (y,) = poptorch.cond(torch.tensor([truth]), lambda a: a + 1, [x], lambda a: [a + 4], [x])
        assert torch.equal(y, torch.full((2,), wanted))


def test_a_condition_in_a_trace_calls_both_bodies():
    x, condition = torch.empty(2, device="meta"), torch.empty((), dtype=torch.bool, device="meta")
    with recorded() as calls:
        poptorch.cond(condition, lambda a: a * 2, [x], lambda a: a + 1, [x])
    assert [name for name, _ in calls if name != "aten::clone"] == [
        "start_if_block",
        "aten::mul.Tensor",
        "start_else_block",
        "aten::add.Tensor",
        "end_if_block",
    ]
    with recorded(), pytest.raises(poptorch.Error, match="then_body returned 1 and else_body 2"):
        poptorch.cond(condition, lambda a: a, [x], lambda a: (a, a), [x])


@pytest.mark.parametrize("condition", [True, torch.tensor(1.0), torch.tensor([True, False])])
def test_conditions_are_single_bools(condition):
    with pytest.raises(poptorch.Error, match=r"The condition of poptorch.cond\(\) must"):
        poptorch.cond(condition, lambda: torch.ones(1), [], lambda: torch.ones(1), [])


def test_training_has_neither_loops_nor_conditions_nor_calls_of_the_host():
    x = torch.empty(2, device="meta")
    with recorded(training=True):
        with pytest.raises(
            poptorch.Error, match=r"poptorch.for_loop\(\) is only supported in inference."
        ):
            poptorch.for_loop(2, lambda a: a, [x])
        with pytest.raises(
            poptorch.Error, match=r"poptorch.cond\(\) is only supported in inference."
        ):
            poptorch.cond(x.sum() > 0, lambda: x, [], lambda: x, [])
        with pytest.raises(poptorch.Error, match=r"poptorch.CPU is only supported in inference."):
            poptorch.CPU(torch.neg, "negative")(x)


def test_a_layer_of_the_host_is_called_on_the_cpu():
    linear = torch.nn.Linear(3, 2)
    layer = poptorch.CPU(linear, "linear")
    x = values(4, 3)
    assert torch.equal(layer(x), linear(x))
    assert not any(parameter.requires_grad for parameter in linear.parameters())


def test_a_layer_of_the_host_in_a_trace():
    seen = []

    def layer(a, b):
        seen.append((a.device.type, a.dtype, float(a.sum())))
        return a + b, a.int()

    x = torch.empty(2, 3, device="meta")
    with recorded() as calls:
        total, ints = poptorch.CPU(layer, "sum")(x, x)
    marks = [(name, args) for name, args in calls if "cpu_op" in name]
    assert seen == [("cpu", torch.float32, 0.0)]
    assert [name for name, _ in marks] == ["call_cpu_op", "end_cpu_op"]
    assert marks[0][1][0][0] is x and marks[0][1][1] == "sum"
    assert total.is_meta and total.shape == (2, 3) and ints.dtype == torch.int32


def test_layers_of_the_host_have_names_of_their_own():
    x = torch.empty(2, device="meta")
    with recorded():
        layer = poptorch.CPU(torch.neg, "a")
        layer(layer(x))
        with pytest.raises(poptorch.Error, match="two layers of this model have the ID 'a'"):
            poptorch.CPU(torch.abs, "a")(x)
        with pytest.raises(poptorch.Error, match="'a' takes only tensors, by position"):
            layer(3)
    with pytest.raises(poptorch.Error, match="wanted a module or a function"):
        poptorch.CPU(3, "a")
    with pytest.raises(poptorch.Error, match="wanted a string as ID"):
        poptorch.CPU(torch.neg, 3)
