"""Operators of layers against eager torch, on samples of torch's own database."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from tests.python.poptorch.operator_database import failing

FAMILIES = {
    "windows": """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d unfold""",
    "norms": """batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm
        normalize softmin""",
    "activations": """celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu
        logsigmoid mish prelu relu relu6 rrelu selu silu softplus softshrink softsign tanhshrink
        threshold""",
    "pictures": """interpolate pad pixel_shuffle pixel_unshuffle channel_shuffle upsample_bilinear
        upsample_nearest""",
    "tables": """embedding embedding_bag one_hot linear bilinear scaled_dot_product_attention
        cosine_similarity pairwise_distance pdist dropout""",
    "losses": """binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss
        cross_entropy ctc_loss gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss
        margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
        triplet_margin_loss triplet_margin_with_distance_loss""",
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "gradients"), [("float32", True), ("float16", False)])
def test_samples_agree(family: str, dtype: str, gradients: bool) -> None:
    names = [f"nn.functional.{name}" for name in FAMILIES[family].split()]
    assert failing(names, dtype, 2, gradients) == []


class Training(nn.Module):
    """A module whose results are all part of the loss."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> torch.Tensor:
        results = self.module(*inputs)
        total = sum((t.float() ** 2).sum() for t in _tensors(results))
        if poptorch.isRunningOnIpu():
            return poptorch.identity_loss(total, "sum")
        assert isinstance(total, torch.Tensor)
        return total


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)]


def check_step(module: nn.Module, *inputs: Any, tolerance: float = 1e-4) -> None:
    """One step of SGD is that of torch, and buffers change as there."""
    reference = Training(copy.deepcopy(module))
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    loss = reference(*inputs)
    loss.backward()
    optimizer.step()
    trained = Training(module)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    given = poptorch.trainingModel(trained, optimizer=optimizer)(*inputs)
    torch.testing.assert_close(given, loss.detach(), rtol=tolerance, atol=tolerance)
    state = trained.state_dict()
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
        {"bias": False, "num_layers": 2, "bidirectional": True},
    ],
)
def test_recurrent_layers_train(kind: Callable[..., nn.Module], options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    check_step(kind(5, 4, **options), torch.randn(3, 6, 5))


def test_recurrent_layers_take_states_and_single_samples() -> None:
    torch.manual_seed(1)
    state = torch.randn(2, 4)
    check_step(nn.LSTM(5, 4, 2), torch.randn(6, 5), (state, 2 * state))
    check_step(nn.RNN(5, 4, 2, nonlinearity="relu"), torch.randn(6, 5), state)


def test_dropout_between_recurrent_layers_is_random_in_training() -> None:
    layer = nn.LSTM(5, 4, 2, dropout=0.5)
    model = poptorch.inferenceModel(layer)
    x = torch.randn(3, 6, 5)
    assert not torch.equal(model(x)[0], model(x)[0])
    layer = nn.LSTM(5, 4, 2, dropout=0.5).eval()
    wanted = layer(x)[0].detach()
    torch.testing.assert_close(poptorch.inferenceModel(layer)(x)[0], wanted)


def test_packed_sequences_and_projections_are_refused() -> None:
    with pytest.raises(poptorch.Error, match="proj_size is not supported"):
        poptorch.inferenceModel(nn.LSTM(5, 4, proj_size=2))(torch.randn(3, 6, 5))


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(6),
        nn.BatchNorm2d(6, momentum=0.3, affine=False),
        nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
        nn.GroupNorm(3, 6),
        nn.LayerNorm((6, 5, 4)),
        nn.utils.parametrizations.weight_norm(nn.Conv2d(6, 4, 3)),
    ],
)
def test_norms_train_and_update_statistics(norm: nn.Module) -> None:
    torch.manual_seed(2)
    check_step(nn.Sequential(nn.Conv2d(6, 6, 1), norm), torch.randn(3, 6, 5, 4), tolerance=1e-3)


@pytest.mark.parametrize("layer", [nn.PReLU(), nn.PReLU(6, init=-0.5)])
def test_slopes_of_prelu_train(layer: nn.Module) -> None:
    torch.manual_seed(0)
    check_step(nn.Sequential(nn.Linear(5, 6), layer), torch.randn(7, 5))


def test_frozen_batch_norm_trains_its_scale() -> None:
    torch.manual_seed(2)
    norm = nn.BatchNorm1d(6).eval()
    norm.running_mean.uniform_(-1, 1)
    check_step(nn.Sequential(nn.Linear(5, 6), norm), torch.randn(7, 5))


