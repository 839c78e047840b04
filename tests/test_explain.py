"""Why a model says what it says: parts that add up, a lens whose last row is the model, states that bring all back."""

import json
import re
import threading
from dataclasses import replace
from html import escape

import numpy as np
import pytest
import torch
from torch import nn

from regard import look
from regard.attention import HeadMask, Memory, Trace
from regard.data.batches import pad_sentences
from regard.errors import CallError
from regard.look.explain import BY, ExplainOptions
from regard.look.head_figures import head_figures
from regard.look.methods import ABOUT_OUTPUT, METHODS
from regard.look.methods.attnlrp import relevance
from regard.look.methods.inputs import input_times_gradient, integrated_gradients
from regard.look.methods.patching import patched_heads
from regard.look.methods.paths import patched_paths, unroll
from regard.look.methods.roles import places_across, places_within, shares
from regard.look.profile import head_profile, role_history
from regard.look.stream import read_stream
from regard.look.value_table import ValueTable
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.special_tokens import END
from regard.tasks.base import OutputRef
from regard.tasks.result import LookOptions
from translate_example import translator

TEXT, OTHER, SAID = "one red cat", "two red cat", "the cat sleep"
SIZES = {"width": 24, "heads": 4, "feed_forward": 32, "encoder_layers": 3, "decoder_layers": 2, "dropout": 0.1}


def made(norm="layer", norm_first=True, **settings):
    settings = TransformerSettings(kind="transformer", norm=norm, norm_first=norm_first, **{**SIZES, **settings})
    job = translator(settings, "word")
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in job.model.parameters():  # biases and norms too, so that all parts have a say
            weight.add_(0.3 * torch.randn_like(weight))
    return job


def case_of(job, text=TEXT):
    options = LookOptions(output=SAID)
    return job.output.case(job.model.eval(), text, job.output.tell(job.model, text, options)[0])


def explained(job, how, text=TEXT, against=None, instead=None, **choice):
    return job.explain(text, how, LookOptions(output=SAID, instead=instead), ExplainOptions(**choice), against)


