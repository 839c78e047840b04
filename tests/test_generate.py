"""The job generate, from files to text: as the command line, Python and the report use it."""

import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

import regard
import regard.api
from regard.commands.predict import PredictRequest, predict
from regard.commands.tools import cost
from regard.data.store import Array, StoreWriter
from regard.errors import CallError
from regard.generation.sampling import SamplingState, generate
from regard.inputs.prompt.input import TextStore
from regard.layers.quantized import QuantizedLinear, quantize
from regard.metrics.alignment import Gold
from regard.models.language_model import LanguageModel
from regard.settings.language_model import LanguageModelSettings
from regard.tasks.base import OutputRef
from regard.tasks.text.continuation import Continuation
from regard.tasks.text.output import build_language_model
from regard.tasks.text.perplexity import sliding, text_loss
from regard.tasks.text.writing import TextStreamer

TEXT = "abcdefghij klmno.\n" * 40
PROMPT = "cdefg"
SMALL = {"layers": 1, "width": 32, "heads": 4, "context": 24}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    (folder / "text.txt").write_text(TEXT)
    recipe = folder / "recipe.yaml"
    recipe.write_text("job: generate\ndata: {train: text.txt, tokenizer: {kind: character}}\n")
    training = {"max_steps": 60, "max_tokens": 240, "learning_rate": 0.02, "optimizer": "muon", "warmup": 5}
    return regard.train(
        recipe, data={"train": str(folder / "text.txt")}, output=folder / "run", model=SMALL,
        training={**training, "max_epochs": None, "schedule": "linear", "validate_every": 30},
    )  # fmt: skip


def test_a_text_is_learnt_by_heart_and_continued(run):
    assert isinstance(run.job.output, Continuation)
    found = run.predict("abcd", temperature=0, max_length=40)
    assert (found.input + found.text).startswith("abcdefghij klmno.\nabcdefghij klmno.\n")
    assert found.score < 0
    assert run.summary()["best"]["scores"]["loss"] < 0.2


def test_streamed_pieces_are_the_prediction_and_stop_texts_end_it(run):
    how = {"temperature": 0, "max_length": 30, "stop": ["no."]}
    whole = run.predict("abcd", **how).text
    assert whole == "efghij klm"
    told = []
    found = run.stream("abcd", lambda piece, text: told.append((piece, text)), **how)
    assert "".join(piece for piece, _ in told) == told[-1][1] == found.text == whole
    assert len(told) > 5
    told.clear()
    assert run.stream("abcd", lambda piece, text: told.append(piece), prefix="ef", **how).text == whole
    assert told[0] == "ef"
    assert run.predict("abcd", prefix="ef", **how).text == whole


def test_several_prompts_of_unequal_length_come_out_as_they_do_alone(run):
    prompts = ["a", "abcdefg", "klm", ""]
    together = [found.text for found in run.predict(prompts, temperature=0, max_length=26)]
    assert together == [run.predict(prompt, temperature=0, max_length=26).text for prompt in prompts]
    drawn = [found.text for found in run.predict(["abc"] * 3, temperature=2.0, max_length=9, seed=5)]
    assert len(set(drawn)) > 1
    assert drawn == [found.text for found in run.predict(["abc"] * 3, temperature=2.0, max_length=9, seed=5)]
    assert len(run.predict("abc", n_best=3, max_length=5).n_best) == 3


def test_evaluation_is_the_mean_of_log_probabilities_by_hand(run):
    scores = run.evaluate(["decoding.stride=1"]).values
    text = TEXT[int(0.9 * len(TEXT)) :]
    tokens = [2, *run.job.input.tokenizer.encode(text), 3]
    model, context, total = run.model.eval(), run.recipe.model.context, 0.0
    with torch.no_grad():
        for place in range(1, len(tokens)):
            before = torch.tensor([tokens[max(0, place - context) : place]])
            total -= model.logits(model.features(before))[0, -1].log_softmax(-1)[tokens[place]].item()
    assert scores["loss"] == pytest.approx(total / (len(tokens) - 1), rel=1e-4)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]), rel=1e-6)
    assert scores["bits_per_byte"] == pytest.approx(total / math.log(2) / len(text), rel=1e-4)
    assert scores["bytes"] == len(text)


