"""A recording as the bytes of a WAV file."""

import io
import wave

import numpy as np

from regard.inputs.sound.recording import Sound


def as_wav(sound: Sound) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, round(sound.rate), 0, "NONE", ""))
        written.writeframes((np.clip(sound.samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()
