"""Series with labels as an input: unequal lengths, several columns, tables and folders; what is planted is found."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention import Additive
from regard.corpora.series import SHAPE_NOISE, SHAPES, shape_in_series, shapes_of_series
from regard.data.examples import ExampleBatches
from regard.data.vocabulary import OURS
from regard.errors import CallError, RegardError
from regard.inputs.series.input import SeriesInput
from regard.inputs.series.settings import LabeledSeriesSettings, RecurrentSeriesSettings, TransformerSeriesSettings
from regard.layers.pooling import AttentionPooling
from regard.look.attribution import attentions
from regard.look.axis import axis
from regard.look.case import ExplainTarget
from regard.settings.recipe import Recipe
from regard.special_tokens import END, UNK


class SeriesRecipe(Recipe):
    job: str = "classify"
    data: LabeledSeriesSettings
    model: RecurrentSeriesSettings | TransformerSeriesSettings = TransformerSeriesSettings(width=8, heads=2, dropout=0)


class Classes:
    """What an output of labels gives: classes as tokens after the special ones."""

    key, specials, learns_from_all = None, OURS, True

    def learn(self, texts):
        self.names = sorted(set(texts))
        return self

    load = learn

    @property
    def size(self):
        return 4 + len(self.names)

    def encode_batch(self, texts):
        return [[4 + self.names.index(text) if text in self.names else UNK] for text in texts]

    def to_json(self):
        return str(self.names)


def made(count=12, seed=0):
    """Lines of `count` series of 5 to 9 hours: `up` climbs where the label says so, `level` has another unit."""
    chance, lines = np.random.default_rng(seed), ["when,id,label,up,level"]
    for number in range(count):
        climbs = number % 2 == 0
        for hour in range(5 + int(chance.integers(0, 5))):
            up = (hour if climbs else -hour) + 0.1 * chance.standard_normal()
            lines.append(
                f"2024-02-{number + 1:02} {hour:02}:00,s{number},{'up' if climbs else 'down'},{up:.3f},{500 + hour}"
            )
    return lines


def series_input(where, **data):
    settings = {"valid_share": 0.3, "time": "when"} | data
    return SeriesInput(SeriesRecipe.model_validate({"data": {"train": str(where), **settings}}))


@pytest.fixture
def table(tmp_path):
    (tmp_path / "table.csv").write_text("\n".join(made()) + "\n")
    return tmp_path / "table.csv"


def test_a_table_gives_examples_with_their_targets(table, tmp_path):
    input, classes = series_input(table), Classes()
    splits = input.prepare(tmp_path, classes)
    train, valid = splits["train"], splits["valid"]
    assert len(train) + len(valid) == 12
    assert classes.names == ["down", "up"]
    steps, tokens = train.lengths()
    assert (steps.min(), steps.max(), tokens.tolist()) == (5, 9, [2] * len(train))
    for row, example in enumerate(train.examples(100)):
        assert train.target(row).tolist() == [4 + classes.names.index(example.texts[0]), END]
        up = example.input.numbers[:, 0]
        assert (up[-1] > up[0]) == (example.texts == ("up",))
    everything = np.concatenate([example.input.numbers for example in train.examples(100)])
    np.testing.assert_allclose(everything.mean(0), np.zeros(2), atol=1e-5)
    np.testing.assert_allclose(everything.std(0), np.ones(2), rtol=1e-5)
    source = train.source(np.array([3, 0]), 0)
    assert source.lengths.tolist() == [steps[3], steps[0]]
    np.testing.assert_array_equal(source.values[1, : steps[0]], train.examples(100)[0].input.numbers)
    names = [{example.input.name for example in part.examples(100)} for part in (train, valid)]
    assert not names[0] & names[1]
    batches = ExampleBatches(train, lambda targets: torch.tensor([ids[0] for ids in targets]), 40)
    assert sum(len(batch.target) for batch in batches.epoch(0)) == len(train)


def test_a_folder_of_tables_by_class_gives_the_same_series(table, tmp_path):
    rows = [line.split(",") for line in made()[1:]]
    for number in range(12):
        label = "up" if number % 2 == 0 else "down"
        file = tmp_path / "folder" / label / f"s{number}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{when},{up},{level}" for when, id, _, up, level in rows if id == f"s{number}"]
        file.write_text("\n".join(["when,up,level", *lines]) + "\n")
    found = []
    for where in (table, tmp_path / "folder"):
        splits = series_input(where, scale="none").prepare(tmp_path, Classes())
        both = [one for part in splits.values() for one in part.examples(100)]
        found.append(sorted((one.texts, one.input.numbers.flatten().tolist()) for one in both))
    assert found[0] == found[1]
    with pytest.raises(CallError, match="a sub-folder for each class"):
        series_input(tmp_path / "folder" / "up").prepare(tmp_path, Classes())


def test_without_a_clock_a_line_is_a_step(tmp_path):
    lines = [",".join(line.split(",")[1:]) for line in made()]
    (tmp_path / "plain.csv").write_text("\n".join(lines) + "\n")
    input = series_input(tmp_path / "plain.csv", time=None)
    one = input.prepare(tmp_path, Classes())["train"].examples(1)[0].input
    assert one.times.tolist() == list(range(1, len(one.numbers) + 1))
    assert input.axis(one).unit == "line"
    for array in (np.array([[1.0, 500.0], [2.0, 501.0]]), torch.tensor([[1.0, 500.0], [2.0, 501.0]])):
        assert input.is_one(array)
        np.testing.assert_array_equal(
            input.read(array).numbers, input.read({"up": [1, 2], "level": [500, 501]}).numbers
        )


def test_what_is_wrong_is_said(table, tmp_path):
    lines = made()
    lines[3] = lines[3].replace(",up,", ",down,")
    (tmp_path / "two.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(RegardError, match="series 's0' has several labels: up, down"):
        series_input(tmp_path / "two.csv").prepare(tmp_path, Classes())
    (tmp_path / "none.csv").write_text("\n".join(line.replace(",up,", ",,") for line in made()[:40]) + "\n")
    with pytest.raises(RegardError, match="series 's0' has no label"):
        series_input(tmp_path / "none.csv").prepare(tmp_path, Classes())
    with pytest.raises(CallError, match=r"there is no column data\.label='kind'"):
        series_input(table, label="kind").prepare(tmp_path, Classes())
    with pytest.raises(CallError, match=r"there is no column data\.columns='upp'.*up"):
        series_input(table, columns="upp").prepare(tmp_path, Classes())
    (tmp_path / "other.csv").write_text("\n".join(made()).replace(",down,", ",sideways,") + "\n")
    input, classes = series_input(table, valid=str(tmp_path / "other.csv")), Classes()
    report = input.check(input.prepare(tmp_path, classes, strict=False), classes)
    assert [finding.what for finding in report.findings] == [
        "6 series with a label that training does not have, such as 'sideways'"
    ]
    assert (report.splits["train"].pairs, report.splits["train"].source.lengths[100]) == (12, 9)


def test_ones_own_series_are_scaled_as_training_was(table, tmp_path):
    input = series_input(table, test=str(table))
    trained = {
        one.input.name: one.input for part in input.prepare(tmp_path, Classes()).values() for one in part.examples(99)
    }
    input.save(tmp_path)
    again = series_input(table, test=str(table))
    again.restore(tmp_path)
    items = again.parse([str(table)])
    assert [item.name for item in items] == [f"{table}#s{number}" for number in range(12)]
    for item in items:
        np.testing.assert_array_equal(item.numbers, trained[item.name.split("#")[1]].numbers)
    with pytest.raises(CallError, match="holds 12 series"):
        again.read(table)
    with pytest.raises(CallError, match=r"pathlib\.Path"):
        again.read("table.csv")
    one = {"when": ["2024-03-01 00:00", "2024-03-01 01:00"], "up": [1.0, 2.0], "level": [500.0, 501.0]}
    assert again.read(one).numbers.shape == (2, 2)
    with pytest.raises(CallError, match=r"an array of 3 columns: the model reads 2, up, level"):
        again.read(np.zeros((9, 3)))
    examples, note = again.test()
    assert (len(examples), note) == (12, "")
    assert examples[0].texts == ("up",)


@pytest.mark.parametrize("model", ["recurrent", "transformer"])
def test_padding_changes_nothing(table, tmp_path, model):
    kinds = {
        "recurrent": RecurrentSeriesSettings(width=6, dropout=0),
        "transformer": TransformerSeriesSettings(width=8, dropout=0),
    }
    torch.manual_seed(0)
    input = series_input(table)
    input.recipe = input.recipe.model_copy(update={"model": kinds[model]})
    items = [example.input for example in input.prepare(tmp_path, Classes())["train"].examples(4)]
    encoder = input.encoder().eval()
    together = encoder(input.collate(items))
    for row, item in enumerate(items):
        alone = encoder(input.collate([item]))
        torch.testing.assert_close(together.vectors[row, : len(item.numbers)], alone.vectors[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(together.summary[row], alone.summary[0], atol=1e-5, rtol=1e-4)
        assert together.mask[row].sum() == len(item.numbers)


def test_the_axis_is_the_clock_of_the_table(table, tmp_path):
    input = series_input(table)
    item = input.prepare(tmp_path, Classes())["train"].examples(1)[0].input
    axis = input.axis(item)
    assert axis.labels[:2] == [f"{axis.labels[0]}", axis.labels[0].replace("00:00", "01:00")]
    assert axis.unit == f"hours from {axis.labels[0]}"
    assert axis.signal.shape == (2, len(item.numbers))  # two units: bands of what the model is given
    np.testing.assert_allclose(input.axis(item, 1).signal, 500 + np.arange(len(item.numbers)), rtol=1e-5)
    gone = input.without(item, {1, 3}).numbers
    mean = item.numbers.mean(0)
    np.testing.assert_allclose(gone[[1, 3]], [mean, mean])
    np.testing.assert_array_equal(gone[[0, 2, 4]], item.numbers[[0, 2, 4]])


# ------------------------------------------------------------------------------------------------------ a planted truth
def test_the_corpus_has_its_shapes_where_it_says():
    for one in shapes_of_series("test")[:50]:
        inside = one.values[one.place.start : one.place.stop, 0]
        shape = SHAPES[one.label](np.arange(len(inside)) / len(inside))
        size = shape @ inside / (shape @ shape)
        assert 1.5 < size < 3.5
        rest = one.values[:, 0].copy()
        rest[one.place.start : one.place.stop] -= size * shape
        assert 0.5 * SHAPE_NOISE < rest.std() < 1.6 * SHAPE_NOISE
    assert shape_in_series("train", 3).values.shape != shape_in_series("test", 3).values.shape
    with pytest.raises(CallError, match="no split 'dev'"):
        shapes_of_series("dev")


def looked_at(input, item, model, encoder, ask, method):
    case = ExplainTarget(
        model, lambda without: ask(input.collate([input.without(item, parts) for parts in without])),
        {"target": axis(["label"]), "source": input.axis(item)}, input.parts(item),
        vectors=input.vectors(encoder), gather=lambda products: input.gather(item, products), number=True,
    )  # fmt: skip
    return attentions(case, method)[0].weights.mean(0)[0]


class High(nn.Module):
    """Says how much of the series is high: of a noisy one with a step, nothing but the step."""

    def __init__(self):
        super().__init__()
        self.numbers = nn.Identity()

    def forward(self, source):
        return torch.relu(self.numbers(source.values)[..., 0] - 1).sum(1, keepdim=True)


@pytest.mark.parametrize("method", ["input-gradient", "leave-one-out"])
def test_what_a_known_model_heeds_is_where_the_shape_stands(tmp_path, method):
    input = series_input("corpus:shapes-of-series", time=None)
    valid = input.prepare(tmp_path, Classes())["valid"]
    one = next(one for one in valid.examples(100) if one.texts == ("step",))
    model = High()
    weights = looked_at(input, one.input, model, model, model, method)
    assert len(weights) == len(one.input.numbers)
    assert weights[one.gold.start : one.gold.stop].sum() > 0.99


@pytest.mark.slow
def test_a_classifier_learns_the_shapes_and_looks_where_they_stand(tmp_path):
    torch.manual_seed(0)
    input = series_input("corpus:shapes-of-series", time=None)
    input.recipe = input.recipe.model_copy(update={"model": RecurrentSeriesSettings(width=32, dropout=0)})
    splits = input.prepare(tmp_path, Classes())
    encoder = input.encoder()
    model = nn.Sequential(encoder, AttentionPooling(Additive(32, 32, 32), 32), nn.Linear(32, 5))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    batches = ExampleBatches(splits["train"], lambda targets: torch.tensor([int(ids[0]) - 4 for ids in targets]), 2000)
    for epoch in range(7):
        for batch in batches.epoch(epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch.source), batch.target).backward()
            optimizer.step()
    model.eval()
    right, inside = [], {"raw": [], "leave-one-out": []}
    for row, one in enumerate(splits["valid"].examples(100)):
        best = int(model(input.collate([one.input])).argmax())
        right.append(best == splits["valid"].target(row)[0] - 4)
        for method, shares in inside.items() if row < 20 else ():
            weights = looked_at(input, one.input, model, encoder, lambda x, c=best: model(x)[:, [c]], method)
            shares.append(weights[max(0, one.gold.start - 2) : one.gold.stop + 2].sum())
    assert np.mean(right) > 0.9
    assert np.mean(inside["raw"]) > 0.7
    assert np.mean(inside["leave-one-out"]) > 0.7


def test_a_row_of_the_corpus_can_be_asked_for(tmp_path):
    input = series_input("corpus:shapes-of-series", time=None)
    input.prepare(tmp_path, Classes())
    (item,) = input.parse(["corpus:shapes-of-series#7"])
    same = input.fitted.scaler.scaled(shape_in_series("test", 7).values)
    np.testing.assert_array_equal(item.numbers, same.astype(np.float32))
    with pytest.raises(CallError, match="shapes-of-series#0 to"):
        input.parse(["corpus:shapes-of-series#900"])
