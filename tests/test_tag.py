"""A tag a word: files, spans, pieces, models and looks, from the user's file to tags."""

import json

import numpy as np
import pytest
import torch
import yaml
from click.testing import CliRunner

import regard
from look_methods import REFUSED, asked_of_the_model
from regard import config
from regard.cli import cli
from regard.corpora import load
from regard.data.conll import read_conll
from regard.data.examples import ExampleBatch
from regard.data.files import PairSource
from regard.data.pairs import Columns, Pair, SkippedLine
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.text.word_pieces import Pieces
from regard.inputs.text.words import WordsInput
from regard.job import make_job
from regard.look.methods import METHODS
from regard.metrics.classes import TagSpan, marks_spans, span_scores, spans, violations
from regard.models.classifier import Tagger, WordBatch
from regard.tasks.tags.answers import Tagged
from regard.tasks.tags.output import TagsOutput
from regard.tasks.tags.settings import TagDataSettings

TAGS = Columns({"words": None, "tags": None}, one_to_one=True)


# ------------------------------------------------------------------------------------------------------------- spans
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A I-A O B-B B-B", [("A", 0, 2), ("B", 3, 4), ("B", 4, 5)]),
        ("I-A I-A I-B O", [("A", 0, 2), ("B", 2, 3)]),  # nothing was begun: it begins all the same
        ("S-A B-A I-A E-A E-A O", [("A", 0, 1), ("A", 1, 4), ("A", 4, 5)]),
        ("B-A E-A I-A", [("A", 0, 2), ("A", 2, 3)]),
        ("O O", []),
    ],
)
def test_spans_are_those_of_conlleval(tags, expected):
    assert spans(tags.split()) == [TagSpan(*one) for one in expected]


def test_scores_of_spans_by_hand():
    right, said = [["B-A", "I-A", "O", "B-B"]], [["B-A", "O", "O", "B-B"]]
    total, a, b = span_scores(right, said)
    assert (total["precision"], total["recall"], total["f1"]) == (50, 50, 50)  # of two spans each, one is the same
    assert (a["label"], a["f1"], b["label"], b["f1"]) == ("A", 0, "B", 100)
    assert marks_spans(["O", "B-A", "I-A"])
    assert not marks_spans(["NOUN", "VERB"])
    assert not marks_spans(["I", "O", "B"])
    assert list(violations(["O", "I-A", "B-A", "I-B", "E-B", "S-A", "E-A"])) == [1, 3, 6]


def test_scores_of_spans_agree_with_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics", reason="needs seqeval: pip install seqeval")
    chance = np.random.default_rng(0)
    tags = ["O", "B-A", "I-A", "B-B", "I-B"]
    right, said = ([[tags[n] for n in chance.integers(0, 5, 9)] for _ in range(40)] for _ in range(2))
    assert span_scores(right, said)[0]["f1"] == pytest.approx(100 * seqeval.f1_score(right, said))


# ------------------------------------------------------------------------------------------------------------- files
CONLL = """-DOCSTART- -X- O

EU NNP B-ORG
rejects VBZ O

Peter\tNNP\tB-PER
alone

Blackburn NNP I-PER
"""


def test_a_word_a_line(tmp_path):
    file = tmp_path / "a.conll"
    file.write_text(CONLL)
    one, bad, last = read_conll(file, TAGS)
    assert isinstance(one, Pair)
    assert isinstance(last, Pair)
    assert (one.source, one.target, one.line) == ("EU rejects", "B-ORG O", 3)
    assert isinstance(bad, SkippedLine)
    assert (bad.line, bad.lines, bad.kind) == (7, 2, "columns")
    assert (last.source, last.target) == ("Blackburn", "I-PER")
    first, *_ = read_conll(file, Columns({"words": None, "tags": None}, conll=(0, 1)))
    assert isinstance(first, Pair)
    assert first.target == "NNP VBZ"


TREEBANK = """# sent_id = 1
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tvamos\tir\tVERB\tVB\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tyo\tPRON\tPP\tCase=Acc\t1\tobj\t_\tSpaceAfter=No
2.1\tir\tir\tVERB\t_\t_\t_\t_\t_\t_
3\t10 000\t10 000\tNUM\tCD\t_\t1\tobl\t_\t_

"""


