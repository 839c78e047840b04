"""Every score of the catalogue, and one that a user adds, from a recipe into a model that learns and decodes.

A score is one file and one line in `catalog.SCORES`: the new one below is nothing more.
"""

import pytest
import torch

from regard import catalog, config
from regard.data.examples import ExampleBatch
from regard.errors import CallError
from regard.generation.engine import Constraints
from regard.generation.sampling import greedy
from regard.models.build import build_seq2seq, recurrent_decoder
from regard.tasks.text.settings import TranslateRecipe

DISTANCE = '''
"""e = −Σ_d w_d² (q_d − k_d)²: the nearer, the better. Its dot form is [2w²∘q; −|w∘q|²; 1] · [k; 1; −|w∘k|²]."""

import torch
from torch import nn

from regard.attention.score import DotForm, Score, require_equal_widths


class Distance(Score):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), width**-0.25))

    @classmethod
    def for_widths(cls, query_width, key_width, hidden):
        require_equal_widths(cls, query_width, key_width)
        return cls(query_width)

    def forward(self, query, key):
        return -(self.weight * (query.unsqueeze(-2) - key.unsqueeze(-3))).square().sum(-1)

    def prepare(self, key):
        length = (self.weight * key).square().sum(-1, keepdim=True)
        return torch.cat([key, torch.ones_like(length), -length], dim=-1)

    def to_normal_form(self, query, prepared):
        length = (self.weight * query).square().sum(-1, keepdim=True)
        return DotForm(torch.cat([2 * self.weight**2 * query, -length, torch.ones_like(length)], dim=-1), prepared, 1.0)
'''
NAMES = [*catalog.SCORES, "distance"]
SIZES = {
    "translate-recurrent": ("model.width=32", "model.embedding=16", "model.dropout=0"),
    "translate-transformer": (
        "model.width=24", "model.heads=2", "model.feed_forward=40", "model.encoder_layers=1", "model.decoder_layers=1",
        "model.dropout=0", "model.label_smoothing=0",
    ),
}  # fmt: skip
WORDS = 11


@pytest.fixture(autouse=True)
def distance(tmp_path, monkeypatch):
    (tmp_path / "score_of_mine.py").write_text(DISTANCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(catalog.SCORES, "distance", "score_of_mine:Distance")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recipe", SIZES)
def test_every_score_learns_and_decodes(recipe, name):
    settings = config.read(recipe, [*SIZES[recipe], f"model.score={name}"])
    assert isinstance(settings, TranslateRecipe)
    torch.manual_seed(1)
    model = build_seq2seq(settings.model, WORDS, WORDS)
    kinds = {type(module) for module in model.modules()}
    assert catalog.find(catalog.SCORES, name) in kinds
    source = torch.randint(4, WORDS, (6, 4), generator=torch.Generator().manual_seed(8))  # to be written backwards
    batch = ExampleBatch(source, torch.cat([source.flip(1), torch.full((6, 1), 3)], dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        loss = model(batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
        if loss.total.item() < 0.005 * loss.count:
            break
    model.eval()
    with torch.no_grad():
        found = greedy(model, model.start(model.encode(source)), Constraints(9))
    assert [hypotheses[0].tokens for hypotheses in found] == source.flip(1).tolist()


def test_the_new_score_is_its_equation():
    score = catalog.find(catalog.SCORES, "distance").for_widths(5, 5, 7)
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    torch.testing.assert_close(score.normal_form(query, key).table(), score(query, key), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("recipe", SIZES)
def test_a_name_that_is_not_in_the_catalogue_gets_the_nearest_that_is(recipe, monkeypatch):
    with pytest.raises(CallError, match=r"model\.score='distanz': not known; did you mean 'distance'\?"):
        config.read(recipe, ["model.score=distanz"])
    monkeypatch.delitem(catalog.SCORES, "distance")
    with pytest.raises(CallError, match=r"model\.score='distance': not known; choose from dot, .*trilinear"):
        config.read(recipe, ["model.score=distance"])


def test_the_schema_lists_the_scores():
    sections = config.schema()["$defs"]
    for section in ("RecurrentSettings", "TransformerSettings", "RecurrentSpanReaderSettings"):
        field = sections[section]["properties"]["score"]
        assert field["enum"] == [name for name in catalog.SCORES if name != "distance"]
        assert field["type"] == "string"
        assert field["description"]


def test_widths_that_a_score_cannot_take_are_said_when_the_model_is_built():
    settings = config.read("translate-recurrent", ["model.score=trilinear"])
    assert isinstance(settings, TranslateRecipe)
    with pytest.raises(CallError, match="the score Trilinear needs queries and keys of one width"):
        recurrent_decoder(settings.model, WORDS, memory_width=20, summary_width=20)  # pyright: ignore
