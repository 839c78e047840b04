"""Training by the compiled kernels beside torch: numbers, gradients, their gradients, and where they stay away."""

import time
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.multihead import MultiHead
from regard.attention.trace import Trace
from regard.decoders.transformer import TransformerDecoder
from regard.encoders.text import TransformerEncoder
from regard.kernels import gradients, inference, training
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import Dropout, FeedForward
from regard.layers.loss import fused_cross_entropy
from regard.layers.transformer import Block
from regard.models.seq2seq import Seq2Seq

pytestmark = pytest.mark.skipif(
    not inference.available(), reason="needs a C compiler: apt-get install gcc, or the package of your system"
)
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 2e-4}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Kernels take what suits them, however small, whether they are faster or not."""
    monkeypatch.setattr(training, "WORTH", 0)
    monkeypatch.setattr(training, "faster", lambda threads: True)


@pytest.fixture
def by_torch(monkeypatch):
    """Call it, and torch does everything from then on."""
    return lambda: monkeypatch.setattr(training, "faster", lambda threads: False)


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def learned(f, *tensors):
    """f's result and the gradients of its sum, weighted by something that is not constant."""
    tensors = [one.detach().clone().requires_grad_() for one in tensors]
    result = f(*tensors)
    (result * numbers(*result.shape, seed=99)).sum().backward()
    return [result.detach(), *(one.grad for one in tensors)]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


SIZES = [(1, 1, 1), (7, 5, 3), (50, 37, 45), (133, 1024, 77), (13, 1100, 33), (900, 31, 290)]


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SIZES)
@pytest.mark.parametrize("threads", [1, 3])
def test_products_are_those_of_torch(rows, inputs, outputs, threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    x, weight, bias = numbers(rows, inputs), numbers(outputs, inputs, seed=1), numbers(outputs, seed=2)
    dy, signs = numbers(rows, outputs, seed=3), numbers(rows, inputs, seed=4)
    plain = F.linear(x, weight, bias)
    torch.testing.assert_close(training.product(x, weight.T, bias), plain, **CLOSE)
    torch.testing.assert_close(
        training.product(x, training.pack_matrix(weight.T), bias, relu=True), plain.relu(), **CLOSE
    )
    torch.testing.assert_close(training.product(dy, weight, where=signs), dy @ weight * (signs > 0), **CLOSE)
    torch.testing.assert_close(training.product(dy, training.pack_matrix(weight)), dy @ weight, **CLOSE)
    sums, table = torch.ones(outputs), numbers(outputs, inputs, seed=5)
    wanted = table + dy.T @ x
    torch.testing.assert_close(training.transposed_product(dy, x, sums), dy.T @ x, **CLOSE)
    torch.testing.assert_close(sums, 1 + dy.sum(0), **CLOSE)
    torch.testing.assert_close(training.transposed_product(dy, x, add_to=table), wanted, **CLOSE)


def test_threads_change_no_bit(monkeypatch):
    x, weight, dy = numbers(700, 90), numbers(130, 90, seed=1), numbers(700, 130, seed=2)

    def all_of_them():
        sums = torch.zeros(130)
        attended = training.attend(
            training.WorkShares(
                x.view(70, 10, 90)[..., :64].contiguous(), *[x.view(70, 10, 90)[..., :64].contiguous()] * 2
            ),
            2,
            None,
            True,
            None,
        )
        return (
            training.product(x, weight.T),
            training.transposed_product(dy, x, sums),
            sums,
            *attended,
            training.apply_dropout(x, x, 0.3, 5),
        )

    alone = all_of_them()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert all(torch.equal(one, other) for one, other in zip(all_of_them(), alone, strict=True))


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_learns_the_same(bias, by_torch):
    layer, x = nn.Linear(19, 41, bias=bias), numbers(3, 11, 19)
    parts = [x, *layer.parameters()]

    def f(x, weight, bias=None):
        return gradients.linear(x, weight, bias, True)

    found = learned(f, *parts)
    assert f(*parts).grad_fn.__class__.__name__ == "ViewBackward0"
    across = learned(lambda x, *rest: f(x.transpose(0, 1), *rest), *parts)  # rows that do not lie in order
    by_torch()
    assert_same(found, learned(f, *parts))
    assert_same(across, learned(lambda x, *rest: f(x.transpose(0, 1), *rest), *parts))


def test_what_needs_no_gradient_gets_none():
    x, weight, bias = numbers(5, 7), numbers(9, 7, seed=1).requires_grad_(), numbers(9, seed=2)
    gradients.linear(x, weight, bias, True).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(9, 7))
    frozen = numbers(9, 7, seed=1)
    x.requires_grad_()
    gradients.linear(x, frozen, bias.requires_grad_(), True).sum().backward()
    torch.testing.assert_close(x.grad, frozen.sum(0).expand(5, 7))
    torch.testing.assert_close(bias.grad, torch.full((9,), 5.0))


