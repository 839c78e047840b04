"""Sound files, resampling, features and windows, against references written from the textbook."""

import io

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import soundfile
import torch

from regard.corpora.tones import FREQUENCIES, RATE, SIZES, call, tones, write
from regard.errors import CallError
from regard.inputs.sound.features import frame_count, log_mel, mel_filters, spec_augment
from regard.inputs.sound.item import SoundSource
from regard.inputs.sound.recording import (
    Sound,
    SoundError,
    SoundFile,
    is_clipped,
    is_silent,
    read_sound,
    resample,
    windows,
)
from regard.inputs.sound.settings import AugmentSettings, SoundSettings


def sine(frequency, rate, seconds=0.5):
    return np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate).astype(np.float32)


# ----------------------------------------------------------------------------------------------------------- resampling
@pytest.mark.parametrize(("rate", "wanted"), [(44100, 16000), (8000, 16000), (22050, 8000), (11, 10), (9, 10)])
def test_resampling_keeps_what_both_rates_can_carry(rate, wanted):
    frequency = 0.2 * min(rate, wanted)
    sound = sine(frequency, rate, seconds=4000 / rate)
    ours, exact = resample(sound, rate, wanted), sine(frequency, wanted, seconds=4000 / rate)
    assert len(ours) == np.ceil(len(sound) * wanted / rate)
    inner = slice(100, min(len(ours), len(exact)) - 100)
    assert np.abs(ours[inner] - exact[inner]).max() < 1e-3
    scipys = scipy.signal.resample_poly(sound, *_smallest(wanted, rate))
    assert np.abs(ours[inner] - scipys[inner]).max() < 2e-2  # scipy's filter is the shorter, less exact one


def _smallest(up, down):
    common = np.gcd(up, down)
    return up // common, down // common


def test_what_the_lower_rate_cannot_carry_is_gone_and_no_alias():
    above = resample(sine(6000, 16000), 16000, 8000)
    assert np.abs(above[200:-200]).max() < 1e-3


def test_nothing_is_done_to_sound_at_the_right_rate():
    sound = sine(440, 8000)
    assert resample(sound, 8000, 8000) is sound


