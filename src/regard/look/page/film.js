// Decoding as a film: the output appears word by word, with where it looked and what else was probable. Another word can be
// chosen, and the model goes on from there.
import { prefixBefore } from "./data.js";
import { element } from "./paint.js";
import { percent } from "./words.js";

const PACE = 800; // milliseconds a word

/** `goOn({prefix} or {output})`: asks the model again; null: nobody is there to ask. Gives back `stop`. */
export function drawFilm(place, record, steps, from, focus, reveal, goOn) {
  const last = steps.length - 1;
  const play = element("button", { type: "button", className: "play", ariaLabel: "Play", textContent: "▶" });
  const slider = element("input", { type: "range", name: "film", min: from, max: last, value: last, ariaLabel: "step of decoding" });
  const told = element("output", { className: "told" });
  const heading = element("h2");
  const next = element("ol", { className: "next" });
  const tokens = record.axes.target.tokens;
  let timer = 0;

  function show(step) {
    slider.value = step;
    slider.setAttribute("aria-valuetext", `step ${step - from + 1} of ${last - from + 1}`);
    told.textContent = `step ${step - from + 1} of ${last - from + 1}`;
    reveal(step);
    focus.pin({ row: step }, false);
  }

  function choices(step) {
    heading.textContent = `Most probable at step ${step - from + 1}`;
    const { next: tokensThere, first } = steps[step];
    const best = Math.max(...tokensThere.map((one) => one.log_probability));
    next.replaceChildren(...tokensThere.map((one) => {
      const share = Math.exp(one.log_probability);
      const bar = element("span", { className: "share" });
      bar.style.width = `${(100 * share) / Math.exp(best)}%`;
      const written = one.text === tokens[first].text;
      const parts = [element("bdi", { textContent: one.text }), element("span", { className: "track" }, bar), element("span", { className: "number", textContent: percent(share) })];
      const line = goOn && !written ? element("button", { type: "button", title: "go on from here with this word" }, ...parts) : element("span", { className: "line" }, ...parts);
      line.classList.toggle("written", written);
      if (goOn && !written) line.addEventListener("click", () => goOn(one.piece ? { prefix: prefixBefore(record, first, one.piece) } : { output: prefixBefore(record, first, "") }));
      return element("li", {}, line);
    }));
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.ariaLabel = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    show(Number(slider.value) >= last ? from : Number(slider.value));
    play.textContent = "❚❚";
    play.ariaLabel = "Pause";
    timer = setInterval(() => (Number(slider.value) >= last ? stop() : show(Number(slider.value) + 1)), PACE);
  });
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  told.textContent = `${last - from + 1} steps`;
  place.append(
    element("div", { className: "reel" }, play, slider, told),
    element("div", { className: "ahead-of" }, heading, next),
  );
  const shown = () => Math.min(last, Math.max(from, focus.now.row ?? last));
  focus.listen(() => choices(shown()));
  return stop;
}