@pytest.mark.parametrize("bias", [True, False])
def test_a_feed_forward_learns_the_same(bias, by_torch, monkeypatch):
    part, x = FeedForward(24, 50, bias=bias).train(), numbers(2, 9, 24)
    for weight in part.parameters():
        nn.init.normal_(weight)

    def f(x, *weights):
        names = [name for name, _ in part.named_parameters()]
        return torch.func.functional_call(part, dict(zip(names, weights, strict=True)), (x,))

    called = []
    inside: Any = gradients._ReluBetween.forward
    patched = staticmethod(lambda *args: called.append(1) or inside(*args))
    monkeypatch.setattr(gradients._ReluBetween, "forward", patched)
    found = learned(f, x, *part.parameters())
    assert called
    by_torch()
    assert_same(found, learned(f, x, *part.parameters()))


def attention_by_torch(first, second, heads, real, causal):
    return gradients._by_torch(first, second, heads, real, causal, None)


@pytest.mark.parametrize("queries", [1, 7, 33])
@pytest.mark.parametrize(("heads", "width"), [(1, 16), (3, 32), (2, 48)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_learns_the_same(queries, heads, width, masked):
    real = numbers(3, queries) > -0.5 if masked else None
    if real is not None:
        real[1] = False  # who may attend to nothing gets zeros
    qkv = numbers(3, queries, 3 * heads * width)
    for causal in (False, True):
        found = learned(lambda x, causal=causal: gradients.attend(x, None, heads, real, causal=causal), qkv)
        assert_same(found, learned(lambda x, causal=causal: attention_by_torch(x, None, heads, real, causal), qkv))
    query, pairs = numbers(3, 5, heads * width, seed=1), numbers(3, queries, 2 * heads * width, seed=2)
    found = learned(lambda q, m: gradients.attend(q, m, heads, real), query, pairs)
    assert_same(found, learned(lambda q, m: attention_by_torch(q, m, heads, real, False), query, pairs))
    if real is not None:
        assert not found[0][1].any()


def test_attention_without_padding_is_that_with_it():
    real = torch.arange(21) < torch.tensor([[21], [1], [16], [0], [9]])
    qkv = numbers(5, 21, 96)
    padded = learned(lambda x: gradients.attend(x, None, 2, real)[real], qkv)
    packed = learned(lambda x: gradients.attend(x[real], None, 2, texts=training.Texts.of(real)), qkv)
    assert_same(packed, padded)


@pytest.mark.parametrize("memory", [False, True])
def test_multihead_attention_learns_the_same(memory, by_torch):
    part = MultiHead(32, 2, memory_width=32 if memory else None).train()
    x, real = numbers(4, 9, 32), torch.arange(11 if memory else 9) < torch.tensor([[9], [3], [1], [5]])
    given = (x, numbers(4, 11, 32, seed=1)) if memory else (x,)
    f = (lambda x, m: part(x, m, real)) if memory else lambda x: part(x, mask=real)
    assert gradients.attends(x, None, 2)
    found = learned(f, *given)
    by_torch()
    assert_same(found, learned(f, *given))


def test_a_nan_is_not_lost():
    qkv = numbers(2, 5, 96)
    qkv[1, 3, 4] = torch.nan
    context = gradients.attend(qkv.requires_grad_(), None, 2)
    assert not context[0].isnan().any()
    assert context[1, 3, :16].isnan().all()
    logits = numbers(3, 50)
    logits[1, 7] = torch.nan
    logits[2, 49] = torch.nan
    loss, _ = training.entropy(logits.clone(), torch.tensor([1, 2, 3]), 0.1)
    assert loss.isnan().tolist() == [False, True, True]
    logits[0, 3], weight = torch.inf, numbers(9, 50, seed=1)
    same: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True}
    wide = F.linear(logits, weight)
    torch.testing.assert_close(training.product(logits, weight.T, relu=True), wide.relu(), **same)
    gradient = numbers(3, 9, seed=2)
    wanted = torch.autograd.grad(wide.requires_grad_().relu(), wide, gradient)[0]
    found = training.product(gradient, torch.eye(9), where=wide.detach())
    torch.testing.assert_close(found, wanted, **same)


@pytest.mark.parametrize("words", [3, 64, 101])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("block_rows", [4, None])
def test_cross_entropy_learns_the_same(words, bias, block_rows, by_torch):
    features, weight = numbers(17, 24), numbers(words, 24, seed=1)
    targets = torch.arange(17) % words  # with padding among them
    parts = (features, weight, numbers(words, seed=2)) if bias else (features, weight)
    seen = []

    def f(features, weight, bias=None):
        loss = fused_cross_entropy(features, weight, bias, targets, smoothing=0.1, block_rows=block_rows)
        seen.append(loss.correct)
        return loss.total

    found = learned(f, *parts)
    by_torch()
    assert_same(found, learned(f, *parts))
    assert seen[0] == seen[1]


def test_dropout_drops_its_share_and_the_gradient_follows():
    torch.manual_seed(3)
    part, x = Dropout(0.3).train(), torch.ones(400, 501, requires_grad=True)
    y = part(x)
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.7], rel=1e-4)
    assert (y == 0).float().mean() == pytest.approx(0.3, abs=0.005)
    for axis in (0, 1):  # no row, no column is special
        assert ((y == 0).float().mean(axis) - 0.3).abs().max() < 0.15
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())
    neighbors = (y[:, 1:] == 0) & (y[:, :-1] == 0)
    assert neighbors.float().mean() == pytest.approx(0.09, abs=0.005)


