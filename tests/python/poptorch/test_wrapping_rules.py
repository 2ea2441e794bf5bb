"""Rules of wrapping, each in a program as users write it, beside eager torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import poptorch
from tests.python.poptorch.models import Counter, WithLoss
from tests.python.poptorch.test_trace_rules import Calls, X, run


def test_options_are_cloned_and_frozen() -> None:
    options = poptorch.Options()
    executor = poptorch.inferenceModel(nn.Linear(4, 4), options)
    assert options.defaultOutputMode()
    assert executor.options is not options
    assert executor.options.output_mode is poptorch.OutputMode.All
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.deviceIterations(2)
    training = poptorch.trainingModel(WithLoss())
    assert training.options.output_mode is poptorch.OutputMode.Final


def test_wrappers_refuse_what_they_cannot_use() -> None:
    with pytest.raises(poptorch.Error, match=r"'options' is of type .*int.* \(Expected poptorch"):
        poptorch.inferenceModel(nn.Linear(4, 4), 3)
    with pytest.raises(TypeError, match=r"wanted a torch.nn.Module"):
        poptorch.inferenceModel(torch.relu)
    with pytest.raises(AssertionError, match="An optimizer can be set in a training executor only"):
        executor = poptorch.inferenceModel(nn.Linear(4, 4))
        executor.setOptimizer(torch.optim.SGD(executor.parameters(), lr=0.1))
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    words = "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its "
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(nn.Linear(4, 4), options.clone())
    assert words in str(raised.value)
    assert "for pipelined execution instead" in str(raised.value)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(nn.Linear(4, 4), options)
    assert words in str(raised.value) and "pipelined" not in str(raised.value)


def test_buffers_of_other_classes_are_refused() -> None:
    class Special(torch.Tensor):
        pass

    model = WithLoss()
    model.register_buffer("odd", torch.zeros(2).as_subclass(Special))
    with pytest.raises(poptorch.Error, match=r"All buffers must be an instance of torch.Tensor"):
        poptorch.trainingModel(model)


def test_the_flag_of_the_module_is_that_of_the_wrapping_and_of_its_parts_that_of_the_trace() -> (
    None
):
    class Flags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(1.0)

        def forward(self, x: torch.Tensor) -> Any:
            return self.drop(x), torch.full((1,), float(self.training))

    model = Flags().eval()
    executor = poptorch.inferenceModel(model)
    model.train()
    dropped, flag = executor(X)
    assert float(flag) == 0
    assert not dropped.any()
    model.eval()
    assert not executor(X)[0].any()
    assert executor.drop is model.drop and executor.model is not model


def test_host_weights_reach_the_device_by_request_only() -> None:
    model = nn.Linear(4, 2)
    first, second = poptorch.inferenceModel(model), poptorch.inferenceModel(model)
    before = first(X)
    torch.testing.assert_close(second(X), before)
    with torch.no_grad():
        model.weight.mul_(2)
    torch.testing.assert_close(first(X), before)
    first.copyWeightsToDevice()
    torch.testing.assert_close(first(X), model(X).detach())
    torch.testing.assert_close(second(X), before)


def test_uploading_over_newer_weights_discards_them() -> None:
    model = WithLoss()
    training = poptorch.trainingModel(model)
    training.compile(X, torch.zeros(3, 3))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    training(X, torch.zeros(3, 3))
    training.copyWeightsToDevice()
    assert not training.copyWeightsToHostIfNeeded()
    training.copyWeightsToHost()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_executors_take_turns_on_one_device() -> None:
    model, reference = WithLoss(), WithLoss()
    reference.load_state_dict(model.state_dict())
    training = poptorch.trainingModel(
        model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    inference = poptorch.inferenceModel(training)
    training.compile(X, torch.zeros(3, 3))
    inference.compile(X)
    training.detachFromDevice()
    inference.detachFromDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        training.detachFromDevice()
    for _ in range(3):
        training.attachToDevice()
        training(X, torch.zeros(3, 3))
        training.detachFromDevice()
        optimizer.zero_grad()
        reference(X, torch.zeros(3, 3))[1].backward()
        optimizer.step()
        torch.testing.assert_close(inference(X), reference(X).detach())
        inference.detachFromDevice()
    training.attachToDevice()
    with pytest.raises(poptorch.Error, match="Device is already attached"):
        training.attachToDevice()


@pytest.mark.parametrize("persistent", [True, False])
def test_buffers_are_state_of_the_device(persistent: bool) -> None:
    model = Counter()
    model.register_buffer("count", torch.zeros(()), persistent=persistent)
    executor = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(3))
    assert executor(torch.zeros(3, 1)).flatten().tolist() == [1, 2, 3]
    assert executor(torch.zeros(3, 1)).flatten().tolist() == [4, 5, 6]
    assert float(model.count) == 0
    executor.copyWeightsToHost()
    assert float(model.count) == 6


def test_names_that_are_assigned_in_forward() -> None:
    def assigns(m: Calls, x: torch.Tensor) -> torch.Tensor:
        m.state = m.state + 1
        return x + m.state

    def removes(m: Calls, x: torch.Tensor) -> torch.Tensor:
        y = x * m.weight
        del m.weight
        return y

    with pytest.raises(poptorch.Error) as raised:
        run(assigns, X)
    assert (
        "Buffer state is reassigned within the model when calling the forward method. This is not "
        "supported. Consider using self.state.copy_(src) to copy data from a source tensor, where "
        "src is the name of the source tensor."
    ) in str(raised.value)
    match = r"Parameter weight is removed from the model when calling the forward method\."
    with pytest.raises(poptorch.Error, match=match):
        run(removes, X)


def test_inputs_without_elements_are_refused() -> None:
    with pytest.raises(
        poptorch.Error, match=r"Zero-sized tensors are unsupported \(Got shape \[0, 4"
    ):
        run(lambda m, x: x + 1, X[:0])


@pytest.mark.parametrize("half", ["weights", "inputs", "both"])
def test_products_of_half_and_float(half: str) -> None:
    layer = nn.Linear(4, 2, bias=False)
    if half != "inputs":
        layer.half()
    x = X if half == "weights" else X.half()
    given = poptorch.inferenceModel(layer)(x)
    assert given.dtype == (torch.float32 if half == "weights" else torch.float16)
    wanted = layer.float()(X)
    torch.testing.assert_close(given.float(), wanted.detach(), rtol=4e-3, atol=4e-3)


MIXED_PRODUCTS: dict[str, tuple[Any, tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "linear": (functional.linear, (2, 4), ((3, 4), (3,))),
    "conv1d": (functional.conv1d, (2, 3, 6), ((2, 3, 3), (2,))),
    "conv2d": (functional.conv2d, (2, 3, 6, 6), ((2, 3, 3, 3), (2,))),
    "conv_transpose2d": (functional.conv_transpose2d, (2, 3, 6, 6), ((3, 2, 3, 3), (2,))),
    "matmul": (torch.matmul, (2, 3, 4), ((2, 4, 3),)),
    "bmm": (torch.bmm, (2, 3, 4), ((2, 4, 3),)),
    "einsum": (lambda x, w: torch.einsum("bij,bjk->bik", x, w), (2, 3, 4), ((2, 4, 3),)),
    "attention": (functional.scaled_dot_product_attention, (2, 3, 4), ((2, 3, 4), (2, 3, 4))),
    "baddbmm": (lambda x, w, b: torch.baddbmm(b, x, w), (2, 3, 4), ((2, 4, 3), (2, 3, 3))),
}


@pytest.mark.parametrize("product", MIXED_PRODUCTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_weights_of_products_follow_the_dtype_of_activations(
    product: str, dtype: torch.dtype
) -> None:
    function, shape, shapes = MIXED_PRODUCTS[product]
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    x = torch.randn(shape)

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            other = torch.float32 if dtype == torch.float16 else torch.float16
            self.weights = nn.ParameterList(
                [nn.Parameter(w.detach().clone().to(other)) for w in weights]
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = function(x, *self.weights)
            return poptorch.identity_loss(y, "sum") if self.training else y

    model = Product()
    given = poptorch.inferenceModel(model.eval())(x.to(dtype))
    wanted = function(x, *weights)
    assert given.dtype == dtype
    torch.testing.assert_close(given.float(), wanted.detach(), rtol=1e-2, atol=1e-2)
    trainer = poptorch.trainingModel(model.train(), None, torch.optim.SGD(model.parameters(), 0.5))
    trainer(x.to(dtype))
    wanted.sum().backward()
    for weight, reference in zip(model.weights, weights, strict=True):
        stepped = (reference - 0.5 * reference.grad).detach()
        torch.testing.assert_close(weight.detach().float(), stepped, rtol=1e-2, atol=1e-2)


def test_batch_norm_in_half_keeps_statistics_of_its_buffers() -> None:
    norm = nn.BatchNorm1d(4)
    norm.half()
    norm.running_mean, norm.running_var = norm.running_mean.float(), norm.running_var.float()

    class Training(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.mse_loss(self.norm(x), x * 0)

    module = Training()
    reference = copy.deepcopy(norm).float()
    reference(X)
    options = poptorch.Options().deviceIterations(2)
    poptorch.trainingModel(module, options)(torch.cat([X, X]).half())
    reference(X)
    state = module.state_dict()
    assert state["norm.running_mean"].dtype == torch.float32
    torch.testing.assert_close(
        state["norm.running_mean"], reference.running_mean, atol=2e-3, rtol=2e-3
    )
    torch.testing.assert_close(
        state["norm.running_var"], reference.running_var, atol=2e-3, rtol=2e-3
    )
    assert int(state["norm.num_batches_tracked"]) == 2


def test_hooks_run_while_the_model_is_traced() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    model[0].register_forward_hook(lambda m, i, o: o * 2)
    model.register_forward_pre_hook(lambda m, i: (i[0] + 1,))
    model[1].register_forward_hook(lambda m, i, o: poptorch.recomputationCheckpoint(o))
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X).detach())


class Delegates(nn.Module):
    """A module that finds attributes in another one, as wrappers of models do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(functional.linear(x, self.weight, self.bias), torch.zeros(3, 3))


