"""Sound to text, from the user's recordings to predictions: on the command line and in Python, on real files."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
import yaml
from click.testing import CliRunner

import regard
import regard.config
from look_methods import REFUSED, WHOLE_MODEL, asked_of_the_model
from regard.cli import cli
from regard.corpora.tones import call, write
from regard.data.batches import Padded
from regard.errors import CallError
from regard.files.subtitles import TimedText, in_order
from regard.inputs.sound.features import MemoryTimes
from regard.inputs.sound.recording import Sound, read_sound, windows
from regard.inputs.sound.settings import SoundSettings
from regard.look.methods import METHODS
from regard.metrics.alignment import Gold
from regard.metrics.speech import error_rates, expected_times, median_times, middle_spans, peak_times, timing
from regard.special_tokens import END
from regard.tasks.result import Candidate
from regard.tasks.text.transcript import CLIPPED, SILENT, Transcript, join_windows
from regard.tasks.text.transcription import Transcription

CALLS = 10


def recipe(folder, **changes):
    write(folder / "calls", "train", CALLS)
    tree = {
        "job": "transcribe",
        "data": {
            "train": str(folder / "calls"), "valid": str(folder / "calls"), "test": str(folder / "calls"),
            "sound": {"rate": 8000, "bands": 24, "window": 0.04, "hop": 0.02}, "tokenizer": {"kind": "character"},
        },
        "model": {
            "kind": "recurrent", "width": 64, "embedding": 16, "pyramid": 1, "dropout": 0.0, "ctc": 0.3,
        },
        "training": {
            "max_tokens": 1500, "max_steps": 100, "max_epochs": None, "learning_rate": 0.01, "warmup": 20,
            "schedule": "cosine", "validate_every": 100,
        },
        "decoding": {"beam": 2, "max_length": 12},
    }  # fmt: skip
    for key, value in changes.items():
        tree[key] = tree[key] | value
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Ten calls learned by heart."""
    folder = tmp_path_factory.mktemp("transcribe")
    return regard.train(recipe(folder), output=folder / "run"), folder


TRANSFORMER = {
    "kind": "transformer", "width": 16, "heads": 2, "feed_forward": 24, "encoder_layers": 2, "decoder_layers": 1,
    "channels": 4, "dropout": 0.0, "label_smoothing": 0.0, "ctc": 0.3,
}  # fmt: skip


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """Hardly trained: where it looks is of no meaning, but exact."""
    folder = tmp_path_factory.mktemp("transformer")
    tree = yaml.safe_load(recipe(folder).read_text())
    limits = tree["training"] | {"max_steps": 2, "validate_every": 0}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tree | {"model": TRANSFORMER, "training": limits}))
    return regard.train(folder / "recipe.yaml", output=folder / "run"), folder


def texts(count=CALLS):
    return [call("train", number).text for number in range(count)]


def test_what_was_learned_is_evaluated(trained):
    run, _ = trained
    assert isinstance(run.job.output, Transcription)
    scores = run.evaluate().values
    assert scores["exact_match"] >= 90
    assert scores["wer"] <= 10
    assert scores["recordings"] == CALLS
    assert 0 < scores["real_time_factor"] < 5


def test_files_folders_and_samples_give_the_same_text(trained):
    run, folder = trained
    files = sorted((folder / "calls").glob("*.wav"))
    assert run.job.input.parse([str(folder / "calls")]) == [str(file) for file in files]
    by_file = [found.text for found in run.predict([str(file) for file in files])]
    assert sum(said == text for said, text in zip(by_file, texts(), strict=True)) >= 9
    made = call("train", 0)
    assert run.predict([Sound(made.samples, made.rate)])[0].text == by_file[0]
    assert run.predict(str(files[0])).text == by_file[0]


