"""The language model and the vision transformer: parity with torch.nn, invariants, and that they learn."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import Trace
from regard.data.examples import ExampleBatch
from regard.encoders.image import VisionTransformer
from regard.errors import CallError
from regard.generation.engine import Constraints
from regard.generation.sampling import greedy
from regard.layers.pooling import Pooling
from regard.layers.transformer import Block
from regard.models.classifier import Classifier
from regard.models.language_model import LanguageModel, TextBatch

V, D, H, L, HIDDEN = 23, 24, 3, 2, 40

KINDS = {
    "gpt2": {},
    "llama": {"positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "kv_heads": 1},
    "alibi": {"positions": "alibi", "tied": False},
    "sinusoidal": {"positions": "sinusoidal", "activation": "relu"},
}


def language_model(kind: str = "gpt2") -> LanguageModel:
    torch.manual_seed(5)
    model = LanguageModel(V, D, H, L, max_length=13, feed_forward=HIDDEN, **KINDS[kind]).double().eval()
    with torch.no_grad():  # fresh weights are so small that attention hardly matters; these are not
        for parameter in model.parameters():
            parameter.mul_(5.0)
    return model


def texts(rows: int = 2, length: int = 11) -> torch.Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(7))


def torchs_own(block: Block, hidden: int) -> nn.TransformerEncoderLayer:
    """torch's layer with our block's weights."""
    dtype = block.attention.out.weight.dtype
    layer = nn.TransformerEncoderLayer(D, H, hidden, 0.0, "gelu", batch_first=True, norm_first=True, dtype=dtype)
    pairs = [
        (layer.self_attn.in_proj_weight, block.attention.project.weight),
        (layer.self_attn.in_proj_bias, block.attention.project.bias),
        (layer.self_attn.out_proj.weight, block.attention.out.weight),
        (layer.self_attn.out_proj.bias, block.attention.out.bias),
        (layer.linear1.weight, block.feed_forward.widen.weight),
        (layer.linear1.bias, block.feed_forward.widen.bias),
        (layer.linear2.weight, block.feed_forward.narrow.weight),
        (layer.linear2.bias, block.feed_forward.narrow.bias),
        (layer.norm1.weight, block.attention_norm.weight),
        (layer.norm1.bias, block.attention_norm.bias),
        (layer.norm2.weight, block.feed_forward_norm.weight),
        (layer.norm2.bias, block.feed_forward_norm.bias),
    ]
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
    return layer.eval()


def test_language_model_equals_one_made_of_torchs_layers():
    model, tokens = language_model(), texts()
    T = tokens.shape[1]
    x = F.embedding(tokens, model.decoder.embedding.table.weight) + model.decoder.embedding.positions.table[:T]
    for block in model.decoder.layers:
        x = torchs_own(block, HIDDEN)(
            x, src_mask=nn.Transformer.generate_square_subsequent_mask(T, dtype=x.dtype), is_causal=True
        )
    torch.testing.assert_close(model.features(tokens), model.decoder.norm(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_future_changes_nothing(kind):
    model, tokens = language_model(kind), texts()
    other = tokens.clone()
    other[:, 6:] = (other[:, 6:] + 5) % V
    before, after = model.features(tokens), model.features(other)
    torch.testing.assert_close(after[:, :6], before[:, :6])
    assert not torch.allclose(after[:, 6:], before[:, 6:])


@pytest.mark.parametrize("kind", KINDS)
def test_order_matters(kind):
    model, tokens = language_model(kind), texts()
    swapped = tokens.clone()
    swapped[:, [1, 2]] = tokens[:, [2, 1]]
    assert not torch.allclose(model.features(swapped)[:, -1], model.features(tokens)[:, -1], atol=1e-5)


@pytest.fixture(params=[True, False], ids=["learning", "predicting"])
def grad(request):
    with torch.set_grad_enabled(request.param):
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("grad")  # without gradients, a faster way of stepping takes over
def test_cached_equals_uncached(kind):
    model, tokens = language_model(kind), texts(rows=3)
    whole, state = model.features(tokens), model.start(rows=3)
    for t in range(5):
        features, state = model.step(tokens[:, t], state)
        torch.testing.assert_close(features, whole[:, t])
    rows = torch.tensor([2, 0])
    state = state.select(rows)
    for t in range(5, tokens.shape[1]):
        features, state = model.step(tokens[rows, t], state)
        torch.testing.assert_close(features, whole[rows, t])


def test_loss_is_the_sum_of_cross_entropies_of_all_but_the_first_token():
    model, tokens = language_model("alibi"), texts()
    tokens[1, 8:] = 0
    loss = model(TextBatch(tokens))
    logits = model.logits(model.features(tokens[:, :-1]))
    by_torch = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0, reduction="sum")
    torch.testing.assert_close(loss.total, by_torch)
    assert loss.count == 10 + 7


def test_padding_changes_nothing():
    model, tokens = language_model(), texts()
    longer = torch.cat([tokens, torch.zeros(2, 2, dtype=torch.long)], dim=1)
    torch.testing.assert_close(model(TextBatch(longer)).total, model(TextBatch(tokens)).total)


def test_tied_output_is_the_embedding():
    tied, free = language_model("gpt2"), language_model("alibi")
    assert tied.output.weight is tied.decoder.embedding.table.weight
    assert free.output.weight is not free.decoder.embedding.table.weight


def test_fresh_weights_are_gpt2s():
    model = LanguageModel(2000, 96, 3, 8)
    block = model.decoder.layers[3]
    assert block.feed_forward.widen.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert block.feed_forward.narrow.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)  # √(2 · 8)
    assert block.attention.out.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert model.decoder.embedding.table.weight[0].abs().max() == 0  # padding


def test_grouped_heads_have_fewer_parameters():
    whole, grouped = LanguageModel(V, D, H, 1), LanguageModel(V, D, H, 1, kv_heads=1)
    fewer = 2 * (D - D // H) * (D + 1)
    assert sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in grouped.parameters()) == fewer


def test_text_longer_than_learned_positions_is_refused_and_others_go_on():
    with pytest.raises(ValueError, match="learned up to 13"):
        language_model("gpt2").features(texts(length=14))
    for kind in ("llama", "alibi", "sinusoidal"):
        assert language_model(kind).features(texts(length=14)).isfinite().all()


def test_a_model_without_layers_is_refused():
    with pytest.raises(CallError, match="layers=0"):
        LanguageModel(V, D, H, 0)


def test_language_model_learns_a_text_by_heart():
    torch.manual_seed(3)
    model = LanguageModel(V, 32, 4, 2, max_length=24)
    text = torch.cat([torch.tensor([2]), torch.randint(4, V, (20,)), torch.tensor([3])])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(60):
        loss = model(TextBatch(text[None]))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    assert loss.total.item() / loss.count < 0.05
    [[best]] = greedy(model.eval(), model.start(), Constraints(max_length=30))
    assert best.tokens == text[1:-1].tolist()


SIZE, PATCH = (12, 20), 4  # three rows of five patches


def vision(classes: int = 7) -> Classifier:
    torch.manual_seed(11)
    encoder = VisionTransformer(SIZE, PATCH, D, H, L, feed_forward=HIDDEN, channels=2)
    model = Classifier(encoder, Pooling("summary"), D, classes)
    nn.init.normal_(model.output.weight)
    nn.init.normal_(encoder.summary)
    return model.eval()


def images(rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, 2, *SIZE, generator=torch.Generator().manual_seed(13))


def test_vision_transformer_equals_one_made_of_torchs_layers():
    encoder, pictures = vision().encoder, images()
    pieces = F.unfold(pictures, PATCH, stride=PATCH).transpose(1, 2)  # patches row by row, cut by torch
    x = F.linear(pieces, encoder.patches.weight.flatten(1), encoder.patches.bias)
    x = torch.cat([encoder.summary.expand(4, 1, D), x], dim=1) + encoder.positions.table
    for block in encoder.layers:
        x = torchs_own(block, HIDDEN)(x)
    x = encoder.norm(x)
    memory = encoder(pictures)
    torch.testing.assert_close(memory.vectors, x[:, 1:])
    torch.testing.assert_close(memory.summary, x[:, 0])
    assert memory.grid == (3, 5)
    assert memory.mask is None


def test_vectors_stand_in_the_order_of_the_grid():
    # Without blocks a memory's vector sees its own patch only: change the patch in row 2, column 3.
    encoder = VisionTransformer(SIZE, PATCH, D, H, layers=0, channels=2)
    pictures = images(1)
    changed = pictures.clone()
    changed[0, :, 2 * PATCH : 3 * PATCH, 3 * PATCH : 4 * PATCH] += 1
    moved = (encoder(changed).vectors - encoder(pictures).vectors).abs().sum(-1)[0].view(3, 5)
    assert moved.nonzero().tolist() == [[2, 3]]


def test_attention_of_every_layer_can_be_seen():
    model = vision()
    with Trace(model) as seen:
        model.logits(images())
    weights = seen["encoder.layers.1.attention"]
    assert weights.shape == (4, H, 16, 16)  # the class token and 15 patches
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, H, 16))


def test_classifier_loss_is_torchs():
    model, labels = vision(), torch.tensor([3, 0, 6, 3])
    loss = model(ExampleBatch(images(), labels))
    logits = model.logits(images())
    torch.testing.assert_close(loss.total, F.cross_entropy(logits, labels, reduction="sum"))
    assert loss.count == 4
    assert loss.correct == (logits.argmax(1) == labels).sum()


def test_classifier_learns_its_images_by_heart():
    model, labels = vision().train(), torch.tensor([3, 0, 6, 2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(25):
        loss = model(ExampleBatch(images(), labels))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    assert loss.correct == 4


def test_wrong_sizes_are_explained():
    with pytest.raises(CallError, match="patch=5 must divide"):
        VisionTransformer(SIZE, 5, D, H, L)
    with pytest.raises(CallError, match="20×12 pixels do not fit a model for 12×20"):
        vision().encoder(images().transpose(2, 3))


def test_batches_move_to_a_device():
    assert TextBatch(texts()).to("meta").tokens.device.type == "meta"
    batch = ExampleBatch(images(), torch.zeros(4, dtype=torch.long)).to("meta")
    assert batch.source.device.type == batch.target.device.type == "meta"
