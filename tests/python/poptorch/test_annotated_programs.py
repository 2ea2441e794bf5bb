"""What annotations leave in programs, and losses and optimizers in whole programs."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn import functional

import poptorch
from poptorch import optim
from tests.python.poptorch.test_compiled_ops import Of, compiled, values

X = values(6, 4)
TARGET = values(6, 3, seed=1)


class Network(torch.nn.Module):
    """A layer and the loss that it is given."""

    def __init__(self, loss=functional.mse_loss):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(4, 3)
        self.loss = loss

    def forward(self, x, *targets):
        y = self.layer(x)
        return y, self.loss(y, *targets)


def eager_steps(make, steps, loss=functional.mse_loss, targets=(TARGET,)):
    model = Network(loss)
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(X, *targets)[1].backward()
        optimizer.step()
    return model


def ops_of(function):
    model = poptorch.inferenceModel(Of(function))
    model(X)
    return json.loads(model._debugGetPopartIR())["maingraph"]


def test_names_and_copies_stay_in_the_program():
    def annotated(x):
        with poptorch.NameScope("outer"), poptorch.NameScope("inner"):
            y = torch.sigmoid(x)
        return poptorch.recomputationCheckpoint(poptorch.nop(y)) + 1

    ops = ops_of(annotated)
    assert any("outer/inner" in op["name"] for op in ops if op["type"] == "Sigmoid")
    assert any("Nop" in name for op in ops for name in op["outputs"])
    assert any("Checkpoint" in op["name"] for op in ops)


def test_long_tensors_are_printed_in_short(capfd):
    compiled(
        lambda x: poptorch.ipu_print_tensor(x, "long", summarise_threshold=10, edge_items=2) + 1,
        torch.arange(100.0),
    )
    printed = capfd.readouterr().err
    assert "..." in printed and "98" in printed and "50" not in printed


def test_beam_search_keeps_half():
    probs = torch.log_softmax(values(5, 2, 3), 2)

    def decode(p, n):
        return poptorch.ctc_beam_search_decoder(p, n)

    lengths = torch.tensor([5, 5])
    scores, counts, labels = compiled(decode, probs.half(), lengths)
    wanted = compiled(decode, probs, lengths)
    assert scores.dtype == torch.float16
    torch.testing.assert_close(scores.float(), wanted[0], rtol=1e-2, atol=1e-2)
    assert torch.equal(counts, wanted[1]) and torch.equal(labels, wanted[2])


CLASSES = torch.tensor([0, 2, 1, 1, 0, 2])
SIGNS = torch.tensor([1.0, -1, 1, 1, -1, -1])
BITS = (TARGET > 0).float()
LOSSES = {
    "mse_loss": (functional.mse_loss, (TARGET,)),
    "l1_loss": (functional.l1_loss, (TARGET,)),
    "smooth_l1_loss": (functional.smooth_l1_loss, (TARGET,)),
    "huber_loss": (functional.huber_loss, (TARGET,)),
    "soft_margin_loss": (functional.soft_margin_loss, (TARGET.sign(),)),
    "cross_entropy": (functional.cross_entropy, (CLASSES,)),
    "class weights": (
        lambda y, t: functional.cross_entropy(y, t, torch.tensor([1.0, 2.0, 3.0])),
        (CLASSES,),
    ),
    "nll_loss": (lambda y, t: functional.nll_loss(y.log_softmax(1), t), (CLASSES,)),
    "kl_div": (
        lambda y, t: functional.kl_div(y.log_softmax(1), t.softmax(1), reduction="batchmean"),
        (TARGET,),
    ),
    "binary_cross_entropy": (
        lambda y, t: functional.binary_cross_entropy(y.sigmoid(), t),
        (BITS,),
    ),
    "with_logits": (functional.binary_cross_entropy_with_logits, (BITS,)),
    "poisson_nll_loss": (functional.poisson_nll_loss, (TARGET.abs(),)),
    "hinge_embedding_loss": (functional.hinge_embedding_loss, (TARGET.sign(),)),
    "multi_margin_loss": (functional.multi_margin_loss, (CLASSES,)),
    "multilabel_soft_margin_loss": (functional.multilabel_soft_margin_loss, (BITS,)),
    "cosine_embedding_loss": (functional.cosine_embedding_loss, (TARGET, SIGNS)),
    "margin_ranking_loss": (
        lambda y, t: functional.margin_ranking_loss(y[:, 0], y[:, 1], t),
        (SIGNS,),
    ),
    "triplet_margin_loss": (
        lambda y, p, n: functional.triplet_margin_loss(y, p, n),
        (TARGET, TARGET.roll(1, 0)),
    ),
    "ctc_loss": (
        lambda y, t: functional.ctc_loss(
            y.reshape(3, 2, 3).log_softmax(2), t, torch.tensor([3, 3]), torch.tensor([1, 1])
        ),
        (torch.tensor([[1], [2]]),),
    ),
    "none": (lambda y, t: functional.mse_loss(y, t, reduction="none"), (TARGET,)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_marked_by_itself(name):
    loss, targets = LOSSES[name]
    model = Network(loss)
    given = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))(
        X, *targets
    )[1]
    reference = Network(loss)
    wanted = reference(X, *targets)[1]
    wanted.sum().backward()
    torch.testing.assert_close(given, wanted.detach())
    for one, other in zip(model.parameters(), reference.parameters(), strict=True):
        stepped = (other - 0.1 * other.grad).detach()
        torch.testing.assert_close(one.detach(), stepped, rtol=1e-4, atol=1e-5)


def test_the_returned_loss_is_not_scaled():
    losses = []
    for scale in (1.0, 64.0):
        model = Network()
        optimizer = optim.SGD(model.parameters(), lr=0.1, loss_scaling=scale)
        losses.append(poptorch.trainingModel(model, None, optimizer)(X, TARGET)[1])
    assert torch.equal(losses[0], losses[1])


def test_means_of_half_add_up_in_float32():
    ones = torch.ones(100000, dtype=torch.float16)
    for function in (
        torch.mean,
        lambda x: poptorch.identity_loss(x, "mean"),
        lambda x: functional.mse_loss(x, x * 0),
    ):
        mean = compiled(function, ones)
        assert mean.dtype == torch.float16 and mean == 1


def test_adamw_without_bias_correction_has_the_numbers_of_torch():
    model = Network()
    optimizer = optim.AdamW(model.parameters(), lr=0.1, bias_correction=False)
    trained = poptorch.trainingModel(model, None, optimizer)
    for _ in range(3):
        trained(X, TARGET)
    reference = eager_steps(lambda p: torch.optim.AdamW(p, lr=0.1), 3)
    torch.testing.assert_close(model.layer.weight, reference.layer.weight, rtol=1e-5, atol=1e-6)


def test_numbers_set_without_a_device_count_from_the_next_attachment_on():
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = poptorch.trainingModel(model, None, optimizer)
    trained(X, TARGET)
    trained.detachFromDevice()
    optimizer.param_groups[0]["lr"] = 0.0
    trained.setOptimizer(optimizer)
    trained.attachToDevice()
    trained(X, TARGET)
    reference = eager_steps(lambda p: torch.optim.SGD(p, lr=0.1), 1)
    torch.testing.assert_close(model.layer.weight, reference.layer.weight)


def test_there_is_no_state_offline():
    model = Network()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    options = poptorch.Options().useOfflineIpuTarget()
    trained = poptorch.trainingModel(model, options, optimizer)
    trained.compile(X, TARGET)
    state = optimizer.state_dict()
    assert state["ipu_state"] is None and state["ipu_param"] is None


def test_indices_have_32_bits():
    for function in (lambda x: x.topk(2)[1], lambda x: x.sort()[1], lambda x: x.argmax(1)):
        given = compiled(function, X)
        assert given.dtype == torch.int32
        assert torch.equal(given.long(), function(X))


def test_buffers_of_training_models_are_read_like_attributes():
    class Counting(Network):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x, target):
            self.count += 1
            return super().forward(self.norm(x), target)

    model = Counting()
    trained = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        trained(X, TARGET)
    assert float(model.count) == 3
    norm = torch.nn.BatchNorm1d(4)
    for _ in range(3):
        norm(X)
    torch.testing.assert_close(model.norm.running_mean, norm.running_mean)