def test_dropout_is_drawn_from_the_generator_of_torch():
    part, x, shortcut = Dropout(0.5).train(), numbers(30, 40).requires_grad_(), numbers(30, 40, seed=1)
    torch.manual_seed(5)
    first, second = part(x), part(x)
    torch.manual_seed(5)
    assert torch.equal(part(x), first)
    assert torch.equal(part.added(shortcut, x), shortcut + second)
    assert not torch.equal(first, second)


def translator() -> Any:
    torch.manual_seed(1)
    table = Embedding(97, 32, dropout=0.1)
    blocks = [[Block(32, 2, 56, cross=cross, dropout=0.1) for _ in range(2)] for cross in (False, True)]
    decoder = TransformerDecoder(table, blocks[1])
    return Seq2Seq(TransformerEncoder(table, blocks[0]), decoder, tie="all", label_smoothing=0.1).train()


def pairs() -> Any:
    generator = torch.Generator().manual_seed(2)
    source, target = (torch.randint(4, 97, (9, length), generator=generator) for length in (13, 11))
    source[:, 3:] *= torch.arange(3, 13) < torch.randint(3, 14, (9, 1), generator=generator)
    return type("Pairs", (), {"source": source, "target": target})()


def losses(model, steps=4):
    adam, found, batch = torch.optim.AdamW(model.parameters(), lr=1e-3), [], pairs()
    for step in range(steps):
        torch.manual_seed(step)
        total, count, _ = model(batch)
        total.backward()
        adam.step()
        adam.zero_grad()
        found.append(total.item() / count)
    return torch.tensor(found)


def test_a_model_trains_the_same_to_rounding(by_torch):
    def without_dropout():
        model = translator()
        for part in model.modules():
            if isinstance(part, Dropout):
                part.p = 0.0
        return losses(model)

    found = without_dropout()
    by_torch()
    torch.testing.assert_close(found, without_dropout(), rtol=1e-4, atol=1e-4)


def test_a_model_trains_the_same_to_the_last_bit_twice():
    assert torch.equal(losses(translator()), losses(translator()))