def test_the_command_line(trained, tmp_path):
    run, folder = trained
    file = str(folder / "calls" / "train-001.wav")
    found = CliRunner().invoke(cli, ["predict", str(run.folder), file])
    assert found.stdout == texts()[1] + "\n"
    assert "real-time factor" in found.stderr
    found = CliRunner().invoke(cli, ["predict", str(run.folder), file, "--format", "vtt"])
    assert found.stdout.startswith("WEBVTT\n\n00:00:0")
    assert found.stdout.endswith(f"\n{texts()[1]}\n")
    CliRunner().invoke(
        cli, ["predict", str(run.folder), str(folder / "calls"), "--format", "textgrid", "--output", str(tmp_path)]
    )
    assert len(list(tmp_path.glob("*.TextGrid"))) == CALLS
    found = CliRunner().invoke(cli, ["predict", str(run.folder), file, "--json"])
    assert json.loads(found.stdout)[0]["seconds"] == pytest.approx(len(call("train", 1).samples) / 8000)


def test_when_each_token_was_heard_is_in_order_and_inside_the_recording(trained):
    run, folder = trained
    found = run.predict(str(folder / "calls" / "train-005.wav"), attention=True)
    assert isinstance(found, Transcript)
    assert "".join(heard.text for heard in found.tokens) == found.text
    times = [time for heard in found.tokens for time in (heard.start, heard.end)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] <= found.seconds
    assert found.alignment is not None
    assert found.alignment.mean.shape == (len(found.text) + 1, len(found.alignment.columns))


def test_looking_lays_attention_upon_the_spectrogram(trained):
    run, folder = trained
    record = run.look(str(folder / "calls" / "train-002.wav"))
    assert record.output == texts()[2]
    matrix = record.matrix("cross")
    assert matrix.columns.signal is not None
    assert matrix.columns.signal.shape[0] == 24  # bands
    assert matrix.rows.labels == [*texts()[2], "</s>"]
    np.testing.assert_allclose(matrix.weights.sum(axis=1), 1.0, atol=1e-5)
    edges = matrix.columns.edges
    assert edges[-1] == pytest.approx(len(call("train", 2).samples) / 8000, abs=0.05)
    forced = run.look(str(folder / "calls" / "train-002.wav"), output="12")
    assert forced.matrix("cross").rows.labels == ["1", "2", "</s>"]