def test_modules_may_have_their_own_way_to_find_attributes() -> None:
    model = Delegates()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # Programs set this to silence the schedulers of torch.
    optimizer._step_count = 1
    executor = poptorch.trainingModel(model, optimizer=optimizer)
    executor(X)
    executor.setOptimizer(optimizer)
    assert executor._optimizer is optimizer
    reference(X).backward()
    wanted = reference.inner.weight.detach() - 0.1 * reference.inner.weight.grad
    torch.testing.assert_close(model.state_dict()["inner.weight"], wanted)


def test_cumulative_statistics_are_refused() -> None:
    norm = nn.BatchNorm1d(4, momentum=None)
    with pytest.raises(poptorch.Error, match=r"BatchNorm1d with momentum=None .* Give it a mom"):
        poptorch.inferenceModel(norm)(X)
    assert not norm._forward_pre_hooks
    torch.testing.assert_close(poptorch.inferenceModel(norm.eval())(X), norm(X).detach())


def test_offline_targets_are_no_models_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    # Devices of this process are never busy: there is nothing to wait for.
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    options = poptorch.Options().useOfflineIpuTarget()
    poptorch.inferenceModel(nn.Linear(4, 4), options.clone()).compile(X)
    options.useIpuModel(True)
    match = "ConnectionType.Never / poptorch.Options.useOfflineIpuTarget not supported for the IPU"
    with pytest.raises(poptorch.Error, match=match):
        poptorch.inferenceModel(nn.Linear(4, 4), options).compile(X)