@pytest.mark.parametrize(
    ("column", "tags"),
    [
        (None, "VERB PRON NUM"), ("xpos", "VB PP CD"), ("DEPREL", "root obj obl"), (4, "VB PP CD"),
        ("feats", "Mood=Imp|Number=Plur Case=Acc _"), ("Case", "_ Acc _"), ("SpaceAfter", "_ No _"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["train.conllu", "train.txt", "train"])
def test_columns_and_features_of_a_treebank(tmp_path, name, column, tags):
    file = tmp_path / name
    file.write_text(TREEBANK * 3)
    settings = TagDataSettings.model_validate({"train": str(file), "tag_column": column})
    pairs = list(PairSource.by_role(settings)["train"].read())
    assert [(pair.source, pair.target) for pair in pairs] == [("vamos nos 10_000", tags)] * 3


def test_a_column_that_a_treebank_lacks_is_refused(tmp_path):
    file = tmp_path / "train.conllu"
    file.write_text(TREEBANK)
    for column, says in (("xposs", "did you mean 'xpos'"), ("Tense", "no such column or feature")):
        with pytest.raises(CallError, match=says):
            list(read_conll(file, Columns({"words": None, "tags": None}, conll=(None, column))))


def test_conllu_leaves_out_comments_and_joined_words(tmp_path):
    file = tmp_path / "a.conllu"
    rows = ["# text = vámonos al mar", "1-2\tvámonos\t_\t_", "1\tvamos\tir\tVERB", "2\tnos\tnosotros\tPRON"]
    file.write_text("\n".join([*rows, "2.1\tx\tx\tX", "3\tmar\tmar\tNOUN"]) + "\n")
    (pair,) = read_conll(file, TAGS)
    assert isinstance(pair, Pair)
    assert (pair.source, pair.target) == ("vamos nos mar", "VERB PRON NOUN")


def test_the_corpus_has_a_tag_for_each_word_and_no_sentence_twice():
    splits = {split: load("pocket-phrases", split) for split in ("train", "valid", "test")}
    for pairs in splits.values():
        assert all(len(pair.source.split()) == len(pair.target.split()) for pair in pairs)
        assert not any(list(violations(pair.target.split())) for pair in pairs)
    sources = [{pair.source for pair in pairs} for pairs in splits.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 7500
    shown = splits["test"][7]
    assert (shown.source, shown.target) == (
        "The woman bought the table and the man painted it .",
        "B-PER I-PER O B-THING I-THING O B-PER I-PER O B-THING O",
    )
    them = [t for p in splits["train"] for w, t in zip(p.source.split(), p.target.split(), strict=True) if w == "them"]
    assert set(them) == {"B-PER", "B-THING"}  # only what was said before can tell


def test_the_check_finds_what_is_wrong_with_tags(tmp_path):
    train = [f"word{i} runs\tB-X O" for i in range(30)] + ["one two\tO", "a b\tO I-X"]
    (tmp_path / "train.tsv").write_text("\n".join(train) + "\n")
    (tmp_path / "test.tsv").write_text("new word\tB-Y O\n")
    report = job(train=str(tmp_path / "train.tsv"), valid=str(tmp_path / "test.tsv")).check(tmp_path / "cache")
    said = {(finding.severity, finding.split, tuple(finding.lines)): finding.what for finding in report.findings}
    assert "2 words but 1 tags" in said["error", "train", (31,)]
    assert "I-X after O" in said["warning", "train", (32,)]
    assert "'B-Y' (1)" in said["warning", "valid", (1,)]
    assert {row["class"]: row["train"] for row in report.tables["words of each class"]} == {
        "B-X": 30,
        "I-X": 1,
        "O": 31,
    }


# ------------------------------------------------------------------------------------------------------------ pieces
@pytest.mark.parametrize("kind", ["word", "space", "character", "byte", "bpe", "unigram"])
def test_every_word_has_one_first_piece(kind):
    texts = ["the U.S. cat's mat ,", "an-other x\u00ad ünï $5.20 !"] * 8
    tokenizer = Tokenizer.train(texts, kind, size=60)
    writer = Pieces(tokenizer)
    for text, ids in zip(texts, writer.encode_batch(texts), strict=True):
        pieces = writer.cut(text.split())
        assert sum(index < tokenizer.size for index in ids) == len(text.split())
        assert [index % tokenizer.size for index in ids] == [piece.id for piece in pieces]
        for piece in pieces:  # each lies in its own word
            before = " ".join(text.split()[: piece.word])
            assert len(before) <= piece.start <= piece.end <= len(before) + 1 + len(text.split()[piece.word])


def test_a_tagger_reads_the_vector_of_the_first_piece_of_each_word():
    class Echo(torch.nn.Module):
        def forward(self, tokens):
            from regard.attention import Memory

            vectors = torch.nn.functional.one_hot(tokens, 10).float()
            return Memory(vectors, tokens != 0, vectors[:, 0])

    model = Tagger(Echo(), 10, 3)
    words = WordBatch(torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([[0, 2], [0, 0]]))
    logits = model.logits(words)
    weight, bias = model.output.weight, model.output.bias
    torch.testing.assert_close(logits[0], weight[:, [4, 6]].T + bias)
    batch = ExampleBatch(words, torch.tensor([[2, 0], [1, -1]]))  # the second text has one word
    loss = model.eval()(batch)
    chance = logits.log_softmax(-1)
    torch.testing.assert_close(loss.total, -(chance[0, 0, 2] + chance[0, 1, 0] + chance[1, 0, 1]))
    assert int(loss.count) == 3


# --------------------------------------------------------------------------------------------------------------- job
NOUNS, VERBS = ["dog", "cat", "bird", "fish"], ["sees", "eats", "likes"]
MODELS = {
    "recurrent": {
        "kind": "recurrent", "width": 24, "embedding": 16, "dropout": 0.0, "head_dropout": 0.0, "self_attention": True,
    },
    "transformer": {
        "kind": "transformer", "width": 24, "heads": 2, "feed_forward": 48, "layers": 2, "dropout": 0.0,
        "head_dropout": 0.0,
    },
}  # fmt: skip


def write_sentences(file, count=60):
    """The tag of "it" says whether a dog was named before: nothing else tells."""
    chance = np.random.default_rng(0)
    lines = []
    for _ in range(count):
        noun = str(chance.choice(NOUNS))
        words = ["the", noun, str(chance.choice(VERBS)), "and", "it", str(chance.choice(VERBS)), "."]
        tags = ["B-NP", "I-NP", "O", "O", "B-DOG" if noun == "dog" else "B-NP", "O", "O"]
        lines += [f"{word} X {tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    file.write_text("\n".join(lines))
    return str(file)


def job(**data):
    return make_job(config.build({"job": "tag", "data": data, "model": MODELS["transformer"]}))


@pytest.fixture(scope="module", params=list(MODELS))
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    file = write_sentences(folder / "train.conll")
    tree = {
        "job": "tag", "data": {"train": file, "valid": file, "test": file, "tokenizer": {"kind": "bpe", "size": 40}},
        "model": MODELS[request.param],
        "training": {
            "max_tokens": 400, "max_steps": 120, "max_epochs": None, "learning_rate": 1e-2, "warmup": 5,
            "validate_every": 120,
        },
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tree))
    return regard.train(folder / "recipe.yaml", output=folder / "run")


def test_a_tagger_learns_its_tiny_data(run):
    assert isinstance(run.job.output, TagsOutput)
    assert isinstance(run.job.input, WordsInput)
    scores = run.evaluate()
    assert scores.values["accuracy"] == scores.values["f1"] == scores.values["exact_match"] == 100
    assert {row["label"] for row in scores.details["by span"]} == {"DOG", "NP"}
    assert scores.pictures[0].title == "Confusion"


def test_a_recipe_that_is_scored_by_spans_trains_on_tags_without_spans(tmp_path):
    (tmp_path / "train").write_text(TREEBANK * 20)
    both = dict.fromkeys(("train", "valid"), str(tmp_path / "train"))
    run = regard.train("tags", data=both, output=tmp_path / "run", training={"max_steps": 2, "max_epochs": None})
    scores = run.evaluate(test=str(tmp_path / "train")).values
    assert scores["f1"] == scores["accuracy"]


def test_a_prediction_has_words_tags_and_spans(run):
    text = "the dog sees and it eats."
    (one, cut) = run.predict([text, text.replace(".", " .").split()])
    assert isinstance(one, Tagged)
    assert one.words == ["the", "dog", "sees", "and", "it", "eats", "."]
    assert one.tags == cut.tags == ["B-NP", "I-NP", "O", "O", "B-DOG", "O", "O"]
    assert one.text.startswith("the/B-NP dog/I-NP sees/O")
    assert one.spans[1] == {"label": "DOG", "start": 4, "end": 5, "text": "it"}
    assert json.loads(json.dumps(one.as_dict()))["tags"] == one.tags
    assert run.predict(text, cut="spaces").words[-1] == "eats."
    assert run.predict("").tags == []
    assert run.score([text], [" ".join(one.tags)])[0].score == pytest.approx(one.score, abs=1e-4)
    alone = [run.predict(some, batch_tokens=1).score for some in (text, "the cat eats .")]
    assert [found.score for found in run.predict([text, "the cat eats ."])] == pytest.approx(alone, abs=1e-4)


def test_bad_input_gets_a_sentence(run):
    for wrong, told in (
        (lambda: run.predict([["a b"]]), "has a space in it"),
        (lambda: run.predict([7]), "a text or a list of words, not int"),
        (lambda: run.score(["the cat"], ["O"]), "1 tags do not fit the 2 words"),
        (lambda: run.score(["cat"], ["B-NPP"]), "unknown label: 'B-NPP'; did you mean 'B-NP'"),
        (lambda: run.look(""), "nothing to look at"),
        (lambda: run.look("word " * 300), "more than the 255"),
        (lambda: run.predict("x", prefix="O"), "prefix"),
        (lambda: run.evaluate(alignments=True), "alignments"),
    ):
        with pytest.raises(CallError, match=told):
            wrong()


def test_texts_of_any_length_are_tagged_in_windows(run, tmp_path):
    """One sentence after the other, 280 words: each word has the tag that it has in its own sentence."""
    sentence = ["the", "dog", "sees", "and", "it", "eats", "."]
    found = run.predict([sentence * 40])[0]
    assert found.words == sentence * 40
    assert len(found.tags) == 280
    assert len(run.predict([["x" * 900, "dog"]])[0].tags) == 2  # a word that is longer than the model reads
    assert run.score([sentence * 40], [" ".join(found.tags)])[0].score == pytest.approx(found.score, abs=1e-3)


def test_windows_overlap_and_each_word_is_asked_about_once(run):
    data = run.recipe.data.model_copy(update={"max_length": 12})
    reader = run.job.with_recipe(run.recipe.model_copy(update={"data": data})).input
    for words in (["dog"] * 50, ["x" * 40, "cat"] * 5, ["a"], []):
        item = reader.whole(words)
        windows = reader.words_windows(item)
        kept = [word for one in windows for word in one.item.words[one.first : one.end]]
        assert kept == words
        for one in windows:
            assert len(one.item.pieces) <= 11
            assert len(one.item.places) == len(one.item.words)
            text = " ".join(one.item.words)
            assert all(text[piece.start : piece.end].strip() in one.item.words[piece.word] for piece in one.item.pieces)


def test_a_validation_part_without_spans_has_an_f1(tmp_path):
    lines = {"train": "the O\ndog B-N\neats O\n\n", "valid": "the O\neats O\n\n"}
    for role, text in lines.items():
        (tmp_path / f"{role}.conll").write_text(text * 20)
    made = job(**{role: str(tmp_path / f"{role}.conll") for role in lines})
    made.prepare(tmp_path / "cache")
    assert {"f1", "precision", "recall", "accuracy"} <= made.bound(made.build()).validate().keys()


def test_long_sentences_end_no_training_and_are_part_of_every_score(tmp_path):
    lines = [f"{word} {'B-N' if word == 'dog' else 'O'}" for word in ("the", "dog", "eats")]
    short, long = "\n".join(lines), "\n".join(lines * 9)
    files = {role: tmp_path / f"{role}.conll" for role in ("train", "valid", "test")}
    files["train"].write_text("\n\n".join([short] * 30 + [long]))
    for role in ("valid", "test"):
        files[role].write_text("\n\n".join([short] * 20 + [long] * 2 + [""]))
    data = {role: str(file) for role, file in files.items()} | {"max_length": 8}
    run = regard.train("tags", data=data, output=tmp_path / "run", training={"max_steps": 30, "max_epochs": None})
    scores = run.evaluate()
    assert scores.values["sentences"] == 22
    assert scores.values["f1"] == 100
    assert scores.notes["longer inputs"].startswith(
        "2 of 22 are longer than data.max_length=8 tokens: they are read in"
    )
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["validation_examples"] == 22


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_tags_and_columns_words_by_every_method(run, method):
    text = "the dog sees and it eats ."
    if method == "attnlrp" and run.recipe.model.kind == "recurrent":
        with pytest.raises(CallError, match=REFUSED[method]):
            run.look(text, method=method)
        return
    record = run.look(text, method=method, evidence=True)
    matrix = record.matrix("cross")
    assert matrix.rows.labels == ["B-NP", "I-NP", "O", "O", "B-DOG", "O", "O"]
    assert "".join(matrix.columns.labels[-4:-1]).endswith(".")
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}
    if method != "gradient":
        assert matrix.weights.sum(1) == pytest.approx(np.ones(7), abs=1e-4)
    if method == "leave-one-out":  # the dog is what tells "it" from others
        words = [token.word for token in matrix.columns.tokens]
        most = sorted(range(len(words)), key=lambda place: -matrix.weights[4, place])[:2]
        assert 1 in {words[place] for place in most}


def test_a_row_of_gradients_is_that_of_its_own_tag(run):
    """∂ log p(tag_t) / ∂α of the row of word t in the last attention, asked of torch directly."""
    from regard.attention import Trace

    text = "the dog sees and it eats ."
    item = run.job.input.read(text)
    with Trace(run.model, gradients=True) as seen:
        chance = run.model.logits(run.job.input.collate([item])).log_softmax(-1)[0, 4].max()
    name = seen.names[-1]
    felt, place = seen.gradients(chance)[name][0], run.job.input.row_of_words(item)[4]
    weights = seen[name][0]
    expected = (weights * felt).detach().clamp(min=0).reshape(-1, *weights.shape[-2:])[:, place].numpy()
    expected /= np.maximum(expected.sum(-1, keepdims=True), 1e-30)
    found = run.look(text, method="gradient").of_kind("cross")[-1].weights[:, 4]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_on_the_command_line_and_through_training(run, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(cli, list(map(str, arguments)))

    assert call("predict", run.folder, "the dog eats").stdout.strip() == "the/B-NP dog/I-NP eats/O"
    assert json.loads(call("evaluate", run.folder, "--json").stdout)["f1"] == 100
    record = run.history_of_looks().records[-1]
    assert len(record.axes["target"]) == 7
    again = regard.load(run.folder)
    assert again.predict("the dog eats").score == pytest.approx(run.predict("the dog eats").score)
    silent = run.look("the dog eats", without=["encoder.0.0"])
    assert not np.allclose(silent.scores, run.look("the dog eats", output=silent.output).scores)


def test_a_pretrained_encoder_is_tagged_on_first_pieces(run, tmp_path):
    if run.recipe.model.kind == "recurrent":
        return
    model = {"kind": "pretrained", "path": str(run.folder), "frozen": True}
    file = run.recipe.data.train
    tree = {
        "job": "tag", "data": {"train": file, "valid": file, "test": file}, "model": model,
        "training": {"max_tokens": 400, "max_steps": 30, "learning_rate": 1e-2, "validate_every": 30},
    }  # fmt: skip
    other = regard.train(config.build(tree), output=tmp_path / "run")
    assert other.evaluate().values["accuracy"] > 90
    kept = other.model.get_submodule("encoder").state_dict()
    for name, value in run.model.encoder.state_dict().items():
        assert torch.equal(value, kept[name])


def test_a_process_without_a_share_of_a_batch_counts_nothing(run):
    """Of a batch with one row, the second of two processes has none; its input may have any number of words."""
    job = make_job(run.recipe)
    job.restore(run.folder)
    job.prepare(run.folder / "cache")
    batches = job.batches()
    alone = batches.batch(np.zeros(0, np.int64))
    assert alone.source.places.shape[1] > 1
    loss = run.job.model.train()(alone)
    assert (loss.total.item(), int(loss.count)) == (0, 0)
    run.job.model.eval()
