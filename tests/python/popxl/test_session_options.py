"""Session options are followed, refused, or named as having no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl.session_compile
from popart._internal import options as option_module
from popxl import ops

X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 200.0]], np.float32)


def softmax(data: np.ndarray, **options: Any) -> np.ndarray:
    ir = popxl.Ir()
    for name, value in options.items():
        setattr(ir._pb_ir.getSessionOptions(), name, value)
    with ir.main_graph:
        out = popxl.d2h_stream(data.shape, popxl.dtype.as_dtype(data))
        ops.host_store(out, ops.softmax(popxl.variable(data), 1))
    with popxl.Session(ir) as session:
        result: np.ndarray = session.run()[out]
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_non_stable_softmax(dtype: Any) -> None:
    data = X.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(data.astype(np.float32))
        wanted = powers / powers.sum(axis=1, keepdims=True)
    stable = np.exp(data.astype(np.float64) - data.max(axis=1, keepdims=True))
    stable /= stable.sum(axis=1, keepdims=True)
    tolerance = 2e-3 if dtype == np.float16 else 1e-6
    result = softmax(data, enableNonStableSoftmax=True)
    assert np.isnan(wanted[1, 2]) and result.dtype == dtype
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=1e-7)
    np.testing.assert_allclose(softmax(data), stable, rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "value"),
    [("syntheticDataMode", 2), ("globalReplicaOffset", 1)],
)
def test_refused_options(name: str, value: Any) -> None:
    with pytest.raises(NotImplementedError, match=f"{name} = {value!r} is not supported"):
        softmax(X[:1], **{name: value})
    softmax(X[:1])


def test_options_without_effect_are_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(popxl.session_compile, "_notes_given", set())
    for _ in range(2):
        softmax(X[:1], enableStochasticRounding=True, outlineThreshold=2.0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "session option" in line]
    assert len(lines) == 2
    assert "enableStochasticRounding = True has no effect: float16 results are round" in lines[0]
    assert "outlineThreshold = 2.0 has no effect" in lines[1]


def test_defaults_and_followed_options_are_silent() -> None:
    options = option_module.SessionOptions()
    assert options.check() == {}
    options.enableNonStableSoftmax = True
    options.partialsTypeMatMuls = "half"
    assert options.check() == {}
    options.enableOutlining = False
    assert set(options.check()) == {"enableOutlining"}


def test_every_listed_option_exists() -> None:
    known = set(option_module._defaults())
    listed = (option_module._FOLLOWED, option_module._REFUSED, option_module._WITHOUT_EFFECT)
    for names in listed:
        assert set(names) <= known
    assert not set(listed[0]) & set(listed[1]) and not set(listed[0]) & set(listed[2])
    with pytest.raises(AttributeError, match="no session option 'enableMagic'"):
        option_module.SessionOptions().enableMagic = True


def test_names_of_ops_in_drawings(tmp_path: Path) -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.name_scope("layer"):
        ops.exp(popxl.variable(X))
    ir.dot_checkpoint("Plain", tmp_path)
    ir._pb_ir.getSessionOptions().dotOpNames = True
    ir.dot_checkpoint("Named", tmp_path)
    assert "layer/exp" not in (tmp_path / "Plain_r.dot").read_text().replace("layer/exp_out", "")
    assert 'label="Exp.100 (layer/exp)"' in (tmp_path / "Named_r.dot").read_text()
