"""Representations of modules with their hooks."""

from __future__ import annotations

import pytest
import torch

import poptorch


def model():
    return torch.nn.Sequential(
        torch.nn.Linear(10, 10), torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])
    )


def test_without_hooks_it_is_that_of_torch():
    assert poptorch.module_repr(model()) == repr(model())


def test_hooks_stand_before_their_modules():
    annotated = model()
    poptorch.BeginBlock(annotated[0], ipu_id=1)
    wanted = repr(model()).replace("(0): Linear", "(0): BeginBlock(user_id=None, ipu_id=1) Linear")
    assert poptorch.module_repr(annotated) == wanted
    assert repr(annotated) == repr(model())


def test_all_hooks_are_shown_also_those_of_the_outermost_module():
    class Hook:
        def __call__(self, module, inputs):
            return None

        def __repr__(self):
            return "Hook()"

    layer = poptorch.BeginBlock(torch.nn.ReLU(), "a", ipu_id=2)
    layer.register_forward_pre_hook(Hook())
    assert poptorch.module_repr(layer) == "BeginBlock(user_id=a, ipu_id=2) Hook() ReLU()"


def test_a_module_with_a_representation_of_its_own():
    class Own(torch.nn.Module):
        def __repr__(self):
            return f"Own with {[name for name, _ in self.named_children()]}"

    own = Own()
    own.part = torch.nn.ReLU()
    poptorch.BeginBlock(own, ipu_id=1)
    assert poptorch.module_repr(own) == "BeginBlock(user_id=None, ipu_id=1) Own with ['part']"


def test_print(capsys):
    layer = poptorch.BeginBlock(torch.nn.ReLU(), ipu_id=1)
    poptorch.print(layer)
    poptorch.print("a", 3, sep="-")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["BeginBlock(user_id=None, ipu_id=1) ReLU()", "ReLU()", "a-3"]


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_modules_that_store_more_than_attributes(kind):
    assert poptorch.module_repr(kind(2, 3)) == repr(kind(2, 3))