class Table(nn.Module):
    """Rows of an embedding."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rows = nn.Embedding(7, 3, **options)
        with torch.no_grad():
            self.rows.weight.normal_()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.rows(ids)
        return result


def test_the_row_of_padding_gets_no_gradient() -> None:
    check_step(Table(padding_idx=2), torch.tensor([[2, 1], [6, 2]]))


def test_rows_longer_than_the_limit_are_shortened_in_the_table() -> None:
    check_step(Table(max_norm=0.5), torch.tensor([[2, 1], [6, 2]]))


class Lossy(nn.Module):
    """A layer and a loss function of torch."""

    def __init__(self, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.loss = loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(self.layer(x), y)


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).float()),
        lambda x, y: F.gaussian_nll_loss(x, y, torch.exp(x)),
        lambda x, y: F.mse_loss(x, y, weight=torch.ones_like(x)),
        lambda x, y: F.triplet_margin_with_distance_loss(x, y, x * 2, swap=True),
        lambda x, y: F.cross_entropy(x, y.argmax(1), weight=torch.tensor([1.0, 2.0, 3.0])),
        lambda x, y: F.cross_entropy(x, y.softmax(1), label_smoothing=0.2),
        lambda x, y: F.l1_loss(x, y),
        lambda x, y: F.mse_loss(x, y),
        lambda x, y: F.smooth_l1_loss(x, y),
        lambda x, y: F.nll_loss(x.log_softmax(1), y.argmax(1)),
        lambda x, y: F.nll_loss(x.T.log_softmax(0)[None, :, :, None], y.argmax(1)[None, :, None]),
        lambda x, y: F.nll_loss(
            x.T.log_softmax(0)[None, :, :, None, None], y.argmax(1)[None, :, None, None]
        ),
        lambda x, y: F.cross_entropy(x, y.argmax(1)),
        lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        lambda x, y: F.poisson_nll_loss(x, y.exp()),
        lambda x, y: F.hinge_embedding_loss(x, y.sign()),
        lambda x, y: F.soft_margin_loss(x, y.sign()),
        lambda x, y: F.cosine_embedding_loss(x, y, y[:, 0].sign()),
        lambda x, y: F.margin_ranking_loss(x, x * 2, y.sign()),
        lambda x, y: F.triplet_margin_loss(x, y, x * 2),
        lambda x, y: F.ctc_loss(
            x[:, None].log_softmax(2),
            torch.tensor([[1, 2]]),
            torch.tensor([5]),
            torch.tensor([2]),
        ),
    ],
)
def test_losses_of_torch_are_found(loss: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(4)
    module = Lossy(loss)
    reference = copy.deepcopy(module)
    x, y = torch.randn(5, 4), torch.randn(5, 3)
    wanted = reference(x, y)
    wanted.backward()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    before = module.layer.weight.detach().clone()
    given = poptorch.trainingModel(module, optimizer=optimizer)(x, y)
    torch.testing.assert_close(given, wanted.detach(), rtol=1e-4, atol=1e-5)
    step = before - module.layer.weight.detach()
    assert reference.layer.weight.grad is not None
    torch.testing.assert_close(step, reference.layer.weight.grad, rtol=1e-4, atol=1e-5)


class ShortensItself(nn.Module):
    """Writes a value in place where torch does not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.1, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.scale.clone()
        with torch.no_grad():
            scale.clamp_(min=0.5)
        return x * scale


def test_writes_without_gradients_leave_those_of_the_value_before() -> None:
    check_step(ShortensItself(), torch.randn(3, 2))


@pytest.mark.parametrize("masked", ["causal", "boolean", "added"])
def test_attention_over_many_tokens(masked: str) -> None:
    torch.manual_seed(5)
    mask = torch.rand(2, 1, 70, 90) > 0.3

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            q, k, v = self.q(x), self.k(y), self.v(y)
            if masked == "causal":
                return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.2)
            given = mask if masked == "boolean" else mask.float()
            return F.scaled_dot_product_attention(q, k, v, given)

    x, y = torch.randn(2, 3, 70, 16), torch.randn(2, 3, 90, 16)
    check_step(Attention(), x, y, mask, tolerance=1e-3)


@pytest.mark.parametrize(("heads_of_keys", "heads_of_values"), [(2, 4), (1, 2), (2, 2)])
def test_attention_with_groups_of_queries(heads_of_keys: int, heads_of_values: int) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (
                nn.Linear(16, 8 * heads) for heads in (4, heads_of_keys, heads_of_values)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (
                part(x).unflatten(-1, (-1, 8)).transpose(1, 2) for part in (self.q, self.k, self.v)
            )
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    torch.manual_seed(6)
    check_step(Attention(), torch.randn(2, 5, 16))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_drops_elements_and_keeps_the_mean(p: float) -> None:
    x = torch.ones(200, 500)
    for layer, rows in ((nn.Dropout(p), 100_000), (nn.Dropout1d(p), 200)):
        y = poptorch.inferenceModel(layer.train())(x)
        assert set(y.unique().tolist()) <= {0.0, float(torch.tensor(1 / (1 - p)))}
        share = float((y == 0).float().mean())
        assert abs(share - p) < 6 * (p * (1 - p) / rows) ** 0.5


def test_self_normalising_dropout_keeps_mean_and_variance() -> None:
    x = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    y = poptorch.inferenceModel(nn.AlphaDropout(0.3))(x)
    assert abs(float(y.mean())) < 0.02
    assert abs(float(y.var()) - 1) < 0.03
