"""Bad input: a ValueError that names what is wrong, or a right answer; never silent NaN."""

import math

import jaxtyping
import pytest
import torch
from attention_parts import SCORES
from torch.testing import assert_close

from regard.attention import Dot, MultiHead, Rotary, ScaledDot, SelfAttention, Sinusoidal, Trace, attend


@pytest.fixture(autouse=True)
def as_users_see_it(monkeypatch):
    """Without the shape checks that only tests have, which would speak up first."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


QUERY, KEY, VALUE = torch.randn(2, 5, 6), torch.randn(2, 7, 6), torch.randn(2, 7, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_masks_must_be_bool_and_the_error_says_which_way(dtype):
    mask = torch.ones(2, 5, 7, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    for run in (
        lambda: attend(Dot(), QUERY, KEY, VALUE, mask),
        lambda: MultiHead(6, 2)(QUERY, KEY, mask),
        lambda: SelfAttention(6)(KEY, mask[:, :1]),
    ):
        with pytest.raises(ValueError, match=rf"mask is {name}, but masks are bool and True = may attend"):
            run()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((QUERY, KEY, VALUE[:, :6]), r"there are 7 keys and 6 values"),
        ((QUERY[..., :5], KEY, VALUE), r"query has width 5 and key has width 6"),
        ((QUERY, KEY[:1].expand(3, 7, 6), VALUE), r"leading dimensions do not fit.*query \(2, 5, 6\), key \(3, 7, 6\)"),
        ((QUERY, KEY, VALUE, torch.ones(2, 7, dtype=torch.bool)), r"mask has shape \(2, 7\).*\(2, 5, 7\)"),
        ((QUERY, KEY, VALUE, torch.ones(1, 2, 5, 7, dtype=torch.bool)), r"mask has shape \(1, 2, 5, 7\)"),
        ((QUERY[0, 0], KEY, VALUE), r"query has shape \(6,\), but must be \(..., vectors, width\)"),
        ((QUERY.long(), KEY, VALUE), r"query is int64, but attention needs floating point"),
    ],
)
@pytest.mark.parametrize("need_weights", [False, True])
def test_shapes_that_do_not_fit(arguments, message, need_weights):
    with pytest.raises(ValueError, match=message):
        attend(ScaledDot(), *arguments, need_weights=need_weights)


def test_other_arguments():
    with pytest.raises(ValueError, match=r"bias has shape \(3, 7\)"):
        attend(Dot(), QUERY, KEY, VALUE, bias=torch.zeros(3, 7))
    with pytest.raises(ValueError, match=r"dropout=1\.5 must be"):
        attend(Dot(), QUERY, KEY, VALUE, dropout=1.5)
    with pytest.raises(ValueError, match="combine='sum' must be one of add, concat"):
        Sinusoidal(4, combine="sum")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultiHead(512, 5), "heads=5 must divide width=512, unless head_width is given"),
        (lambda: MultiHead(512, 0), "heads=0 must be at least 1"),
        (lambda: MultiHead(12, 6, kv_heads=4), "kv_heads=4 must divide heads=6"),
        (lambda: MultiHead(12, 6, dropout=-0.1), r"dropout=-0\.1 must be"),
    ],
)
def test_heads_that_cannot_be_built(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: MultiHead(6, 2)(QUERY[..., :5]), r"x has shape \(2, 5, 5\), but must be batch × length × 6"),
        (lambda: MultiHead(6, 2)(QUERY[0]), r"x has shape \(5, 6\)"),
        (lambda: MultiHead(6, 2)(QUERY, VALUE), r"memory has shape \(2, 7, 3\), but must be batch × length × 6"),
        (lambda: MultiHead(6, 2)(QUERY, KEY[:1].expand(3, 7, 6)), "x has 2 rows and the memory 3"),
        (lambda: MultiHead(6, 2, memory_width=3)(QUERY), "built with memory_width: pass a memory"),
        (lambda: MultiHead(6, 2, score=SCORES["additive"](4))(QUERY), "key has width 3, but this Additive was built"),
        (
            lambda: MultiHead(4, 2, rotary=Rotary(2))(QUERY[..., :4], KEY[..., :4]),
            "rotary and relative positions are for self",
        ),
        (
            lambda: MultiHead(6, 2)(QUERY, mask=torch.ones(5, 5).bool()),
            r"with two dimensions.*here \(2, 5\).*mask\[None\]",
        ),
        (lambda: MultiHead(6, 2)(QUERY, mask=torch.ones(5).bool()), "mask has 1 dimensions"),
    ],
)
def test_heads_that_are_called_wrongly(run, message):
    with pytest.raises(ValueError, match=message):
        run()


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("guilty", ["query", "key", "value"])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("one", [False, True])
def test_nan_that_no_mask_hides_is_named(name, guilty, need_weights, masked, one):
    arguments = {"query": QUERY.clone(), "key": KEY.clone(), "value": VALUE.clone()}
    arguments[guilty][1, 2 if one else slice(None), 1] = math.nan
    mask = torch.ones(2, 1, 7, dtype=torch.bool) if masked else None
    for grad in (torch.enable_grad, torch.no_grad):
        with (
            grad(),
            pytest.raises(ValueError, match=f"NaN or infinity in {guilty}, at a position that the mask does not"),
        ):
            attend(SCORES[name](6), *arguments.values(), mask, need_weights=need_weights)


def test_overflow_is_told_from_nan():
    huge = torch.full((2, 4), 3e38)
    with pytest.raises(ValueError, match="overflow float32, though query, key and value are finite"):
        attend(Dot(), huge, huge, huge)


def test_large_but_finite_numbers_are_no_error():
    value = torch.full((7, 3), 2e37)  # the sum of the result overflows, though no number in it does
    context, _ = attend(Dot(), torch.randn(50, 4), torch.randn(7, 4), value)
    assert_close(context, torch.full((50, 3), 2e37), rtol=1e-4, atol=0)


def test_a_hidden_query_may_be_nan():
    query, mask = QUERY.clone(), torch.ones(2, 5, 7, dtype=torch.bool)
    query[0, 3], mask[0, 3] = math.nan, False
    with torch.no_grad():
        context, _ = attend(Dot(), query, KEY, VALUE, mask)
    assert (context[0, 3] == 0).all()
    assert_close(context[1], attend(Dot(), QUERY, KEY, VALUE)[0][1])


def test_modules_leave_nan_to_the_loss_in_training_and_refuse_it_otherwise():
    attention, x = MultiHead(6, 2), QUERY.clone()
    x[0, 0, 0] = math.nan
    assert attention(x)[0].isnan().all()
    attention.eval()
    with pytest.raises(ValueError, match="NaN or infinity in query and key and value"):
        attention(x)
    with Trace(), pytest.raises(ValueError, match="NaN or infinity"):
        attention(x)


def test_a_padded_memory_may_hold_anything():
    attention, memory = MultiHead(6, 2).eval(), KEY.clone()
    memory[:, 5:] = math.nan
    real = torch.arange(7).expand(2, 7) < 5
    with torch.no_grad():
        assert_close(attention(QUERY, memory, real), attention(QUERY, KEY[:, :5]))
