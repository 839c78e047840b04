"""The user's recordings: lists, folders and tars; what is bad is named; batches follow from seed and epoch alone."""

import json
import tarfile
from shutil import copyfile

import numpy as np
import pytest
import soundfile
import torch

from regard.corpora.tones import call, write
from regard.data.pairs import SkippedLine
from regard.data.prepare import PrepareCache
from regard.data.vocabulary import OURS
from regard.errors import CallError, RegardError
from regard.inputs.media_files import Entry
from regard.inputs.sound.examples import SoundExamples
from regard.inputs.sound.features import frame_count
from regard.inputs.sound.item import SoundSource
from regard.inputs.sound.recording import read_sound
from regard.inputs.sound.settings import JoinSettings
from regard.job import make_job
from regard.special_tokens import END
from regard.tasks.text.settings import SpeechDataSettings, TranscribeRecipe

SOUND = {"rate": 4000, "bands": 7}


def settings(train, **more):
    return SpeechDataSettings.model_validate({"train": str(train), "sound": SOUND, **more})


def job_of(data, **training):
    model = {"kind": "recurrent", "pyramid": 2}
    return make_job(TranscribeRecipe.model_validate({"data": data.model_dump(), "model": model, "training": training}))


def prepared_job(data, cache, **training):
    job = job_of(data, **training)
    job.prepare(cache)
    return job


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Twelve calls as files, with a list in each format and a tar of them."""
    folder = tmp_path_factory.mktemp("calls")
    files = write(folder / "wavs", "train", 12)
    texts = [file.with_suffix(".txt").read_text().strip() for file in files]
    rows = [(f"wavs/{file.name}", text) for file, text in zip(files, texts, strict=True)]
    (folder / "list.tsv").write_text("".join(f"{path}\t{text}\n" for path, text in rows))
    (folder / "named.csv").write_text("id,text,path\n" + "".join(f"7,{text},{path}\n" for path, text in rows))
    lines = [json.dumps({"path": path, "text": text}) for path, text in rows]
    (folder / "list.jsonl").write_text("\n".join(lines))
    with tarfile.open(folder / "calls.tar", "w") as packed:
        packed.add(folder / "wavs", "wavs")
    return folder


def splits_of(data, cache):
    return PrepareCache(data, cache, strict=False).splits(SoundSource.by_role(data))


def read(data):
    return list(SoundSource.by_role(data)["train"].read())


@pytest.mark.parametrize("name", ["list.tsv", "named.csv", "list.jsonl", "wavs", "calls.tar"])
def test_every_way_to_give_recordings_gives_the_same(calls, name):
    items = read(settings(calls / name, valid=str(calls / "wavs")))
    found = [(item.texts[0], read_sound(item.place)) for item in items if isinstance(item, Entry)]
    assert [text for text, _ in found] == [call("train", number).text for number in range(12)]
    np.testing.assert_allclose(found[3][1].samples, call("train", 3).samples, atol=1e-4)


def test_texts_in_names_and_roles_by_names(tmp_path):
    for digit in range(3):
        for take in range(4):
            soundfile.write(tmp_path / f"{digit}_ann_{take}.wav", np.ones(50), 8000)
    data = settings(
        tmp_path, name_text=r"(?P<text>\d)_", spoken={"1": "one"}, test_names=r"_0\.wav", valid_names=r"_1\.wav"
    )
    splits = {role: [item.name for item in split.read()] for role, split in splits_of(data, tmp_path / "c").items()}
    assert splits["test"] == ["0_ann_0.wav", "1_ann_0.wav", "2_ann_0.wav"]
    assert splits["valid"] == ["0_ann_1.wav", "1_ann_1.wav", "2_ann_1.wav"]
    assert len(splits["train"]) == 6
    assert not set(splits["train"]) & {*splits["test"], *splits["valid"]}
    assert {item.texts for item in read(data)} == {("0",), ("one",), ("2",)}


def test_what_is_held_out_is_not_trained_on(calls, tmp_path):
    splits = splits_of(settings(calls / "wavs", valid_share=0.4), tmp_path)
    train, valid = ({item.name for item in splits[role].read()} for role in ("train", "valid"))
    assert train
    assert valid
    assert not train & valid
    assert len(train | valid) == 12


def bad_folder(folder):
    good = call("train", 0)
    soundfile.write(folder / "good.wav", good.samples, good.rate)
    soundfile.write(folder / "silent.wav", np.zeros(4000), 8000)
    soundfile.write(folder / "clipped.wav", np.clip(20 * good.samples, -1, 1), good.rate)
    soundfile.write(folder / "none.wav", np.zeros(0), 8000)
    (folder / "text.wav").write_text("this is not sound")
    (folder / "empty.wav").write_bytes(b"")
    (folder / "cut.wav").write_bytes((folder / "good.wav").read_bytes()[:-999])
    names = ["good", "silent", "clipped", "none", "text", "empty", "cut", "missing"]
    (folder / "list.tsv").write_text("".join(f"{name}.wav\t{good.text}\n" for name in names) + "good.wav\t\n")
    return folder / "list.tsv", good


def test_bad_recordings_are_named_with_their_line_and_refused_if_many(tmp_path):
    data = settings(bad_folder(tmp_path)[0], valid=str(tmp_path / "list.tsv"))
    with pytest.raises(RegardError) as error:
        prepared_job(data, tmp_path / "cache")
    message = str(error.value)
    assert "7 of 9" in message
    assert "list.tsv:4: none.wav has no samples" in message
    assert "list.tsv:2: silent.wav is silent, but has a text" in message


def test_bad_recordings_are_checked_and_skipped_if_that_is_allowed(tmp_path):
    file, good = bad_folder(tmp_path)
    data = settings(file, valid=str(file), max_bad=0.9)
    job = prepared_job(data, tmp_path / "cache")
    store = job.splits["train"].store
    assert [entry.texts for entry in store.entries] == [(good.text,), (good.text,)]
    assert store.lines.tolist() == [1, 3]
    report = job.check(tmp_path / "cache")
    told = "\n".join(f"{finding.what} {finding.lines}" for finding in report.findings if finding.split == "train")
    assert f"4 recordings cannot be used: none.wav has no samples: {good.text!r} (the first) [4, 5, 6, 7]" in told
    assert "1 recording cannot be used: there is no recording 'missing.wav' in" in told
    assert "2 recordings cannot be used: the text is empty: 'good.wav' (the first) [9, 2]" in told
    assert "1 recording clipped" in told
    assert any("that training has too" in finding.what for finding in report.findings)
    assert not report.errors


def test_a_text_that_cannot_belong_to_its_sound_is_suspected(tmp_path, calls):
    rows = (calls / "list.tsv").read_text().replace("wavs/", f"{calls}/wavs/").splitlines()
    copyfile(rows[0].partition("\t")[0], tmp_path / "again.wav")
    rows.append("again.wav\t" + "5" * 300)
    (tmp_path / "list.tsv").write_text("\n".join(rows))
    data = settings(tmp_path / "list.tsv", valid=str(calls / "wavs"))
    report = job_of(data).check(tmp_path / "cache")
    assert [f.lines for f in report.findings if "more tokens of text than the model has vectors" in f.what] == [[13]]


def test_a_folder_without_texts_and_places_that_are_not_there(tmp_path):
    soundfile.write(tmp_path / "x.wav", np.ones(50), 8000)
    (bad,) = read(settings(tmp_path, valid=str(tmp_path)))
    assert isinstance(bad, SkippedLine)
    assert "it has no text: add a .txt file" in bad.reason
    with pytest.raises(CallError, match="no such file or folder"):
        read(settings(tmp_path / "nowhere", valid=str(tmp_path)))
    with pytest.raises(CallError, match="is one recording"):
        read(settings(tmp_path / "x.wav", valid=str(tmp_path)))
    with pytest.raises(CallError, match="corpus of recordings 'tone'; did you mean 'tones'"):
        read(settings("corpus:tone"))


@pytest.fixture(scope="module")
def prepared(calls, tmp_path_factory):
    return prepared_job(settings(calls / "wavs", valid=str(calls / "wavs")), tmp_path_factory.mktemp("cache"))


def test_the_store_gives_back_sound_text_and_gold(prepared, tmp_path):
    assert len(prepared.splits["train"].store) == 12
    data = settings("corpus:tones", sound={"rate": 8000})
    input, truth = job_of(data).input, call("valid", 5)
    store = input.open_store(PrepareCache(data, tmp_path), "valid", splits_of(data, tmp_path)["valid"])
    made = input.examples({"valid": store}, prepared.output.vocabulary, None)["valid"]
    example = made.every()[5]
    np.testing.assert_allclose(example.input.load(), truth.samples, atol=2e-5)
    assert example.texts == (truth.text,)
    assert example.gold == truth.segments
    assert made.target(5).tolist() == [*prepared.output.vocabulary.encode(truth.text), END]


def as_lists(batches):
    return [(batch.source.values, batch.source.lengths, batch.target) for batch in batches]


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("join", [None, {"fewest": 2, "most": 3, "train": 9}])
def test_batches_follow_from_seed_and_epoch(calls, tmp_path, join):
    how = {"speeds": [0.9, 1.0, 1.1], "band_masks": 1, "time_masks": 1, "noise": 20}
    data = settings(calls / "wavs", valid=str(calls / "wavs"), augment=how, join=join)

    def batches(seed=1):
        return prepared_job(data, tmp_path, seed=seed, max_tokens=2500).batches()

    whole = as_lists(batches().epoch(2))
    assert batches().len_epoch(2) == len(whole) > 1
    assert same(as_lists(batches().epoch(2, start=1)), whole[1:])
    assert not same(as_lists(batches().epoch(3)), whole)
    assert not same(as_lists(batches(seed=2).epoch(2)), whole)
    shares = [as_lists(batches().epoch(2, rank=rank, world=2)) for rank in (0, 1)]
    for (_, _, target), *parts in zip(whole, *shares, strict=True):
        assert sum((part[2][:, 0] != 0).sum() for part in parts) == len(target)


def test_joined_recordings_stand_one_after_the_other(prepared):
    store, vocabulary = prepared.splits["train"].store, prepared.output.vocabulary
    how, rate = JoinSettings(fewest=3, most=3, gap=(0.1, 0.1)), SOUND["rate"]
    joined = SoundExamples(store, prepared.recipe.data.sound, vocabulary, join=how, sequences=5, seed=4)
    one, (text,), segments = joined.examples(5)[2]
    assert text == " ".join(segment.text for segment in segments)
    assert len(segments) == 3
    assert joined.target(2).tolist() == [*vocabulary.encode(text), END]
    originals, samples = {store.entries[row].texts[0]: store.samples(row) for row in range(12)}, one.load()
    for segment in segments:
        piece = samples[round(segment.start * rate) : round(segment.end * rate)]
        np.testing.assert_array_equal(piece, originals[segment.text])
    assert joined.lengths()[0][2] == frame_count(len(samples), prepared.recipe.data.sound)
    assert segments[1].start == pytest.approx(segments[0].end + 0.1)


def test_nothing_is_changed_where_it_is_measured(calls, tmp_path):
    wavs = str(calls / "wavs")
    how = {"speeds": [0.5], "band_masks": 2}
    job = prepared_job(settings(wavs, valid=wavs, augment=how), tmp_path)
    valid = job.output.batches(job.splits["valid"], 3000)
    found = {int(length) for batch in valid.epoch(0) for length in batch.source.lengths}
    items = [job.input.read(example.input) for example in job.splits["valid"].examples(99)]
    assert len(items) == 12
    assert found == {len(item.features) for item in items}
    assert same(as_lists(valid.epoch(1, start=valid.len_epoch(1))), [])
    first = next(iter(valid.in_order()))
    np.testing.assert_array_equal(
        first[1].source.values[0, : len(items[first[0][0]].features)], items[first[0][0]].features
    )


def test_a_recording_that_is_too_long_for_a_batch_is_named(calls, tmp_path):
    job = prepared_job(settings(calls / "wavs", valid=str(calls / "wavs")), tmp_path, max_tokens=20)
    with pytest.raises(CallError, match="max_tokens"):
        job.batches().len_epoch(0)


def test_training_data_that_is_all_too_long_is_refused(calls, tmp_path):
    data = settings(calls / "wavs", valid=str(calls / "wavs"), max_seconds=0.1)
    with pytest.raises(RegardError, match=r"all 12 recordings are longer than data\.max_seconds=0\.1 or"):
        prepared_job(data, tmp_path)


def test_targets_are_what_the_vocabulary_of_the_output_says(calls, tmp_path):
    """Nothing in the input knows that they are texts: a classifier has labels, and no decoder."""

    class Labels:
        learns_from_all = True
        key, size, specials = "labels", 10, OURS

        def learn(self, texts):
            self.names = sorted({text[0] for text in texts})
            return self

        def load(self, written):
            self.names = json.loads(written)
            return self

        def to_json(self):
            return json.dumps(self.names)

        def encode_batch(self, texts):
            return [[self.names.index(text[0])] for text in texts]

    input, labels = job_of(settings(calls / "wavs", valid=str(calls / "wavs"))).input, Labels()
    train = input.prepare(tmp_path, labels)["train"]
    wanted = [labels.names.index(call("train", row).text[0]) for row in range(12)]
    assert [train.target(row)[0] for row in range(12)] == wanted
    memory = input.encoder()(train.source(np.arange(3), 0))
    assert memory.vectors.shape[2] == input.encoder().memory_width
