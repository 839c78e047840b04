"""Steps of one text by the compiled kernels, and weights in fewer bits: beside the general way, which is torch's."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_model
from torch import Tensor, nn

from regard.attention.memory import PreallocatedCache
from regard.attention.multihead import MultiHead
from regard.attention.scores import Bilinear
from regard.decoders import single_steps
from regard.decoders.transformer import TransformerState
from regard.generation.sampling import SamplingState, generate
from regard.kernels import inference
from regard.layers import packed
from regard.layers.feed_forward import FeedForward
from regard.layers.quantized import AHEAD, QuantizedLinear, one_row, quantize
from regard.layers.transformer import Block
from regard.models.language_model import LanguageModel
from regard.training.checkpoint import read_weights
from regard.training.initial_weights import SkipInit

needs_kernels = pytest.mark.skipif(
    not inference.available(), reason="needs a C compiler: apt-get install gcc, or the package of your system"
)
WORDS, LENGTH = 51, 19
LLAMA = {"positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "bias": False, "kv_heads": 5}
MODELS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "llama with a bias, all heads their own": {**LLAMA, "bias": True, "kv_heads": None},
    "one key for all heads": {**LLAMA, "kv_heads": 1},
    "gpt-2": {"activation": "gelu_tanh"},
    "gelu": {"activation": "gelu", "positions": "sinusoidal", "bias": False},
    "relu": {"activation": "relu", "positions": "none", "norm_kind": "rms"},
}
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 2e-4}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def model(kind: str, precision: Any = None, *, width: int = 15 * 22, feed_forward: int = 211) -> LanguageModel:
    """Sizes are no multiples of a vector, and large enough for several threads."""
    torch.manual_seed(0)
    made = LanguageModel(WORDS, width, 15, 3, feed_forward=feed_forward, **MODELS[kind]).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    if precision is not None:
        quantize(made, precision)
    return made


def tokens() -> Tensor:
    return torch.randint(WORDS, (1, LENGTH), generator=torch.Generator().manual_seed(1))


@torch.inference_mode()
def by_steps(made: LanguageModel, read: int = 4) -> Tensor:
    """Logits after each token but those that are read at once."""
    state, logits = made.start(1, places=LENGTH), []
    _, state = made.read(tokens()[:, :read], state)
    for token in tokens()[0, read:]:
        features, state = made.step(token.view(1), state)
        logits.append(made.logits(features))
    return torch.cat(logits)


def uses_kernels(made: LanguageModel) -> bool:
    state = made.start(1, places=3)
    assert isinstance(state, TransformerState)
    assert state.single is not None
    return state.single.compiled is not None


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("precision", [None, "bf16", "int8"])
@pytest.mark.parametrize("kind", MODELS)
def test_steps_are_those_of_the_general_way(kind: str, precision: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    made = model(kind, precision)
    assert uses_kernels(made)
    with torch.no_grad():
        wanted = made.logits(made.features(tokens()))[0, 4:]
    torch.testing.assert_close(by_steps(made), wanted, **CLOSE)


@needs_kernels
def test_swish_and_values_of_another_width_than_keys() -> None:
    torch.manual_seed(0)
    block = Block(330, 6, 215, activation="swish").eval()
    block.attention = MultiHead(330, 6, head_width=17, value_width=70, kv_heads=2)
    block.eval()
    x = torch.randn(1, 9, 330)
    with torch.no_grad():
        wanted = block(x, causal=True)
        layers, rooms = single_steps.prepare([block], nn.Identity()), (block.attention.preallocate(x, 1, 9),)
        assert layers is not None
        assert layers.compiled is not None
        for place in range(9):
            row, rooms = single_steps.step(layers, x[:, place], rooms)
            torch.testing.assert_close(row, wanted[:, place], **CLOSE)


@needs_kernels
@pytest.mark.parametrize("precision", [None, "bf16", "int8"])
def test_any_number_of_threads_gives_the_same_numbers(precision: Any) -> None:
    made = model("llama", precision)
    torch.set_num_threads(1)
    alone = by_steps(made, read=1)
    for threads in (2, 5):
        torch.set_num_threads(threads)
        torch.testing.assert_close(by_steps(made, read=1), alone, rtol=1e-5, atol=1e-5)
    for one in made.modules():
        if isinstance(one, QuantizedLinear):
            one.ahead = AHEAD[1]
    torch.testing.assert_close(by_steps(made, read=1), alone, rtol=1e-5, atol=1e-5)


@needs_kernels
def test_a_step_of_another_thread_in_between_does_not_exchange_the_buffers() -> None:
    """Both threads find that the layers know the buffers of another text; one comes between two lines of the other."""
    block = Block(32, 2, 40).eval()
    layers = single_steps.prepare([block], nn.Identity())
    assert layers is not None
    assert layers.compiled is not None
    mine, theirs = ((block.attention.preallocate(torch.ones(1, 1, 32), 1, 9),) for _ in range(2))

    class Shared(list[Any]):
        def __setitem__(self, *given: Any) -> None:
            super().__setitem__(*given)
            if self[0] is not None and not others:
                others.append(None)
                others.append(single_steps._places(compiled, theirs))

    others: list[Any] = []
    compiled = layers.compiled._replace(found=Shared())
    for (keys, values), rooms in zip((single_steps._places(compiled, mine), others[1]), (mine, theirs), strict=True):
        assert (keys[0], values[0]) == (rooms[0].key.data_ptr(), rooms[0].value.data_ptr())


@needs_kernels
@pytest.mark.parametrize("kind", MODELS)
def test_torch_alone_takes_the_same_steps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model(kind)
    compiled = by_steps(made)
    monkeypatch.setattr(inference, "available", lambda *tensors: False)
    assert not uses_kernels(made)
    torch.testing.assert_close(by_steps(made), compiled, **CLOSE)


@needs_kernels
@pytest.mark.parametrize("precision", [None, "bf16", "int8"])
def test_texts_are_those_that_torch_writes(precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("llama", precision)

    def written(how: SamplingState) -> tuple[list[int], list[float]]:
        cpu = torch.device("cpu")
        made_up = generate(made, [[5, 6]], how, context=16, max_length=40, end=None, forbidden=[3], device=cpu)
        _, tokens, told = zip(*made_up, strict=True)
        return list(tokens), list(told)

    ways = [SamplingState(0.8, seed=3), SamplingState(0.0), SamplingState(0.0, repetition_penalty=1.5)]
    by_kernels = [written(how) for how in ways]  # past the end of the context, which is read anew
    assert len(set(by_kernels[0][0])) > 5
    assert by_kernels[1][0] != by_kernels[2][0]
    monkeypatch.setattr(single_steps, "_compile_blocks", lambda blocks, norm: None)
    monkeypatch.setattr(inference, "linear_kept", None)
    monkeypatch.setattr(inference, "available", lambda *tensors: False)
    for how, (tokens, told) in zip(ways, by_kernels, strict=True):
        by_torch = written(how)
        assert by_torch[0] == tokens
        assert by_torch[1] == pytest.approx(told, abs=1e-4)
        assert max(told) <= 0.0


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("inputs", [3, 64, 211, 1000])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@torch.no_grad()
def test_one_row_with_fewer_bits_is_as_exact_as_with_floats(inputs: int, precision: Any, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layer = QuantizedLinear(nn.Linear(inputs, 333), precision)
    x = torch.randn(1, inputs)
    exact = layer.weight.double()
    for scale in (1.0, 1e-20, 1e20, 1e-35, 0.0):
        for large in (1.0, 3e4):  # a few numbers are as large as this beside the others, and the others still count
            row = x * scale
            row[0, 1] *= large
            wanted = row.double() @ exact.T + layer.bias
            worst = float((row.double().abs() @ exact.abs().T).max()) + 1.0
            found = layer(row)
            assert bool(found.isfinite().all())
            assert float((found - wanted).abs().max()) < 3e-6 * worst
            layer.ahead = AHEAD[1] - layer.ahead
            assert torch.equal(layer(row), found), "what is asked for ahead changes no number"
    x[0, 2] = torch.nan
    assert bool(layer(x).isnan().all()), "a number that is none is not hidden"


@needs_kernels
def test_two_steps_from_one_state_do_not_meet() -> None:
    made = model("llama")
    with torch.inference_mode():
        _, before = made.read(tokens()[:, :6], made.start(1, places=LENGTH))
        for token in (7, 8):
            features, after = made.step(torch.tensor([token]), before)
            again, _ = made.step(torch.tensor([9]), after)
            text = torch.cat([tokens()[0, :6], torch.tensor([token, 9])]).unsqueeze(0)
            torch.testing.assert_close(torch.cat([features, again]), made.features(text)[0, 6:], **CLOSE)


@needs_kernels
def test_a_hook_before_the_heads_are_joined_is_heard() -> None:
    made = model("llama")
    plain = by_steps(made)
    block = made.decoder.layers[1]
    assert isinstance(block, Block)
    out = block.attention.out
    handle = out.register_forward_pre_hook(lambda module, given: (given[0] * 0.5,))
    with torch.no_grad():
        wanted = made.logits(made.features(tokens()))[0, 4:]
    masked = by_steps(made)
    torch.testing.assert_close(masked, wanted, **CLOSE)
    assert not torch.allclose(masked, plain, **CLOSE)
    handle.remove()
    torch.testing.assert_close(by_steps(made), plain)


@needs_kernels
def test_other_blocks_go_another_way() -> None:
    made = model("llama")
    for double in (made.double(), model("llama").bfloat16()):
        assert not uses_kernels(double)
    made = model("llama")
    made.decoder.layers[2].attention_norm = nn.Identity()
    assert not uses_kernels(made)
    with torch.no_grad():
        torch.testing.assert_close(by_steps(made), made.logits(made.features(tokens()))[0, 4:], **CLOSE)
    assert single_steps.prepare([made.decoder.layers[0].train()], nn.Identity()) is None  # pyright: ignore[reportArgumentType]


def test_room_is_where_nobody_wrote() -> None:
    room = PreallocatedCache.empty(torch.ones(1), 1, 2, 3, 4, 4)
    assert single_steps.has_room([room])
    room.written[0] = 1
    assert not single_steps.has_room([room])


@needs_kernels
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (31, 7), (33, 64), (523, 259)])
@pytest.mark.parametrize("bias", [True, False])
def test_one_row_is_that_of_torch(outputs: int, inputs: int, bias: bool, threads: int) -> None:
    torch.set_num_threads(threads)
    layer, x = nn.Linear(inputs, outputs, bias=bias), torch.randn(1, inputs)
    with torch.no_grad():
        torch.testing.assert_close(one_row(layer, x), layer(x), rtol=1e-5, atol=1e-5)
        layer.register_forward_hook(lambda module, given, result: -result)
        assert torch.equal(one_row(layer, x), layer(x))


def rounded(weight: Tensor, precision: Any) -> Tensor:
    """What is to be left of a weight."""
    if precision == "bf16":  # what is smaller than 2^-14 of the largest of its row is that, or 0
        near = weight.bfloat16().float()
        least = 2.0 ** (near.abs().amax(1, keepdim=True).log2().floor() - 14)
        tiny = (near.abs() >= least / 2) * least * near.sign()
        return torch.where(near.abs() < least, tiny, near)
    scale = weight.abs().amax(1, keepdim=True) / 127
    return (weight / scale).round() * scale


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (31, 7), (33, 64), (150, 773)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_with_weights_in_fewer_bits(
    outputs: int, inputs: int, precision: Any, bias: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(inference, "available", lambda *tensors: False)
    elif not inference.available():
        pytest.skip("needs a C compiler: apt-get install gcc")
    torch.manual_seed(0)
    layer = nn.Linear(inputs, outputs, bias=bias)
    small, wanted = QuantizedLinear(layer, precision), rounded(layer.weight.detach(), precision)
    torch.testing.assert_close(small.weight, wanted, rtol=1e-6, atol=0.0)
    x = torch.randn(40, inputs) * torch.logspace(-3, 3, 40).unsqueeze(1)  # nothing is rounded by its neighbors
    for rows in (1, 2, 13, 40):
        given = x[:rows].clone()
        with torch.no_grad():
            near: dict[str, Any] = {"rtol": 1e-4, "atol": float(1e-6 * given.abs().max() * inputs**0.5)}
            torch.testing.assert_close(small(given), F.linear(given, wanted, layer.bias), **near)
            torch.testing.assert_close(small(given.view(rows, 1, inputs)).squeeze(1), small(given))
            torch.testing.assert_close(small(given.T.contiguous().T), small(given))
    x.requires_grad_()
    small(x).sum().backward()
    torch.testing.assert_close(x.grad, wanted.sum(0).expand_as(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
@torch.no_grad()
def test_twelve_bits_hold_numbers_of_bf16(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(inference, "available", lambda *tensors: False)
    elif not inference.available():
        pytest.skip("needs a C compiler: apt-get install gcc")
    layer, row = nn.Linear(9, 7, bias=False), torch.tensor([3.0, -1.5, 1.9921875, 0.0, -0.0, 2.0**-13, 0.75, 1.0, -2.5])
    small = 2.0**-14  # of the power of two in the largest
    numbers = {
        "bf16": (row, row),
        "large": (row * 2.0**100, row * 2.0**100),
        "small": (row * 2.0**-100, row * 2.0**-100),
        "tiny": (
            row.index_fill(0, torch.tensor([1]), 2 * 0.6 * small).index_fill(0, torch.tensor([2]), -2 * 0.4 * small),
            row.index_fill(0, torch.tensor([1]), 2 * small).index_fill(0, torch.tensor([2]), 0.0),
        ),
        "nothing": (torch.zeros(9), torch.zeros(9)),
        "below what floats have": (torch.full((9,), 1e-39), torch.zeros(9)),
        "no number": (row.index_fill(0, torch.tensor([4]), torch.inf), torch.full((9,), torch.nan)),
    }
    given, wanted = (torch.stack(rows) for rows in zip(*numbers.values(), strict=True))
    layer.weight.copy_(given)
    kept = QuantizedLinear(layer, "bf16")
    assert torch.equal(kept.weight.nan_to_num(nan=5.0), wanted.nan_to_num(nan=5.0))
    for rows in (torch.eye(9), torch.eye(9)[4:5], torch.eye(9)[:1] * 2.0**22):  # many rows, one, one with large numbers
        assert torch.equal(kept(rows).nan_to_num(nan=5.0), (rows @ wanted.T).nan_to_num(nan=5.0))


@pytest.mark.parametrize(("precision", "bytes_each"), [("bf16", 1.5), ("int8", 1)])
def test_all_matrices_are_kept_in_fewer_bits_side_by_side(precision: Any, bytes_each: float) -> None:
    made = model("llama", width=15 * 32, feed_forward=224)
    exact = {name: one.weight for name, one in made.named_modules() if isinstance(one, nn.Linear)}
    quantize(made, precision)
    small = {name: one for name, one in made.named_modules() if isinstance(one, QuantizedLinear)}
    assert set(small) == set(exact)
    for name, one in small.items():
        torch.testing.assert_close(one.weight, rounded(exact[name].detach(), precision), rtol=1e-6, atol=0.0)
    places = sorted((one.kept.data_ptr(), one.kept.nbytes) for one in small.values())
    assert all(0 <= after - start - size < packed.LINE for (start, size), (after, _) in pairwise(places))
    panel = inference.panel_width() if inference.available() else 1
    assert sum(one.nbytes for one in small.values()) == sum(
        bytes_each * one.shape[1] * -(-len(one) // panel) * panel for one in exact.values()
    )


@needs_kernels
def test_how_far_ahead_is_asked_is_timed_where_weights_lie_in_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def second_of(ways: Any) -> int:
        for way in ways:
            way[0]()
            seen.append(layers[0].ahead)
        return 1

    monkeypatch.setattr("regard.layers.quantized.fastest", second_of)
    made = model("llama")
    quantize(made, "int8")
    assert all(one.ahead == 0 for one in made.modules() if isinstance(one, QuantizedLinear)), "it is small"
    monkeypatch.setattr(packed, "WORTH_IT", 0)
    made = model("llama")
    layers: list[Any] = []
    monkeypatch.setattr(
        packed,
        "copy_to_large_pages",
        lambda kept: layers.extend([one for one in made.modules() if isinstance(one, QuantizedLinear)]) or kept,
    )
    quantize(made, "int8")
    assert seen == list(AHEAD)
    assert all(one.ahead == one.matrix().ahead == AHEAD[1] for one in layers)


def test_a_large_model_is_read_into_large_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model("llama")
    with SkipInit():
        empty = LanguageModel(WORDS, 330, 15, 3, feed_forward=211, **LLAMA).eval()
    save_model(made, str(tmp_path / "weights"))
    before = {one.data_ptr() for one in empty.parameters()}
    packed.reserve(empty)  # it is small: nothing is gained by it
    assert {one.data_ptr() for one in empty.parameters()} == before
    monkeypatch.setattr(packed, "WORTH_IT", 0)
    packed.reserve(empty)
    read_weights(empty, tmp_path / "weights")
    assert not before & {one.data_ptr() for one in empty.parameters()}
    assert empty.output.weight.data_ptr() == empty.decoder.embedding.table.weight.data_ptr()  # tied, as before
    assert all(one.data_ptr() % packed.LINE == 0 for one in empty.parameters())
    for name, numbers in made.state_dict().items():
        assert torch.equal(empty.state_dict()[name], numbers)
    torch.testing.assert_close(by_steps(empty), by_steps(made))


@pytest.mark.parametrize(
    "made",
    [
        lambda: nn.Linear(3, 4),
        lambda: nn.GRU(3, 4),
        lambda: nn.Embedding(3, 4),
        lambda: nn.Conv2d(1, 2, 3),
        lambda: FeedForward(3, 4),
        lambda: MultiHead(4, 2),
        lambda: Bilinear(3, 4),
        lambda: nn.init.kaiming_normal_(torch.empty(2, 2)),
        lambda: nn.init.kaiming_uniform_(tensor=torch.empty(2, 2)),
    ],
)
def test_nothing_is_drawn_for_weights_that_are_read(made: Any) -> None:
    before = torch.get_rng_state()
    with SkipInit():
        made()
    assert torch.equal(torch.get_rng_state(), before)
    made()
    assert not torch.equal(torch.get_rng_state(), before)