def test_evaluation_on_another_file(run, tmp_path):
    (tmp_path / "other.txt").write_text(TEXT[:90])
    assert run.evaluate(test=str(tmp_path / "other.txt")).values["bytes"] == 90


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_weights_in_fewer_bits_say_nearly_the_same(run, tmp_path, precision):
    (tmp_path / "other.txt").write_text(TEXT[40:200])
    small = regard.load(run.folder, quantize=precision)
    kept = {module.precision for module in small.model.modules() if isinstance(module, QuantizedLinear)}
    assert kept == {precision}
    exact, rounded = (one.evaluate(test=str(tmp_path / "other.txt")).values["perplexity"] for one in (run, small))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.005)
    said = small.predict(PROMPT, temperature=0, max_length=20).text  # one row at a time
    assert said == run.predict(PROMPT, temperature=0, max_length=20).text
    assert small.predict([PROMPT] * 3, temperature=0, max_length=20)[2].text == said
    (scored,) = small.score([PROMPT], [said])
    (by_all_bits,) = run.score([PROMPT], [said])
    assert scored.score == pytest.approx(by_all_bits.score, rel=0.02, abs=0.02)


def test_what_cannot_be_kept_in_fewer_bits_is_said(run):
    with pytest.raises(CallError, match=r"quantize='int4' must be one of int8, bf16"):
        regard.load(run.folder, quantize="int4")
    with pytest.raises(CallError, match="no Transformer layers"):
        quantize(nn.Linear(3, 4), "int8")


def test_score_adds_up_the_tokens_of_the_output(run):
    [one] = run.score(["abc"], ["def"])
    [first] = run.score(["abc"], ["de"])
    [last] = run.score(["abcde"], ["f"])
    assert one.score == pytest.approx(first.score + last.score, rel=1e-4)


METHODS = ("raw", "rollout", "norm", "gradient", "input-gradient", "leave-one-out")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_looks_at_what_was_read_and_at_no_future(run, method):
    record = run.look("abcdefg", method=method, max_length=3)
    assert record.kinds == ["decoder"]
    table = record.matrix()
    assert table.rows.labels == list("bcdefghij")  # the last three are the model's own
    assert table.columns.labels == list("abcdefghi")
    assert (record.input, record.output) == ("abcdefg", "hij")
    assert np.triu(table.weights, 1).max() < 1e-6
    assert table.weights.max() > 0.1
    if method in ("raw", "rollout", "norm"):
        np.testing.assert_allclose(record.attentions[0].weights.sum(-1), 1, rtol=1e-5)


def test_a_look_is_at_what_the_model_goes_on_with_or_at_a_given_text(run):
    assert run.look("abcdefg").attentions[0].weights.shape == (4, 24, 24)  # until the context is full
    assert len(run.look("abc").scores) == 2 + 20
    given = run.look("abc", output="de")
    assert given.matrix().weights.shape == (4, 4)
    [scored] = run.score(["abc"], ["de"])
    assert sum(given.scores[-2:]) == pytest.approx(scored.score, abs=1e-4)
    assert run.look("abcdef", prefix="gx", max_length=2).output.startswith("gx")
    assert len(run.look("abc", n_best=3, temperature=2.0, max_length=4).beams) == 2
    drawn = {run.look("abc", sample=True, temperature=4.0, seed=seed, max_length=8).output for seed in range(3)}
    assert len(drawn) == 3
    assert run.look("abc", sample=True, temperature=4.0, top_k=1).output == run.look("abc").output
    assert run.look("abcdefg", output="hi", without=["decoder.0.1"]).scores != run.look("abcdefg", output="hi").scores
    with pytest.raises(CallError, match="reads at most 24"):
        run.look("a" * 30)
    with pytest.raises(CallError, match="has no predicted token"):
        run.look("a", output="")
    with pytest.raises(CallError, match="gold links"):
        run.look("abc", gold=Gold(frozenset(), frozenset()))