def logits_of(job, case):
    """The model's own, of each step: T V."""
    features = []
    hook = job.model.output.register_forward_pre_hook(lambda module, args: features.append(args[0]))
    with torch.no_grad():
        case.ask([frozenset()])
    hook.remove()
    return job.model.output(features[0]).detach().reshape(len(case.axes["target"]), -1)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_parts_add_up_to_the_logit(norm, norm_first):
    job = made(norm, norm_first)
    case = case_of(job)
    logits, answers = logits_of(job, case), torch.tensor(case.stream.answers)
    own = logits.gather(1, answers[:, None]).squeeze(1).numpy()
    table = explained(job, "logits")
    assert list(table.rows) == [
        "token", "position", "decoder.0", "cross.0", "feed-forward.0", "decoder.1", "cross.1", "feed-forward.1", "bias",
        "logit",
    ]  # fmt: skip
    np.testing.assert_allclose(table.values[-1], own, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(table.values[:-1].sum(0), table.values[-1], rtol=1e-6)
    heads = explained(job, "logits", row=1)
    assert heads.columns[:5] == ["decoder 0", "decoder 1", "decoder 2", "decoder 3", "cross 0"]
    np.testing.assert_allclose(heads.values[1, :4].sum(), table.values[5, 1], rtol=1e-4, atol=1e-4)
    word = "blue"
    lead = explained(job, "logits", row=1, instead=word)
    other = job.output.tokenizer.encode(word)[0]
    assert f"exactly to {own[1] - float(logits[1, other]):.2f}" in lead.about


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_contrast_is_the_lead_over_another_word(kind):
    """log p − log p′ = z − z′: by every method that asks about the output, and the same as of the two words apart."""
    recurrent = RecurrentSettings(kind="recurrent", width=20, embedding=12)
    job = made() if kind == "transformer" else translator(recurrent, "word")
    word = "blue"
    other = job.output.choice(word)
    case = job.output.case(job.model.eval(), TEXT, OutputRef(case_target(job), SAID, instead=other))
    logits = logits_of(job, case_of(job))
    lead = logits.gather(1, torch.tensor([*case_target(job), END])[:, None])[:, 0] - logits[:, other]
    np.testing.assert_allclose(case.ask([frozenset()])[0].detach(), lead, atol=1e-4)
    np.testing.assert_allclose(case.ask_at([frozenset()] * len(lead), range(len(lead))).detach(), lead, atol=1e-4)
    table = explained(job, "inputs", instead=word, by="input-gradient")
    assert "ahead of 'blue'" in table.title
    own, theirs = (input_times_gradient(one).parts for one in (case_of(job), said_instead(job, other)))
    np.testing.assert_allclose(table.values[:, :-1], own - theirs, atol=1e-5)
    for method in METHODS:
        options = LookOptions(output=SAID, method=method, instead=word)
        if method in ABOUT_OUTPUT and not (method == "attnlrp" and kind == "recurrent"):
            record = job.look(TEXT, options)
            assert record.method.endswith(", and not 'blue'")
            np.testing.assert_allclose(record.scores, case_of(job).ask([frozenset()])[0].detach(), atol=1e-5)
        else:
            with pytest.raises(CallError, match=r"instead|has others"):
                job.look(TEXT, options)
    patched = explained(job, "patching", against=OTHER, instead=word, row=1, by="positions")
    assert "ahead of 'blue'" in patched.about
    assert np.abs(patched.values - explained(job, "patching", against=OTHER, row=1, by="positions").values).max() > 1e-3


def case_target(job):
    return job.output.tokenizer.encode(SAID)


def said_instead(job, other):
    """The case of the other word, in every place."""
    case = case_of(job)
    tokens = torch.tensor([[*case_target(job), END]])

    def ask(without):
        features = job.model.features(
            job.model.encode(job.input.collate([job.input.read(TEXT)] * len(without))), tokens.expand(len(without), -1)
        )
        return job.model.logits(features).log_softmax(-1)[..., other]

    return replace(case, ask=ask, ask_at=None)


def test_a_head_that_is_silent_adds_nothing():
    job = made()
    with HeadMask({job.model.decoder.layers[1].cross: [2]}):
        table = explained(job, "logits", row=0)
    column = table.columns.index("cross 2")
    assert table.values[1, column] == 0
    assert abs(table.values[0, column]) > 1e-3


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_last_row_of_the_lens_is_what_the_model_says(norm_first):
    job = made(norm_first=norm_first)
    case = case_of(job)
    truth = logits_of(job, case).softmax(-1)
    table = explained(job, "lens")
    assert list(table.rows) == ["embedding", "layer 0", "layer 1"]
    probability, best = truth.max(1)
    words = zip(job.output.tokenizer.labels(best.tolist()), probability.tolist(), strict=True)
    assert list(table.words[-1]) == [f"{word} {p:.2f}" for word, p in words]
    np.testing.assert_allclose(np.log(table.values[-1]), case.ask([frozenset()])[0].detach().numpy(), atol=1e-4)
    first = job.model.output(job.model.decoder.norm(read_stream(case, case.stream).states[0])).softmax(-1)
    np.testing.assert_allclose(table.values[0], first[range(len(first)), case.stream.answers].detach(), rtol=1e-4)


def test_the_memory_of_all_positions_brings_everything_back():
    """One head of one layer: then its state is all that the decoder gets from the source."""
    job = made(heads=1, decoder_layers=1, encoder_layers=1)
    clean, other = case_of(job), case_of(job, OTHER)
    heads = patched_heads(clean, other, "cross", None).values
    np.testing.assert_allclose(heads, [[1.0]], atol=1e-3)
    table = explained(job, "patching", against=OTHER, by="positions")
    assert list(table.rows) == ["embedding", "layer 0", "memory", "all"]
    np.testing.assert_allclose(table.values[:, -1], 1.0, atol=1e-3)
    places = table.values[:, :-1]
    changed = [one != two for one, two in zip(clean.axes["source"].labels, other.axes["source"].labels, strict=True)]
    assert np.abs(places[0][~np.array(changed)]).max() < 1e-3  # the same token: its embedding is no news
    np.testing.assert_allclose(places[1], places[2], atol=1e-3)  # between the last layer and the memory is a norm only


def test_a_path_is_what_one_head_adds_to_what_another_reads():
    """Against the equation, written out for an encoder of two layers."""
    job = made(encoder_layers=2, heads=3)
    clean, other = case_of(job), case_of(job, OTHER)
    encoder, (first, second) = job.model.encoder, job.model.encoder.layers
    heads, target = {}, pad_sentences([job.output.tokenizer.encode(SAID)])

    def memory_of(text, told=None, receiver=None):
        """Of the second layer, only `receiver` reads what was told."""
        ids = job.input.collate([job.input.read(text)])
        memory, x = job.model.encode(ids), first(encoder.embedding(ids))
        plain = head_outputs(second.attention, second.attention_norm(x))
        changed = plain if told is None else head_outputs(second.attention, second.attention_norm(x + told))
        chosen = torch.stack([changed[h] if h == receiver else plain[h] for h in range(3)]).sum(0)
        y = x + chosen + second.attention.out.bias
        y = y + second.feed_forward(second.feed_forward_norm(y))
        return replace(memory, vectors=encoder.norm(y))

    def head_outputs(attention, x):
        """What each head adds to the stream: H 1 T D."""
        kept = []
        hook = attention.out.register_forward_pre_hook(lambda module, args: kept.append(args[0]))
        attention(x)
        hook.remove()
        maps = attention.out.weight.T.unflatten(0, (3, -1))
        return [kept[0].unflatten(-1, (3, -1))[..., h, :] @ maps[h] for h in range(3)]

    def score(memory):
        features = job.model.features(memory, target)
        return float(job.model.logits(features).log_softmax(-1).gather(2, target.unsqueeze(2)).sum())

    with torch.no_grad():
        for text in (TEXT, OTHER):
            ids = job.input.collate([job.input.read(text)])
            heads[text] = head_outputs(first.attention, first.attention_norm(encoder.embedding(ids)))
        top, bottom = score(memory_of(TEXT)), score(memory_of(OTHER))
        assert top == pytest.approx(float(clean.ask([frozenset()]).sum()), abs=1e-4)
        expected = [
            [(score(memory_of(OTHER, heads[TEXT][h] - heads[OTHER][h], g)) - bottom) / (top - bottom) for g in range(3)]
            for h in range(3)
        ]
    _, names, values = patched_paths(clean, other, "encoder", None)
    assert names[:4] == ["encoder.0.0", "encoder.0.1", "encoder.0.2", "encoder.1.0"]
    np.testing.assert_allclose(values[:3, 3:], expected, atol=1e-3)
    assert np.abs(expected).max() > 1e-2
    assert not values[3:].any()
    assert not values[:, :3].any()
    assert explained(job, "patching", against=OTHER, by="paths").values.shape == (6, 6)
    written = explained(made(decoder_layers=1), "patching", against=OTHER, kind="decoder", by="heads")
    assert not written.values.any()  # the first to look at what was written, which is the same by both
    assert written.about.endswith("none of this makes a difference here.")


def test_patching_of_a_recurrent_model_goes_by_its_memory():
    job = translator(
        RecurrentSettings(kind="recurrent", width=20, embedding=12, score="additive", query="previous"), "word"
    )
    table = explained(job, "patching", against=OTHER, by="positions")
    assert list(table.rows) == ["memory"]
    assert any("|" in column for column in table.columns)
    assert np.abs(table.values).max() > 1e-3


def recurrent(**settings):
    settings = {"kind": "recurrent", "width": 20, "embedding": 12, "query": "current"} | settings
    return translator(RecurrentSettings(**settings), "word")


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_recurrent_state_is_carried_over_and_all_that_follows_runs_on(cell):
    """By hand: torch's own layer, up to the state and on from it."""
    job = recurrent(cell=cell)
    clean, other = case_of(job), case_of(job, OTHER)
    encoder, place = job.model.encoder, 1
    x, y = (encoder.embedding(job.input.collate([job.input.read(text)])) for text in (TEXT, OTHER))
    ahead, back, S = encoder.ahead[0], encoder.back[0], x.shape[1]
    with torch.no_grad():
        _, own = ahead(x[:, : place + 1])
        rest, _ = ahead(y[:, place + 1 :], own)
        state = (own[0] if cell == "lstm" else own).transpose(0, 1)
        states = torch.cat([ahead(y[:, :place])[0], state, rest], dim=1)
        turned = back(y.flip(1))[0].flip(1)
        last = torch.cat([states[:, -1], turned[:, 0]], dim=1)
        memory = Memory(torch.cat([states, turned], dim=2), torch.ones(1, S, dtype=torch.bool), last)
        target = pad_sentences([case_target(job)])
        logits = job.model.logits(job.model.features(memory, target)).log_softmax(-1)
        patched = float(logits.gather(2, target.unsqueeze(2)).sum())
        top, bottom = (float(case.ask([frozenset()]).sum()) for case in (clean, other))
    table = explained(job, "patching", against=OTHER, by="states", kind="encoder")
    assert list(table.rows) == ["encoder.ahead.0 →", "encoder.back.0 ←", "all"]
    assert list(table.columns) == ["one | two", "red", "cat", "</s>", "all"]
    assert table.values[0, place] == pytest.approx((patched - bottom) / (top - bottom), abs=1e-4)
    assert abs(table.values[0, place]) > 1e-3
    np.testing.assert_allclose(table.values[1, 1:-1], 0.0, atol=1e-4)  # backwards, these come before the word
    assert abs(table.values[1, 0]) > 1e-3


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_first_state_of_a_decoder_without_attention_brings_all_back(cell):
    job = recurrent(cell=cell, context="initial", query="previous", decoder_layers=1)
    table = explained(job, "patching", against=OTHER, by="states", kind="decoder")
    assert list(table.columns) == ["<s>", "the", "cat", "sleep", "all"]
    assert table.values[0, 0] == pytest.approx(1.0, abs=1e-4)
    assert table.values[0, -2] != pytest.approx(1.0, abs=1e-2)
    deep = recurrent(cell=cell, decoder_layers=2, encoder_layers=2, query="previous")
    assert explained(deep, "patching", against=OTHER, kind="decoder").values.shape == (3, 5)  # states, if no heads
    assert explained(deep, "patching", against=OTHER, row=1, instead="blue").values.shape == (5, 5)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_layers_cell_by_cell_are_those_of_torch(kind):
    torch.manual_seed(0)
    module, x = kind(5, 7, 2, batch_first=True, bidirectional=True), torch.randn(3, 4, 5)
    begin = torch.randn(4, 3, 7)
    for state in (None, (begin, -begin) if kind is nn.LSTM else begin):
        found, expected = unroll(module, x, state, 0, lambda step, one: one), module(x, state)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("how", "choice", "said"),
    [
        ("lenz", {}, "explain='lenz' is not known.*lens"),
        ("patching", {}, "needs a second input"),
        ("lens", {"against": OTHER}, "other explanations take none"),
        ("logits", {"row": 99}, "row=99 is not one of 0 to"),
        ("logits", {"instead": "blue"}, "needs one step of the output: give row="),
        ("logits", {"instead": "☃", "row": 0}, "not in the vocabulary"),
        ("patching", {"instead": "blue", "against": OTHER}, "needs one step of the output: give row="),
        ("lens", {"instead": "blue"}, "explain='lens' has no contrast word"),
        ("inputs", {"by": "heads"}, "supports integrated-gradients or attnlrp or input-gradient"),
        ("patching", {"against": TEXT}, "both inputs give this answer the same score"),
        ("patching", {"against": "the red cat sees dogs", "kind": "encoder"}, "same length"),
        ("patching", {"against": OTHER, "kind": "x"}, "kind='x' must be one of cross"),
        (
            "patching",
            {"against": OTHER, "by": "keys"},
            "by='keys': explain='patching' supports heads or positions or states or paths",
        ),
        ("patching", {"against": "the red cat sees dogs", "by": "paths", "kind": "encoder"}, "same length"),
        ("patching", {"against": OTHER, "by": "states"}, "no recurrent layer reads this input"),
        ("patching", {"against": OTHER, "by": "paths", "kind": "cross"}, "by='paths' needs self-attention"),
        ("lens", {"by": "keys"}, "by='keys': explain='lens' supports none"),
        ("scores", {"row": 1, "layer": 0}, "one query of one head"),
        ("scores", {"row": 1, "layer": 2, "head": 0}, "layer=2 is not one of 0 to 1"),
        ("scores", {"row": 1, "layer": 1, "head": 4}, "head=4 is not one of 0 to 3"),
    ],
)
def test_what_cannot_be_asked_is_said(how, choice, said):
    with pytest.raises(CallError, match=said):
        explained(made(), how, **choice)


