// From the microphone to a WAV file: whatever the browser records is decoded and written again, 16 bits, one channel.

/** Starts at once; `stop()` of what comes back gives a Blob. */
export async function recordSound() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream);
  const parts = [];
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  const ended = new Promise((resolve) => { recorder.addEventListener("stop", resolve, { once: true }); });
  recorder.start();
  return {
    async stop() {
      recorder.stop();
      await ended;
      for (const track of stream.getTracks()) track.stop();
      const context = new AudioContext();
      const sound = await context.decodeAudioData(await new Blob(parts).arrayBuffer());
      await context.close();
      return wav(sound.getChannelData(0), sound.sampleRate);
    },
  };
}

export function wav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, 2 * rate, 4], [32, 2, 2], [34, 16, 2]].forEach(([at, value, size]) =>
    (size === 4 ? view.setUint32(at, value, true) : view.setUint16(at, value, true)));
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(44 + 2 * i, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new Blob([view], { type: "audio/wav" });
}