@torch.no_grad()
def test_a_token_that_is_left_out_changes_nothing_before_it(run):
    """By plain passes over the text without it; with nothing to read, nothing is known."""
    output, job = run.job.output, run.job
    case = output.case(job.model, "abcd", OutputRef(job.input.tokenizer.encode("abcdef"), "ef"))
    whole, *without = case.ask([frozenset(), *(frozenset([part]) for part in range(5))])
    ids = job.input.tokenizer.encode("abcdef")

    def told(read, token):
        return run.model.logits(run.model.features(torch.tensor([read])))[0, -1].log_softmax(-1)[token]

    for gone, scores in enumerate(without):
        for step in range(5):
            read = [token for place, token in enumerate(ids[: step + 1]) if place != gone]
            expected = told(read, ids[step + 1]) if read else torch.tensor(-math.log(job.input.tokenizer.size))
            torch.testing.assert_close(scores[step], expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(scores[:gone], whole[:gone], atol=1e-5, rtol=1e-5)


def test_attention_is_kept_as_training_goes_on(run):
    history = run.history_of_looks(0)
    assert history.steps == (30, 60)
    assert len({record.output for record in history.records}) == 1  # the validation text, whatever the model would say
    assert all(np.triu(record.matrix().weights, 1).max() == 0 for record in history.records)


def test_the_command_line_writes_and_scores(run, capsys):
    def told(*words, n_best=None, as_json=False, temperature=0):
        how = f"decoding.temperature={temperature}"
        predict(run.folder, (*words, how), PredictRequest(n_best=n_best, as_json=as_json))
        return capsys.readouterr().out

    assert told("abcd", "decoding.max_length=6") == "abcdefghij\n"
    assert [found["text"] for found in json.loads(told("abc", "kl", "decoding.max_length=2", as_json=True))] == [
        "de",
        "mn",
    ]
    assert told("abc", "decoding.max_length=2", n_best=3, temperature=0.01) == "de\n" * 3
    assert told("abc", "decoding.max_length=2", "decoding.n_best=3", temperature=0.01) == "de\n" * 3
    with pytest.raises(CallError, match=r"decoding\.n_best=3 requests several outputs, but temperature=0 gives"):
        told("abc", n_best=3)
    assert told("lmno", "decoding.max_length=4") == "lmno.\nab\n"  # line breaks are those of the text


def test_why_it_goes_on_so(run):
    lens = run.explain("abc", "lens", output="de")
    assert [word.split()[0] for word in lens.words[-1]] == ["b", "c", "d", "e"]  # learnt by heart
    parts = run.explain("abc", "logits", output="de")
    np.testing.assert_allclose(parts.values[:-1].sum(0), parts.values[-1], rtol=1e-5)
    back = run.explain("abc", "patching", output="de", against_input="abk", by="positions", row=2)
    assert back.columns[-3:] == ["c | k", "d", "all"]
    assert back.values[0] == pytest.approx([0, 0, 1, 0, 1], abs=1e-3)  # the letter that was exchanged brings it back


def test_the_check_counts_text_and_finds_what_is_wrong(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"good line\n" * 50 + b"bad \xff line\n")
    overrides = {"data.train": str(tmp_path / "text.txt"), "data.documents": "line", "model.context": 2000}
    report = regard.api.check("language-model", overrides | {"training.max_tokens": 2000})
    table = {row["split"]: row for row in report.tables["text"]}
    assert table["train"]["documents"] + table["valid"]["documents"] == 50
    assert table["train"]["lines lost"] == 1
    assert any("byte 5 (0xff)" in finding.what and finding.lines == [51] for finding in report.findings)
    assert any("less than one window" in finding.what for finding in report.findings)
    assert report.errors  # one of 51 lines is more than data.max_bad=0.01
    assert {"parameters", "time for an epoch"} <= report.estimates.keys()


def test_sizes_are_counted_before_they_are_built():
    with torch.device("meta"):
        small = build_language_model(LanguageModelSettings.model_validate({"size": "llama-small"}), 49152)
    assert sum(weight.numel() for weight in small.parameters()) == 134_515_008  # SmolLM2-135M
    counted = cost(
        "language-model", ("model.size=shakespeare", "data.tokenizer.kind=byte"), "a100:1", batch=1, length=8
    )
    assert counted.parameters == 128 * 260 + 4 * (12 * 128**2 + 2 * 128) + 128


def test_wrong_settings_are_named():
    with pytest.raises(CallError, match=r"(?s)3 mistakes.*is less than one window.*heads=3 must divide width=128"):
        regard.config.read("language-model", ["model.heads=3", "training.max_tokens=100"])


# ------------------------------------------------------------------------------------------------------- decoding
V = 13


def model(context: int = 9) -> LanguageModel:
    torch.manual_seed(4)
    made = LanguageModel(V, 16, 4, 2, max_length=context, positions="rotary").eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(6)
    return made


def write(prompts, how, context=9, max_length=12, end=3, **more):
    texts = [[] for _ in prompts]
    for row, token, _ in generate(
        model(context), prompts, how, context=context, max_length=max_length, end=end,
        device=torch.device("cpu"), **more,
    ):  # fmt: skip
        texts[row].append(token)
    return texts


def test_greedy_by_plain_passes_over_the_whole_text():
    """Within the context, cached steps are the argmax of one pass over all tokens."""
    lm, text = model(20), [5, 6, 7]
    with torch.no_grad():
        for _ in range(12):
            text.append(int(lm.logits(lm.features(torch.tensor([text])))[0, -1].argmax()))
    assert write([[5, 6, 7]], SamplingState(temperature=0.0), context=20, end=None) == [text[3:]]


def test_beyond_the_context_the_last_half_is_read_anew():
    lm, text = model(8), [5, 6, 7]
    start = 0  # of the window
    with torch.no_grad():
        for _ in range(20):
            if len(text) - start > 8:
                start = len(text) - 4
            text.append(int(lm.logits(lm.features(torch.tensor([text[start:]])))[0, -1].argmax()))
    assert write([[5, 6, 7]], SamplingState(temperature=0.0), context=8, max_length=20, end=None) == [text[3:]]


def test_draws_follow_the_seed_and_the_limits():
    how = SamplingState(temperature=1.5, seed=3)
    texts = write([[5], [6, 7, 8, 9], [5, 5]], how, end=None)
    assert texts == write([[5], [6, 7, 8, 9], [5, 5]], how, end=None)
    assert [len(text) for text in texts] == [12, 12, 12]
    assert write([[5, 5], [5]], how, end=None) == [texts[2], texts[0]]  # alone and in company, at any place
    same = write([[5]] * 2, how, end=None)
    assert same[0] == texts[0] != same[1]
    assert texts != write([[5], [6, 7, 8, 9], [5, 5]], how._replace(seed=4), end=None)
    greedy = write([[5, 6]], SamplingState(temperature=0.0), end=None)
    assert write([[5, 6]], SamplingState(temperature=2.0, top_k=1), end=None) == greedy
    assert write([[5, 6]], SamplingState(temperature=2.0, top_p=1e-6), end=None) == greedy


def test_repetition_penalty_by_hand_and_forbidden_tokens():
    lm, text = model(20), [5, 6, 7]
    with torch.no_grad():
        for _ in range(9):
            logits = lm.logits(lm.features(torch.tensor([text])))[0, -1]
            for token in set(text):
                logits[token] = logits[token] / 3 if logits[token] > 0 else logits[token] * 3
            text.append(int(logits.argmax()))
    how = SamplingState(temperature=0.0, repetition_penalty=3.0)
    assert write([[5, 6, 7]], how, context=20, max_length=9, end=None) == [text[3:]]
    assert text[3:] != write([[5, 6, 7]], how._replace(repetition_penalty=1.0), context=20, max_length=9, end=None)[0]
    [drawn] = write([[5, 6]], SamplingState(temperature=1.5), forbidden=[1, 2, 4, 7, 8], end=None)
    assert not {1, 2, 4, 7, 8} & set(drawn)


def test_text_that_may_be_part_of_a_stop_text_is_held_back(run):
    one = TextStreamer(run.job.input.tokenizer, "ab", stop=["ghi"])
    news = []
    for letter in "cdefgjghij":
        one.add(run.job.input.tokenizer.encode(letter)[0], -1.0)
        news.append(one.new_text())
        if one.stopped:
            break
    assert news == ["c", "d", "e", "f", "", "gj", "", "", ""]
    assert one.text == "cdefgj"
    assert one.new_text(last=True) == ""


# ------------------------------------------------------------------------------------------------------- scoring
def store_of(folder, size):
    """A store whose tokens are 0, 1, 2, …"""
    with StoreWriter(folder, "numbers", tokens=Array("uint16")) as store:
        store.add("tokens", np.arange(size) % V)
        store.counts.add("bytes", size)
    return TextStore(folder)


@pytest.mark.parametrize("size", [2, 5, 9, 10, 11, 37, 40])
@pytest.mark.parametrize("stride", [1, 3, 8])
def test_sliding_windows_count_every_token_once(tmp_path, size, stride):
    seen = []
    for window, counted in sliding(store_of(tmp_path, size), 8, stride, rows=3):
        assert window.shape[1] == counted.shape[1] + 1 <= 9
        seen += window[:, 1:][counted].tolist()
    assert seen == [number % V for number in range(1, size)]


def test_more_to_look_back_at_is_never_left_out(tmp_path):
    """With stride 1, every token but the first few is predicted from a whole context."""
    for _, counted in sliding(store_of(tmp_path, 40), 8, 1, rows=50):
        assert (counted[1:].sum(1) == 1).all()
        assert counted[1:, -1].all()
        assert counted[0].all()


def test_loss_does_not_depend_on_the_rows_of_a_batch(tmp_path):
    lm, store = model(8), store_of(tmp_path, 61)
    one = text_loss(lm, store, context=8, stride=4, rows=1)
    many = text_loss(lm, store, context=8, stride=4, rows=7)
    assert one.total == pytest.approx(many.total, rel=1e-5)
    assert one.tokens == many.tokens == 60


def test_the_service_ends_texts_where_it_is_told_and_draws_alike_in_company(run):
    from regard.serve.errors import Limits
    from test_serve import serving

    with serving({"text": run}, Limits()) as client:
        how = {"temperature": 0, "max_length": 30, "stop": ["no."], "repetition_penalty": 1.0}
        found = client.post("/api/predict", json={"inputs": ["abcd"], **how}).json()
        assert found["predictions"][0]["text"] == "efghij klm"
        assert '"efghij klm"' in client.post("/api/stream", json={"text": "abcd", **how}).text
        again = {"inputs": ["abcd"], **how, "stop": []}
        plain, penalised = (
            client.post("/api/predict", json=again | {"repetition_penalty": by}).json() for by in (1.0, 50.0)
        )
        assert penalised["predictions"][0]["text"] != plain["predictions"][0]["text"]
        drawn = {"inputs": ["abcd"], "temperature": 3.0, "max_length": 20, "seed": 4}
        with ThreadPoolExecutor(6) as pool:  # equal requests that wait together
            answers = list(pool.map(lambda _: client.post("/api/predict", json=drawn).json(), range(6)))
        assert len({answer["predictions"][0]["text"] for answer in answers}) == 1