@pytest.mark.parametrize("kind", ["trained", "transformer"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_looks_at_sound(kind, method, request):
    run, folder = request.getfixturevalue(kind)
    file = str(folder / "calls" / "train-004.wav")
    if kind == "trained" and method in REFUSED:
        with pytest.raises(CallError, match=REFUSED[method]):
            run.look(file, method=method)
        return
    record = run.look(file, output=texts()[4], method=method, evidence=True)
    matrix = record.matrix("cross")
    assert matrix.columns.signal is not None
    assert matrix.rows.labels == [*texts()[4], "</s>"]
    assert np.isfinite(matrix.weights).all()
    assert matrix.weights.sum() > 0
    assert set(record.kinds) == (
        {"cross"} if kind == "trained" or method in WHOLE_MODEL else {"cross", "encoder", "decoder"}
    )
    assert asked_of_the_model(record, method) == {"comprehensiveness", "sufficiency"}


@pytest.fixture(params=["trained", "transformer"])
def heard(request):
    """A model, the features of a recording and its text, all as plain tensors; and how to look at them by a method."""
    run, folder = request.getfixturevalue(request.param)
    file, text = str(folder / "calls" / "train-004.wav"), texts()[4]
    target = torch.tensor([[*run.job.output.tokenizer.encode(text), END]])
    features = torch.from_numpy(run.job.input.read(file).features)
    return run, features, target, lambda method: run.look(file, output=text, method=method).matrix("cross").weights


def test_a_part_that_is_left_out_is_silence(heard):
    run, features, target, look = heard
    reduction = run.recipe.model.reduction

    def score(features):
        with torch.no_grad():
            return run.model.score(Padded.of([features]), target)[0]

    lost = []
    for start in range(0, len(features), reduction):
        without = features.clone()
        without[start : start + reduction] = features.min(0).values
        lost.append((score(features) - score(without)).clamp(min=0))
    wanted = torch.stack(lost, 1)
    np.testing.assert_allclose(look("leave-one-out"), wanted / wanted.sum(1, keepdim=True), atol=2e-3)


def test_input_gradients_are_those_of_the_features(heard):
    run, features, target, look = heard
    reduction = run.recipe.model.reduction
    rows = []
    for step in range(target.shape[1]):
        values = features.clone().requires_grad_()
        run.model.score(Padded.of([values]), target)[0, step].backward()
        product = (values * values.grad).sum(1).detach()
        rows.append(torch.stack([group.sum().abs() for group in product.split(reduction)]))
    wanted = torch.stack(rows)
    np.testing.assert_allclose(look("input-gradient"), wanted / wanted.sum(1, keepdim=True), atol=2e-3)


def test_heads_can_be_silenced_and_only_what_fits_can_be_looked_at(transformer):
    run, folder = transformer
    file = str(folder / "calls" / "train-002.wav")
    without = run.look(file, output="12", without=["cross.0.1"])
    assert without.scores != run.look(file, output="12").scores
    with pytest.raises(CallError, match=r"look takes at most decoding.window=0.5"):
        run.look(file, window=0.5)
    with pytest.raises(CallError, match="gold links"):
        run.look(file, gold=Gold(frozenset(), frozenset()))
    soundfile.write(folder / "silent.wav", np.zeros(9000), 8000)
    with pytest.raises(CallError, match="is silent"):
        run.look(str(folder / "silent.wav"))


def test_a_text_is_told_while_it_is_written(trained):
    run, folder = trained
    told = []
    found = run.stream(str(folder / "calls" / "train-001.wav"), lambda piece, text: told.append((piece, text)))
    assert found.text == run.predict(str(folder / "calls" / "train-001.wav"), beam=1, ctc=0.0).text
    assert [text for _, text in told] == [found.text[: place + 1] for place in range(len(found.text))]
    assert "".join(piece for piece, _ in told) == found.text
    begun = run.stream(str(folder / "calls" / "train-001.wav"), lambda *_: None, prefix="#")
    assert begun.text.startswith("#")


def test_a_long_recording_is_told_window_by_window_and_begins_with_its_prefix_once(trained):
    run, _ = trained
    parts = [part for number in (0, 1, 2) for part in (call("train", number).samples, np.zeros(4000, np.float32))]
    sound, told = Sound(np.concatenate(parts), 8000), []
    whole = run.predict([sound], window=2.0, beam=1, ctc=0.0)[0]
    assert len(whole.text.split()) > 1
    found = run.stream(sound, lambda piece, text: told.append(text), window=2.0)
    assert found.text == whole.text == told[-1]
    assert all(found.text.startswith(text) for text in told)
    begun = run.predict([sound], prefix="#", window=2.0, beam=1, ctc=0.0)[0]
    assert begun.text.startswith("#")
    assert begun.text.split()[1:] == whole.text.split()[1:]


def test_a_long_recording_is_transcribed_in_windows(trained, tmp_path):
    run, _ = trained
    pause = np.zeros(4000, np.float32)
    parts = [part for number in (0, 1, 2, 3) for part in (call("train", number).samples, pause)]
    soundfile.write(tmp_path / "long.wav", np.concatenate(parts), 8000)
    whole = run.predict(str(tmp_path / "long.wav"), window=2.0, attention=True)
    assert isinstance(whole, Transcript)
    assert whole.seconds == pytest.approx(sum(map(len, parts)) / 8000)
    cut = list(windows(read_sound(tmp_path / "long.wav"), 2.0))
    assert len(cut) > 3
    apart = run.predict([one.sound for one in cut])
    assert whole.text == " ".join(found.text for found in apart if found.text)
    assert whole.score == pytest.approx(sum(found.score for found in apart), abs=1e-3)
    assert [word.text for word in whole.words] == whole.text.split()
    later = [word.start for word in whole.words if word.start >= cut[1].start]
    assert later  # times are those of the recording, not of the window


def test_recordings_that_cannot_be_used(trained, tmp_path):
    run, _ = trained
    soundfile.write(tmp_path / "silent.wav", np.zeros(9000), 8000)
    (tmp_path / "text.wav").write_text("hello")
    silent = run.predict(str(tmp_path / "silent.wav"))
    assert silent.text == ""
    assert isinstance(silent, Transcript)
    assert "silent" in silent.note
    with pytest.raises(CallError, match=r"text\.wav: is not sound"):
        run.predict(str(tmp_path / "text.wav"))
    with pytest.raises(CallError, match="no such recording"):
        run.predict(str(tmp_path / "none.wav"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CallError, match="there is no recording in it"):
        run.job.input.parse([str(tmp_path / "empty")])


@pytest.mark.parametrize("ctc", [0.0, 0.3])
def test_log_probabilities_are_the_models_own_whatever_helps_the_search(trained, ctc):
    run, folder = trained
    file = str(folder / "calls" / "train-003.wav")
    found = run.predict(file, beam=3, n_best=2, ctc=ctc)
    scored = run.score([file] * 2, [one.text for one in found.n_best])
    for one, given in zip(found.n_best, scored, strict=True):
        assert given.log_probability == pytest.approx(one.log_probability, abs=1e-3)


def test_a_language_model_is_asked_too(trained, tmp_path):
    run, folder = trained
    (tmp_path / "numbers.txt").write_text("".join(f"{text}\n" for text in [*texts(), "0123456789*#"] * 4))
    written = regard.train(
        "shakespeare", data={"train": str(tmp_path / "numbers.txt"), "documents": "line", "valid_share": 0.3},
        model={"layers": 1, "width": 16, "heads": 2, "context": 16}, output=tmp_path / "lm",
        training={"max_steps": 4, "max_epochs": None, "max_tokens": 64, "validate_every": 0},
    )  # fmt: skip
    file = str(folder / "calls" / "train-000.wav")
    plain = run.predict(file, ctc=0.0)
    weighed = run.predict(file, ctc=0.0, language_model=str(written.folder), language_model_weight=0.5)
    assert weighed.text == plain.text  # a model that knows nothing does not change what is certain
    assert weighed.score < plain.score
    with pytest.raises(CallError, match="is not a run of the job generate"):
        run.predict(file, language_model=str(run.folder))


@pytest.mark.parametrize("kind", ["trained", "transformer"])
def test_times_are_held_against_those_of_the_corpus(kind, request):
    run, _ = request.getfixturevalue(kind)
    # Sequences of recordings have gold times: those of the recordings in them.
    join = {"fewest": 1, "most": 1, "gap": [0.0, 0.0], "test": 6}
    scores = run.evaluate({"data": {"join": join}}, alignments=True)
    for reading in ("attention", "peak", "expectation", "ctc"):
        assert scores.values[f"inside_{reading}"] == 100  # one recording is one segment, and all of it
        assert 0 < scores.values[f"off_{reading}"] < 2
    (rows,) = (rows for title, rows in scores.details.items() if title.startswith("times by layer and head"))
    assert len(rows) == (1 if kind == "trained" else 2)
    with pytest.raises(CallError, match="has no word timings"):
        run.evaluate(alignments=True)


def test_training_starts_from_another_run(trained, tmp_path):
    run, folder = trained
    limits = {"max_steps": 1, "learning_rate": 1e-9, "validate_every": 0}
    again = regard.train(folder / "recipe.yaml", output=tmp_path / "run", start=str(run.folder), training=limits)
    assert again.evaluate().values["exact_match"] == run.evaluate().values["exact_match"]


def test_a_stopped_run_goes_on_exactly(tmp_path):
    data = {
        "augment": {"speeds": [0.9, 1.1], "time_masks": 1},
        "join": {"fewest": 1, "most": 2, "train": 8, "valid": 2},
    }
    file = recipe(tmp_path, data=yaml.safe_load((recipe(tmp_path)).read_text())["data"] | data)
    small = {"model": {"width": 8, "embedding": 4}, "decoding": {"max_length": 4, "beam": 1}}

    def train(folder, steps):
        limits = {"max_steps": steps, "schedule": "constant", "save_every": 1}
        return regard.train(file, output=tmp_path / folder, training=limits, **small).model.state_dict()

    whole = train("whole", 4)
    train("parts", 2)
    again = train("parts", 4)
    assert all(torch.equal(whole[name], again[name]) for name in whole)


# ------------------------------------------------------------------------------------------------- scores and documents
def test_error_rates_by_hand():
    rates = error_rates(["three one", "four five six"], ["three one two", "four nine six"])
    assert rates["wer"] == pytest.approx(100 * 2 / 6)  # one word missing, one wrong
    assert rates["deletions"] == rates["substitutions"] == pytest.approx(100 / 6)
    assert rates["insertions"] == 0
    assert rates["exact_match"] == 0
    assert error_rates([""], ["a"])["wer"] == 100
    with pytest.raises(CallError, match="pair up"):
        error_rates(["a"], ["a", "b"])


def test_times_by_hand():
    weights = np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    times = np.array([1.0, 2.0, 3.0])
    assert expected_times(weights, times).tolist() == [1.5, 2.75]
    assert peak_times(weights, times).tolist() == [1.0, 3.0]
    edges = np.array([0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(middle_spans(weights, edges, share=0.5), [[1.0, 2.0], [2.5, 2.5 + 2 / 3]])
    np.testing.assert_allclose(median_times(weights, edges), [1.5, 2.5 + 1 / 3])
    found = timing([1.5, 9.0], [(1.0, 2.0), (2.0, 4.0)])
    assert (found.inside, found.off) == (50.0, 3.0)


def test_vectors_of_the_memory_have_their_times():
    clock = MemoryTimes(SoundSettings(window=0.04, hop=0.02), reduction=4)
    # The first vector stands for the windows that begin at 0, 20, 40, 60 ms and last 40 ms: their middle is at 50 ms.
    np.testing.assert_allclose(clock.middles(2), [0.05, 0.13])
    np.testing.assert_allclose(clock.edges(1), [0.01, 0.09])


def transcript(*heard, seconds=5.0):
    return Transcript("x.wav", [Candidate(" ".join(h.text for h in heard), 0.0, 0.0)], seconds=seconds, words=heard)


def test_subtitles_break_at_pauses_and_hide_no_mark_up():
    text = transcript(TimedText("a<b", 0.5, 1.0), TimedText("&", 1.2, 1.4), TimedText("later", 3.25, 3661.5)).written(
        "vtt"
    )
    assert text == "WEBVTT\n\n00:00:00.500 --> 00:00:01.400\na&lt;b &amp;\n\n00:00:03.250 --> 01:01:01.500\nlater\n"


def test_tiers_have_no_holes_and_quotes_are_doubled():
    text = transcript(TimedText('say "x"', 1.0, 2.0), TimedText("y", 2.0, 5.0)).written("textgrid")
    words = text.partition('name = "words"')[2].partition('name = "tokens"')[0]
    starts, ends = (re.findall(rf"            {side} = (.*)", words) for side in ("xmin", "xmax"))
    assert starts == ["0.000000", "1.000000", "2.000000"]
    assert ends == ["1.000000", "2.000000", "5.000000"]
    assert 'text = "say ""x"""' in words


def test_a_recording_is_silent_if_all_of_it_is_and_clipped_if_any_is():
    def note(*notes):
        return join_windows([replace(transcript(TimedText("a", 0, 1)), note=one) for one in notes]).note

    assert note(SILENT, SILENT) == SILENT
    assert note(SILENT, "") == ""
    assert note(SILENT, CLIPPED, "") == CLIPPED
    assert join_windows([transcript(TimedText("a", 0, 1)), transcript()]).text == "a"


def test_what_is_heard_twice_at_once_is_put_in_order():
    found = in_order([TimedText("a", 1.0, 2.0), TimedText("b", 0.5, 3.0), TimedText("c", 1.5, 9.0)], 4.0)
    assert [(h.start, h.end) for h in found] == [(1.0, 1.0), (1.0, 1.5), (1.5, 4.0)]


def test_mistakes_in_a_recipe_are_told():
    with pytest.raises(CallError) as error:
        regard.config.read(
            "tones", ["data.sound.hop=0.5", "data.name_text=x(", "data.tokenizer.joint=true", "model.tied=all"]
        )
    message = str(error.value)
    for part in ("would be lost", "no regular expression", "has one text only", "one vocabulary for both texts"):
        assert part in message


def test_attention_is_kept_as_training_goes_on(trained):
    run, _ = trained
    history, best = run.history_of_looks(), run.summary()["best"]["step"]
    record = history.records[history.steps.index(best)]
    assert re.fullmatch(r"recording \d+ of .*calls", record.input)
    assert record.output in texts()
    for attention in record.attentions:
        np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