def test_a_recurrent_decoder_has_no_layers_to_read():
    job = translator(RecurrentSettings(kind="recurrent", width=20, embedding=12), "word")
    for how in ("lens", "logits"):
        with pytest.raises(CallError, match="needs a Transformer that generates text"):
            explained(job, how)
    with pytest.raises(CallError, match="and this model has others"):
        explained(job, "inputs", by="attnlrp")
    with pytest.raises(CallError, match="no attention with heads"):
        explained(job, "patching", against=OTHER, by="heads")
    with pytest.raises(CallError, match="6 steps in the second input and 4 in the first"):
        explained(job, "patching", against="the red cat sees dogs", kind="encoder")


def test_a_table_is_drawn_everywhere_and_its_words_stay_words(tmp_path, capsys):
    hostile = "<script>alert(1)</script>"
    names, columns = [hostile, "b\x1b[2J"], ["x", "[red]$^"]
    table = ValueTable(np.array([[0.5, -1.0], [0.0, 2.0]]), names, columns, "title \u202e", "about")
    for suffix in ("png", "svg", "pdf", "html"):
        assert table.save(tmp_path / f"x.{suffix}").stat().st_size > 1000
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert "&lt;script&gt;" in page
    assert page.count("<td style=") == 4
    assert hostile not in table._repr_html_()
    assert table._repr_html_().count("<td style=") == 4
    table.show()
    drawn = capsys.readouterr().out
    assert "[red]$^" in drawn
    assert "b␛[2J" in drawn  # a terminal shows it, and does not obey
    assert not {"\x1b[2J", "\u202e"} & {drawn[at : at + size] for at in range(len(drawn)) for size in (1, 4)}
    assert json.loads(json.dumps(table.as_dict()))["values"] == [[0.5, -1.0], [0.0, 2.0]]
    small = ValueTable(np.array([[3e-3, -4e-5]]), ["a"], ["x", "y"], "title", "about")
    assert all(number in small._repr_html_() for number in ("+0.0030", "-0.0000"))
    with pytest.raises(CallError, match="a table of values can be saved as"):
        table.save(tmp_path / "x.npz")
    with pytest.raises(CallError, match="not finite"):
        ValueTable(np.array([[np.nan]]), ["a"], ["b"], "title", "about")


