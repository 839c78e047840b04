// Decoding as a film: the output appears step by step, with where it looked and what else was probable. Another word can be
// chosen, and the model goes on from there. Texts appear word by word, drawings region by region.
import { prefixBefore } from "./data.js";
import { element } from "./paint.js";
import { percent } from "./words.js";

const PACE = 800; // milliseconds a word
const WHOLE = 12_000; // milliseconds of a film at most

/** ▶ and a slider over steps `from` to `last`; `show(step)` is told of each. Gives back {stop(), play(step)}. */
function drawReel(place, from, last, show) {
  const play = element("button", { type: "button", className: "play", ariaLabel: "Play", textContent: "▶" });
  const slider = element("input", { type: "range", name: "film", min: from, max: last, value: last, ariaLabel: "step of decoding" });
  const told = element("output", { className: "told", textContent: `${last - from + 1} steps` });
  let timer = 0;

  function go(step) {
    slider.value = step;
    told.textContent = `step ${step - from + 1} of ${last - from + 1}`;
    slider.setAttribute("aria-valuetext", told.textContent);
    show(step);
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶";
    play.ariaLabel = "Play";
  }

  function start(step) {
    stop();
    go(step);
    play.textContent = "❚❚";
    play.ariaLabel = "Pause";
    timer = setInterval(() => {
      go(Math.min(last, Number(slider.value) + 1));
      if (Number(slider.value) >= last) stop();
    }, Math.min(PACE, WHOLE / (last - from + 1)));
  }

  play.addEventListener("click", () => (timer ? stop() : start(Number(slider.value) >= last ? from : Number(slider.value))));
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value));
  });
  place.append(element("div", { className: "reel" }, play, slider, told));
  return { stop, play: (step) => step < last && start(Math.max(from, step)) };
}

/** Of a text. `goOn({prefix} or {output})`: asks the model again; null: nobody is there to ask. Gives back {stop, play}. */
export function drawFilm(place, record, steps, from, focus, reveal, goOn) {
  const last = steps.length - 1;
  const heading = element("h2");
  const next = element("ol", { className: "next" });
  const tokens = record.axes.target.tokens;

  function choices(step) {
    heading.textContent = `Most probable at step ${step - from + 1}`;
    const { next: tokensThere, first } = steps[step];
    next.replaceChildren(...tokensThere.map((one) => {
      const share = Math.exp(one.log_probability);
      const bar = element("span", { className: "share" });
      bar.style.width = `${100 * share}%`;
      const written = one.text === tokens[first].text;
      const parts = [element("bdi", { textContent: one.text }), element("span", { className: "track" }, bar), element("span", { className: "number", textContent: percent(share) })];
      const line = goOn && !written ? element("button", { type: "button", title: "continue from here with this word" }, ...parts) : element("span", { className: "line" }, ...parts);
      line.classList.toggle("written", written);
      if (goOn && !written) line.addEventListener("click", () => goOn(one.piece ? { prefix: prefixBefore(record, first, one.piece) } : { output: prefixBefore(record, first, "") }));
      return element("li", {}, line);
    }));
  }

  const reel = drawReel(place, from, last, (step) => {
    reveal(step);
    focus.pin({ row: step }, false);
  });
  place.append(element("div", { className: "ahead-of" }, heading, next));
  const shown = () => Math.min(last, Math.max(from, focus.now.row ?? last));
  focus.listen(() => choices(shown()));
  return reel;
}

/** Of a drawing: the picture after every few regions, and the words that the last of them looked at. Gives back {stop, play}. */
export function drawDrawing(place, { frames, regions }, focus) {
  const last = frames.length - 1;
  const image = element("img", { className: "drawing" });
  const show = (step) => {
    image.src = `data:image/png;base64,${frames[step]}`;
    image.alt = `the drawing after ${regions[step]} of ${regions[last]} regions`;
  };
  const reel = drawReel(place, 0, last, (step) => {
    show(step);
    focus.pin({ column: regions[step] - 1 }, false);
  });
  show(last);
  place.append(element("div", { className: "ahead-of" }, element("h2", { textContent: "The drawing, region by region" }), image));
  return reel;
}