def test_an_encoder_without_padding_is_the_one_with_it(by_torch):
    encoder, source = translator().encoder, pairs().source
    for part in encoder.modules():
        if isinstance(part, Dropout):
            part.p = 0.0

    def f():
        encoder.zero_grad()
        memory = encoder(source)
        assert memory.mask is not None
        vectors = memory.vectors * memory.mask.unsqueeze(2)
        (vectors * numbers(*vectors.shape)).sum().backward()
        return [vectors.detach(), memory.summary.detach(), *(weight.grad.clone() for weight in encoder.parameters())]

    found = f()
    by_torch()
    assert_same(found, f())


def test_a_gradient_of_a_gradient_goes_by_torch(by_torch):
    model, batch = translator(), pairs()
    for part in model.modules():
        if isinstance(part, Dropout):
            part.p = 0.0

    def f():
        memory = model.encode(batch.source)
        features = model.features(memory, batch.target)
        total = (features * numbers(*features.shape)).sum()
        weights = [*model.encoder.layers.parameters(), *model.decoder.layers.parameters()]
        first = torch.autograd.grad(total, weights, create_graph=True)
        squares = torch.stack([(one**2).sum() for one in first]).sum()
        return torch.autograd.grad(squares, weights)

    found = f()
    by_torch()
    with sdpa_kernel(SDPBackend.MATH):  # torch's own kernel has no second gradient
        wanted = f()
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3 * float(other.abs().max()))


def test_they_stay_away_from_what_is_not_theirs(monkeypatch):
    x, called = numbers(5, 32).requires_grad_(), []
    assert training.suits(x)
    with torch.no_grad():
        assert not training.suits(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not training.suits(x)
    assert not training.suits(x.double())
    assert not training.suits(x.to("meta"))
    part = MultiHead(32, 2).train()
    monkeypatch.setattr(training, "attend", lambda *args: called.append(args))
    with Trace(part) as seen:
        part(x[None])
    assert seen["MultiHead"].shape == (1, 2, 5, 5)
    part.eval()(x[None])
    assert not called
    layer = nn.Linear(32, 3)
    layer.register_forward_hook(lambda *_: torch.zeros(5, 3))
    assert not gradients.apply(layer, x).any()


def test_what_is_faster_is_found_once_and_written_down(tmp_path, monkeypatch):
    monkeypatch.undo()
    asked = []
    monkeypatch.setattr(training, "compile_kernels", lambda: tmp_path / "kernels.so")
    monkeypatch.setattr(training, "_is_faster", lambda: asked.append(1) or len(asked) > 1)
    for threads, wanted in ((1, False), (2, True), (1, False)):
        training.faster.cache_clear()
        assert training.faster(threads) is wanted
    training.faster.cache_clear()
    assert len(asked) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kernels.training-1", "kernels.training-2"]


@pytest.mark.parametrize("slow", ["F.linear", "product"])
def test_the_quicker_way_is_chosen(slow, monkeypatch):
    """One of the ways waits: then the other is chosen."""
    module, name = (F, "linear") if slow == "F.linear" else (training, "product")
    quick = getattr(module, name)

    def wait(*args):
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
        return quick(*args)

    monkeypatch.setattr(module, name, wait)
    assert training._is_faster() is (slow == "F.linear")


def test_a_cache_that_cannot_be_written_ends_no_training(tmp_path, monkeypatch):
    monkeypatch.undo()
    training.faster.cache_clear()
    monkeypatch.setattr(training, "compile_kernels", lambda: tmp_path / "missing" / "kernels.so")
    monkeypatch.setattr(training, "_is_faster", lambda: True)
    assert training.faster(7) is True
    training.faster.cache_clear()


@pytest.mark.parametrize("target", [-1, 50, 2**40])
@pytest.mark.parametrize("native", [True, False])
def test_a_target_outside_of_the_vocabulary_is_an_error(target, native, by_torch):
    if not native:
        by_torch()
    features, weight = numbers(3, 8).requires_grad_(), numbers(50, 8, seed=1)
    with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|outside of the vocabulary"):
        fused_cross_entropy(features, weight, None, torch.tensor([1, target, 2]))