TABLES = {
    "lens": ("lens", {}),
    "logits": ("logits", {}),
    "logits of one word": ("logits", {"row": 1, "instead": "blue"}),
    "scores": ("scores", {"row": 1, "layer": 1, "head": 0}),
    **{f"inputs by {by}": ("inputs", {"by": by}) for by in BY["inputs"]},
    **{f"patching by {by}": ("patching", {"by": by, "against": OTHER}) for by in BY["patching"]},
    "profile": ("profile", {}),
    "weight": ("weight", {}),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_explanation_is_drawn_in_every_place(name, tmp_path, capsys):
    """In the terminal, as a picture, as a page, in a notebook, and as numbers for whoever asks over HTTP."""
    how, choice = TABLES[name]
    job = recurrent() if choice.get("by") == "states" else made(encoder_layers=2)
    made_of = {
        "profile": lambda: head_profile([case_of(job)]),
        "weight": lambda: job.weight(TEXT, LookOptions(output=SAID), 1, 2, tokens=True).table(),
    }
    table = made_of.get(how, lambda: explained(job, how, **choice))()
    assert np.abs(table.values).max() > 0
    table.show()
    drawn, page = capsys.readouterr().out, table.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert table.save(tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
    notebook, numbers = table._repr_html_(), json.loads(json.dumps(table.as_dict(), allow_nan=False))
    assert numbers["values"] == table.values.tolist()
    for label in (*table.rows, *table.columns):
        assert label.split()[0] in drawn
        assert escape(label) in page
        assert escape(label) in notebook
    left = {"b", "div", "table", "td", "tr"}  # by nbconvert's sanitize_html; other tags become text
    assert set(re.findall(r"<(\w+)", notebook)) <= left


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_drawn_in_every_place(method, tmp_path, capsys):
    record = made(encoder_layers=2).look(TEXT, LookOptions(output=SAID, method=method))
    look.show(record)
    assert f"Method: {method}" in " ".join(capsys.readouterr().out.split())
    page = look.save(record, tmp_path / "x.html").read_text(encoding="utf-8")
    svg = look.save(record, tmp_path / "x.svg").read_text(encoding="utf-8")
    for shown in (page, svg, look.widget(record)._repr_mimebundle_()["text/html"]):
        assert method in shown


def test_roles_are_found_where_they_were_put():
    """Heads made by hand, on a text that repeats itself."""
    axis = look.axis(["<s>", "a", "b", "c", "a", "b"])
    K = len(axis)
    seen = np.tril(np.ones((K, K), bool))
    by_hand = {
        "previous": [0, 0, 1, 2, 3, 4],
        "itself": [0, 1, 2, 3, 4, 5],
        "first": [0, 0, 0, 0, 0, 0],
        "induction": [0, 0, 0, 0, 2, 3],  # after the a and the b of before
        "same token": [0, 0, 0, 0, 1, 2],
    }
    weights = np.zeros((len(by_hand), K, K))
    for head, columns in enumerate(by_hand.values()):
        weights[head, range(K), columns] = 1.0
    places = places_within(axis, causal=True)
    assert {"next", "last"} & places.keys() == set()
    for head, role in enumerate(by_hand):
        mass, chance, rows = shares(weights, places[role], seen)
        assert mass[head] == rows > chance
        assert rows == {"induction": 2, "same token": 2, "previous": 5}.get(role, K)
    _, chance, rows = shares(weights, places["first"], seen)
    assert chance / rows == pytest.approx(np.mean([1 / n for n in range(1, K + 1)]))


@pytest.mark.parametrize("by", ["position", "content"])
def test_a_head_is_positional_if_its_pattern_stays_when_contents_are_shuffled(by):
    """Of a model that is told positions only, all patterns stay; of one that is told words only, all go with them."""
    job = made(positions="learned", encoder_layers=2)
    with torch.no_grad():
        embedding = job.model.encoder.embedding
        (embedding.table.weight if by == "position" else embedding.positions.table).zero_()
    table = head_profile([case_of(job, "two blue dogs sleep"), case_of(job, "the cat sees three dogs")])
    column = table.columns.index("positional")
    told = [
        row[column].strip(")").split(" (") for row, name in zip(table.words, table.rows, strict=True) if "enc" in name
    ]
    stays, baseline = np.array(told, float).T
    assert len(stays) == 8
    if by == "position":
        np.testing.assert_allclose(stays, 1.0, atol=0.01)
        assert (baseline < 0.9).all()
    else:
        np.testing.assert_allclose(stays, baseline, atol=0.011)
        assert (baseline < 0.9).any()


def test_places_across_know_both_sides():
    rows, columns = look.axis(["la", "cat", "</s>"]), look.axis(["the", "Cat", "x", "y", "z", "</s>"])
    places = places_across(rows, columns)
    assert np.argwhere(places["copying"]).tolist() == [[1, 1]]
    assert places["special"].sum() == 3
    assert places["diagonal"][0, 0]
    assert places["diagonal"][2, 5]
    assert not places["diagonal"][0, 5]


def test_a_head_looks_at_the_picture_or_at_the_words_beside_it():
    """Regions of a picture have no order, so none of them is first, and nothing goes along them."""
    regions, question = look.axis(grid=(2, 2)), look.axis(["what", "color", "</s>"])
    columns = replace(regions, tokens=(*regions.tokens, *question.tokens), after=3)
    picture, words = np.zeros((2, 1, 7), np.float32)
    picture[0, :4], words[0, 4:6] = 0.25, 0.5
    record = look.record(np.stack([picture, words]), ["red"], columns)
    found = head_figures(record, record.attentions[0])
    assert [one.role for one in found] == ["regions", "words"]
    assert found[1].above_chance == pytest.approx(1 - 2 / 7)
    assert set(places_across(look.axis(["red"]), columns)) == {"copying", "special", "regions", "words"}


def test_the_profile_says_what_is_lost_without_a_head():
    job = made(encoder_layers=1, heads=3)
    cases = [case_of(job), case_of(job, OTHER)]
    table = head_profile(cases)
    assert len(table.rows) == 3 * (1 + 2 + 2)
    assert table.columns[-1] == "loss without it"
    whole = sum(case.ask([frozenset()]).sum().item() for case in cases)
    with HeadMask({job.model.decoder.layers[1].cross: [2]}):
        without = sum(case.ask([frozenset()]).sum().item() for case in cases)
    row = next(number for number, name in enumerate(table.rows) if name.startswith("cross.1.2"))
    assert table.values[row, -1] == pytest.approx((whole - without) / abs(whole), rel=1e-4)


def test_when_a_head_took_its_role():
    """Made by hand: a head that looks anywhere at first, and at what came after the same token before in the end."""
    axis = look.axis(["a", "b", "c", "d", "a", "b", "c", "d"])
    even = np.tril(np.ones((8, 8))) / np.arange(1, 9)[:, None]
    sharp = even.copy()
    sharp[4:] = np.eye(8)[1:5]
    records = []
    for share in (0.0, 0.1, 0.9):
        weights = np.stack([even, share * sharp + (1 - share) * even])
        one = look.Attention("x", "decoder", 0, weights, "read", "read")
        records.append(look.AttentionRecord((one,), {"read": axis, "target": axis}))
    table = role_history([look.History((10, 20, 30), tuple(records))])
    assert table.columns == ["10", "20", "30"]
    assert table.rows[1] == "decoder.0.1 induction, from step 30"
    assert table.rows[0].startswith("decoder.0.0 no role")
    shown = (0.0, 0.3, 0.6)
    kept = [replace(one, positional={"decoder.0.0": share}) for one, share in zip(records, shown, strict=True)]
    by_place = role_history([look.History((10, 20, 30), tuple(kept))])
    assert by_place.rows[0] == "decoder.0.0 positional, from step 20"
    np.testing.assert_allclose(by_place.values[0], shown)
    copied = np.stack([even, np.eye(8)[[0, 0, 0, 1, 1, 2, 2, 3]]])  # where the token stands that is said next
    one = look.Attention("x", "decoder", 0, copied, "target", "read")
    axes = {"read": look.axis(list("pqrstuvw")), "target": look.axis(list("xppqqrrs"))}
    table_of_copies = role_history([look.History((10, 20), (look.AttentionRecord((one,), axes),) * 2)])
    assert table_of_copies.rows[1] == "decoder.0.1 copying, from step 10"
    chance = np.mean([1 / n for n in (5, 6, 7, 8)])
    np.testing.assert_allclose(table.values[1], [share * (1 - chance) for share in (0.0, 0.1, 0.9)], atol=1e-6)


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_integrated_gradients_add_up_and_are_those_of_captum(kind):
    recurrent = RecurrentSettings(kind="recurrent", width=20, embedding=12, score="additive")
    job = made() if kind == "transformer" else translator(recurrent, "word")
    case = case_of(job)
    found = integrated_gradients(case, pieces=48)
    table = job.model.encoder.embedding.table
    with torch.no_grad():
        whole = case.ask([frozenset()])[0]
        hook = table.register_forward_hook(lambda module, args, output: torch.zeros_like(output))
        nothing = case.ask([frozenset()])[0]
        hook.remove()
    np.testing.assert_allclose(found.parts.sum(1) + found.rest, (whole - nothing).numpy(), rtol=0.05, atol=0.05)
    coarse = integrated_gradients(case, pieces=2)
    assert float(found.about.split("%")[0]) < min(10, float(coarse.about.split("%")[0]))
    assert explained(job, "inputs", row=-1).values.shape == (1, len(case.parts) + 1)
    captum = pytest.importorskip("captum.attr", reason="pip install 'regard[dev]'")
    ids = job.input.collate([job.input.read(TEXT)])
    target = pad_sentences([job.output.tokenizer.encode(SAID)])

    def last_step(vectors: torch.Tensor) -> torch.Tensor:
        hook = table.register_forward_hook(lambda module, args, output: vectors)
        try:
            return job.model.score(ids.expand(len(vectors), -1), target.expand(len(vectors), -1))[:, -1]
        finally:
            hook.remove()

    theirs = captum.IntegratedGradients(last_step).attribute(table(ids).detach(), n_steps=48, method="riemann_middle")
    np.testing.assert_allclose(found.parts[-1], theirs.sum(-1)[0, list(case.parts)].numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"norm": "rms", "positions": "rotary"},
        {"positions": "relative", "activation": "gelu"},
        {"score": "additive"},
    ],
)
def test_relevance_is_conserved(how, norm_first):
    """What arrives at the input, at biases, at softmax and at what was written adds up to the logits."""
    job = made(**{"norm_first": norm_first, **how})
    case = case_of(job)
    shares = relevance(case).shares
    logits = logits_of(job, case).gather(1, torch.tensor(case.stream.answers)[:, None])
    assert sum(shares.values()) == pytest.approx(float(logits.sum()), abs=1e-4 * sum(map(abs, shares.values())))
    assert all(abs(share) > 1e-3 for share in shares.values())
    table = explained(job, "inputs", by="attnlrp")
    np.testing.assert_allclose(table.values.sum(1), logits[:, 0], atol=1e-4)
    record = job.look(TEXT, LookOptions(output=SAID, method="attnlrp"))
    figures = {one.name: one.value for one in look.card(record.matrix(), record)}
    whole, *arrived, lost = [
        value for name, value in figures.items() if name.startswith(("sum of the logits", "of them"))
    ]
    assert [whole, sum(arrived) + lost] == pytest.approx([float(logits.sum())] * 2, abs=1e-3)
    assert abs(lost) < 1e-4 * sum(map(abs, arrived))
    assert all(weight.requires_grad for weight in job.model.parameters())