# ------------------------------------------------------------------------------------------------------------- features
def textbook_log_mel(samples, rate, bands, window, hop, points):
    """Frame by frame and band by band, as the formulas say."""
    size, step = round(window * rate), round(hop * rate)
    frames = 1 + max(0, int(np.ceil((len(samples) - size) / step)))
    padded = np.concatenate([samples, np.zeros(size + frames * step)]).astype(np.float64)
    mel = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    table = np.zeros((frames, bands))
    hann = scipy.signal.get_window("hann", size)  # periodic
    for t in range(frames):
        power = np.abs(scipy.fft.fft(padded[t * step : t * step + size] * hann, points)[: points // 2 + 1]) ** 2
        for b in range(bands):
            weights = np.interp(np.arange(points // 2 + 1) * rate / points, edges[b : b + 3], [0, 1, 0])
            table[t, b] = np.log10(max(1e-20, (weights * power).sum()))
    table = np.maximum(table, table.max() - 8)
    table -= table.mean(axis=0)
    return table / table.std()


@pytest.mark.parametrize(("rate", "bands", "samples"), [(8000, 23, 3001), (16000, 40, 5000)])
def test_features_are_those_of_the_textbook(rate, bands, samples):
    chance = np.random.default_rng(0)
    sound = (chance.standard_normal(samples) * np.linspace(0, 1, samples)).astype(np.float32)
    settings = SoundSettings(rate=rate, bands=bands)
    ours = log_mel(sound, settings)
    theirs = textbook_log_mel(sound, rate, bands, 0.025, 0.010, 512)
    assert ours.shape == theirs.shape == (frame_count(samples, settings), bands)
    np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_features_do_not_depend_on_the_level():
    sound, settings = call("test", 0).samples, SoundSettings(rate=RATE)
    np.testing.assert_allclose(log_mel(sound, settings), log_mel(sound * 0.01, settings), atol=1e-3, rtol=0)


def test_every_band_hears_something():
    for rate, bands in [(8000, 40), (16000, 80)]:
        assert (mel_filters(rate, 512, bands).sum(0) > 0).all()


def test_silence_and_a_single_sample_have_features():
    settings = SoundSettings(rate=8000, bands=5)
    assert np.isfinite(log_mel(np.zeros(400, np.float32), settings)).all()
    assert log_mel(np.ones(1, np.float32), settings).shape == (1, 5)


def test_spec_augment_blots_out_whole_bands_and_stretches():
    features = np.ones((100, 20), np.float32)
    how = AugmentSettings(band_masks=1, band_width=7, time_masks=1, time_width=0.3, time_share=0.5)
    for seed in range(20):
        masked = spec_augment(features, how, 0.01, np.random.default_rng(seed)) == 0
        bands, frames = masked.all(0), masked.all(1)
        assert np.array_equal(masked, bands | frames[:, None])
        assert bands.sum() <= 7
        assert frames.sum() <= 30
    assert (features == 1).all()  # a copy
    again = [spec_augment(features, how, 0.01, np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*again)


# ---------------------------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3"])
def test_formats(tmp_path, ending):
    stereo = np.stack([sine(300, 16000), 0.5 * sine(300, 16000)], axis=1)
    soundfile.write(tmp_path / f"x.{ending}", stereo, 16000)
    sound = read_sound(tmp_path / f"x.{ending}")
    assert sound.rate == 16000
    strength = np.sqrt(2 * np.mean(sound.samples[2000:6000] ** 2))
    assert strength == pytest.approx(0.75, abs=0.02)  # the mean of the channels
    assert SoundSource.is_one(f"x.{ending}")


def wav(samples, rate=8000, **how):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", **how)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no bytes"),
        (b"this is a text, not a sound\n" * 20, "is not sound"),
        (wav(sine(300, 8000))[:-1000], "cut short: 1,000 bytes"),
        (wav(np.zeros(0, np.float32)), "no samples"),
        (wav(np.array([0.1, np.nan, 0.2], np.float32), subtype="FLOAT"), "NaN"),
    ],
    ids=["empty", "text", "truncated", "zero length", "nan"],
)
def test_what_is_no_sound_says_why(content, reason):
    with pytest.raises(SoundError, match=reason):
        read_sound(content)


def test_a_flac_that_breaks_off_is_found(tmp_path):
    soundfile.write(tmp_path / "x.flac", np.random.default_rng(0).uniform(-1, 1, 30_000), 8000)
    whole = (tmp_path / "x.flac").read_bytes()
    with pytest.raises(SoundError, match=r"cut short|breaks off"):
        read_sound(whole[: len(whole) // 2])


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SoundError, match="no such file"):
        SoundFile(tmp_path / "x.wav")


def test_silent_and_clipped():
    loud = np.clip(3 * sine(200, 8000), -1, 1)
    assert is_silent(np.zeros(9, np.float32))
    assert is_silent(sine(200, 8000) * 1e-5)
    assert not is_silent(sine(200, 8000) * 1e-2)
    assert is_clipped(loud)
    assert not is_clipped(np.random.default_rng(0).standard_normal(9000).astype(np.float32) / 5)


# -------------------------------------------------------------------------------------------------------------- windows
def test_windows_are_the_whole_recording_cut_where_it_is_quiet(tmp_path):
    rate, chance = 1000, np.random.default_rng(0)
    sound = chance.uniform(-1, 1, 10_000).astype(np.float32)
    quiet = [(2500, 2900), (6100, 6400)]
    for start, stop in quiet:
        sound[start:stop] *= 0.001
    soundfile.write(tmp_path / "x.wav", sound, rate, subtype="FLOAT")
    with SoundFile(tmp_path / "x.wav") as file:
        found = list(windows(file, 4.0))
    np.testing.assert_allclose(np.concatenate([one.sound.samples for one in found]), sound, atol=1e-6)
    assert all(one.sound.seconds <= 4.0 for one in found)
    cuts = [round(one.start * rate) for one in found[1:]]
    assert all(any(start <= cut < stop for start, stop in quiet) for cut in cuts)
    assert len(cuts) == 2
    in_memory = list(windows(Sound(sound, rate), 4.0))
    assert [one.start for one in in_memory] == [one.start for one in found]


def test_a_long_recording_is_never_read_whole(monkeypatch):
    rate, read = 1000, []

    class Endless(SoundFile):
        def __init__(self):
            self.rate, self.length = rate, 500 * rate

        def read(self, start=0, count=None):
            read.append(count)
            return np.ones(min(count, self.length - start), np.float32)

    assert sum(one.sound.seconds for one in windows(Endless(), 7.0)) == pytest.approx(500)
    assert max(read) == 7 * rate


# ---------------------------------------------------------------------------------------------------------------- tones
def test_tones_sound_as_their_keys_do_when_they_say():
    for number in range(8):
        made = call("train", number)
        assert "".join(segment.text for segment in made.segments) == made.text
        for segment in made.segments:
            piece = made.samples[round(segment.start * RATE) : round(segment.end * RATE)]
            power = np.abs(np.fft.rfft(piece * np.hanning(len(piece)), 8000)) ** 2  # one point for each Hz
            low, high = power[600:1050].argmax() + 600, power[1100:1600].argmax() + 1100
            assert (low, high) == pytest.approx(FREQUENCIES[segment.text], abs=12)
        ends = [segment.end for segment in made.segments]
        assert all(b.start >= a for a, b in zip(ends, made.segments[1:], strict=False))
        assert ends[-1] <= len(made.samples) / RATE


def test_tones_are_the_same_on_every_machine_and_differ_between_splits():
    np.testing.assert_array_equal(call("test", 7).samples, call("test", 7).samples)
    texts = {split: {call(split, number).text for number in range(60)} for split in SIZES}
    assert call("test", 0).text == "".join(segment.text for segment in next(tones("test")).segments)
    assert texts["train"] != texts["test"]
    with pytest.raises(CallError, match="did you mean"):
        tones("tset")


def test_calls_as_files(tmp_path):
    files = write(tmp_path, "test", 2)
    assert [file.name for file in files] == ["test-000.wav", "test-001.wav"]
    assert files[0].with_suffix(".txt").read_text().strip() == call("test", 0).text
    np.testing.assert_allclose(read_sound(files[0]).samples, call("test", 0).samples, atol=1e-4)


@pytest.mark.parametrize(
    "given",
    [
        np.stack([np.full(900, 0.5), np.full(900, 0.25)], 1),  # samples × channels, as soundfile has them
        np.stack([np.full(900, 0.5), np.full(900, 0.25)]),  # channels × samples, as torchaudio has them
        np.full(900, 0.375),
        np.full(900, round(0.375 * 32767), np.int16),
        np.full(900, round(0.375 * 2**15) + 2**15, np.uint16),
        torch.full((1, 900), 0.375),
        [0.375] * 900,
    ],
    ids=["stereo", "channels first", "float64", "int16", "uint16", "tensor", "list"],
)
def test_samples_of_any_usual_shape_are_one_channel(given):
    sound = Sound(given, 8000)
    assert sound.samples.shape == (900,)
    assert sound.samples.dtype == np.float32
    np.testing.assert_allclose(sound.samples, 0.375, atol=1e-4)


def test_bytes_are_samples_around_128():
    np.testing.assert_array_equal(
        Sound(np.array([0, 64, 128, 192, 255], np.uint8), 8000).samples[:4], [-1, -0.5, 0, 0.5]
    )


@pytest.mark.parametrize(
    ("samples", "rate", "problem"),
    [
        (np.zeros((3, 4, 5)), 8000, r"shape \(3, 4, 5\) is not sound"),
        (np.array(["a"]), 8000, "is not sound"),
        (np.array([0.0, np.nan]), 8000, "some samples are NaN"),
        (np.zeros(9), 0.5, r"rate=0\.5"),
    ],
)
def test_what_is_no_sound_is_refused(samples, rate, problem):
    with pytest.raises(CallError, match=problem):
        Sound(samples, rate)
