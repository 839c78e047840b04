"""Trace: names, joined steps, and that looking changes nothing and disturbs nobody."""

import threading

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.testing import assert_close

from regard.attention import MultiHead, Trace, tracing


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = MultiHead(6, 2)

    def forward(self, x):
        return x + self.attention(x)


class Model(nn.Module):
    def __init__(self, depth: int = 2):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.cross = MultiHead(6, 3)

    def forward(self, x, memory):
        for layer in self.layers:
            x = layer(x)
        return self.cross(x, memory)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


X, MEMORY = torch.randn(2, 5, 6), torch.randn(2, 7, 6)


@pytest.mark.parametrize("with_model", [False, True])
def test_every_attention_by_name(model, with_model):
    untraced = model(X, MEMORY)
    with Trace(model) if with_model else Trace() as seen:
        traced = model(X, MEMORY)
    assert_close(traced, untraced)
    assert seen.names == ["layers.0.attention", "layers.1.attention", "cross"]
    assert seen["layers.1.attention"].shape == (2, 2, 5, 5)
    assert seen["cross"].shape == (2, 3, 5, 7)
    assert "cross" in seen
    assert "cros" not in seen
    assert not seen["cross"].requires_grad
    for name in seen.names:
        assert_close(seen[name].sum(-1), torch.ones(seen[name].shape[:-1]))


def test_steps_are_joined_along_queries(model):
    attention = model.layers[0].attention
    with Trace(model) as seen:
        past = None
        for step in range(5):
            _, past = attention.step(X[:, step : step + 1], past)
    with Trace(model) as at_once:
        attention(X, causal=True)
    name = "layers.0.attention"
    assert [weights.shape[-1] for weights in seen.calls(name)] == [1, 2, 3, 4, 5]
    assert_close(seen[name], at_once[name])


def test_batches_that_cannot_be_joined(model):
    with Trace(model) as seen:
        model(X, MEMORY)
        model(X[:1], MEMORY[:1])
    assert [len(weights) for weights in seen.calls("cross")] == [2, 1]
    with pytest.raises(ValueError, match=r"different shapes.*calls\('cross'\)"):
        seen["cross"]


def test_an_unknown_name_lists_the_known(model):
    with Trace() as seen:
        model(X, MEMORY)
    with pytest.raises(KeyError, match=r"'croos'.*layers\.0\.attention, layers\.1\.attention, cross"):
        seen["croos"]


def test_tracing_nothing_is_an_error(model):
    with Trace(model) as seen:
        nn.Linear(6, 6)(X)
    for ask in (lambda: seen.names, lambda: seen["cross"], lambda: seen.calls("cross")):
        with pytest.raises(RuntimeError, match="nothing was traced"):
            ask()


def test_two_models_under_one_trace():
    first, second = Model().eval(), Model().eval()
    with Trace() as seen:
        first(X, MEMORY)
        second(X, MEMORY)
        second.cross(X)
    assert seen.names[:3] == ["layers.0.attention", "layers.1.attention", "cross"]
    assert seen.names[3:] == ["Model.layers.0.attention", "Model.layers.1.attention", "Model.cross"]
    assert len(seen.calls("Model.cross")) == 2


def test_a_module_called_by_another_method_still_has_a_name():
    attention = MultiHead(6, 2).eval()
    with Trace() as seen:
        attention.step(X, None)
    assert seen.names == ["MultiHead"]


def test_nothing_is_left_behind(model):
    hooks = len(torch_module._global_forward_pre_hooks)

    def fail() -> None:
        with Trace():
            assert isinstance(tracing(), Trace)
            model(X, MEMORY)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert tracing() is None
    assert len(torch_module._global_forward_pre_hooks) == hooks
    assert not any(isinstance(value, torch.Tensor) for m in model.modules() for value in vars(m).values())


def test_of_nested_traces_the_inner_one_sees(model):
    with Trace() as outer:
        model.layers[0](X)
        with Trace() as inner:
            model.layers[1](X)
        assert tracing() is outer
    assert len(outer.calls("attention")) == len(inner.calls("attention")) == 1
    with pytest.raises(RuntimeError, match="already active"), outer, outer:
        pass


def test_threads_do_not_see_each_other(model):
    seen: dict[int, Trace] = {}
    together = threading.Barrier(2)

    def work(number: int) -> None:
        with Trace(model) as trace:
            together.wait()
            for _ in range(number):
                model(X, MEMORY)
            together.wait()
        seen[number] = trace

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 3)]
    with Trace(model) as mine:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        model(X, MEMORY)
    assert len(seen[1].calls("cross")) == 1
    assert len(seen[3].calls("cross")) == 3
    assert len(mine.calls("cross")) == 1