@pytest.mark.parametrize("by", ["keys", "queries"])
@pytest.mark.parametrize(
    "how",
    [
        {"positions": "sinusoidal"}, {"norm_first": False, "kv_heads": 2}, {"norm": "rms", "positions": "rotary"},
        {"positions": "relative"}, {"score": "bilinear"},
    ],
)  # fmt: skip
def test_scores_are_the_sum_of_their_parts(how, by):
    """A softmax over the last row is the row of weights that a trace sees."""
    job = made(**how)
    with torch.no_grad(), Trace(job.model) as seen:
        case_of(job).ask([frozenset()])
    for layer in (0, 1):
        table = explained(job, "scores", layer=layer, head=3, row=2, by=by)
        np.testing.assert_allclose(table.values[:-1].sum(0), table.values[-1], atol=1e-9)
        weights = torch.tensor(table.values[-1]).softmax(-1)
        np.testing.assert_allclose(weights, seen[f"decoder.layers.{layer}.attention"][0, 3, 2, :3], atol=1e-4)
    assert ("position" in table.rows) == (how.get("positions", "sinusoidal") == "sinusoidal")
    assert ("distance" in table.rows) == (how.get("positions") == "relative")


def test_scores_that_are_not_linear_are_not_taken_apart():
    with pytest.raises(CallError, match="dot, scaled_dot or bilinear"):
        explained(made(score="cosine"), "scores", layer=0, head=0, row=0)


@pytest.mark.parametrize(
    ("how", "choice"),
    [
        ("lens", {}), ("logits", {}), ("scores", {"kind": "cross", "layer": 1, "head": 1, "row": 1}),
        ("inputs", {"by": "attnlrp"}), ("inputs", {"by": "input-gradient"}), ("patching", {"by": "heads"}),
        ("patching", {"by": "positions"}), ("patching", {"by": "paths", "layer": 1, "head": 1}),
        ("patching", {"by": "states"}),
    ],
)  # fmt: skip
def test_who_asks_in_another_thread_neither_sees_nor_feels_an_explanation(how, choice):
    """A service lets others in between two steps: they get what they would get alone, and so does who explains."""
    states = choice.get("by") == "states"
    job = translator(RecurrentSettings(kind="recurrent", width=20, embedding=12), "word") if states else made()
    choice |= {"against": OTHER} if how == "patching" else {}
    alone, predicted = explained(job, how, **choice), list(job.predict([TEXT]))
    asking, others = threading.get_ident(), []

    def visit(*_):
        if threading.get_ident() == asking and len(others) < 4:
            visitor = threading.Thread(
                target=lambda: others.append((explained(job, how, **choice), list(job.predict([TEXT]))))
            )
            visitor.start()
            visitor.join()

    hook = job.model.output.register_forward_pre_hook(visit)
    together = explained(job, how, **choice)
    hook.remove()
    assert len(others) > 0
    for table in (together, *(table for table, _ in others)):
        np.testing.assert_allclose(table.values, alone.values, rtol=1e-5, atol=1e-6)
    assert all(said == predicted for _, said in others)
