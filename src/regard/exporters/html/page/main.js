// The page of a model that lives in it: an input, what the model makes of it, and where it looked.
import { drawExamples } from "../../../serve/page/examples.js";
import { mount } from "../../../look/page/app.js";
import { element } from "../../../look/page/paint.js";
import { Exported } from "../runtime/answer.js";

/** `about`: {name, line, examples, methods, kinds}; `model`: what `Exported` is made of. */
export function begin(root, { about, model: payload, check }) {
  const model = new Exported(payload);
  if (check) return answerCheck(root, model, check);
  const picture = payload.input.kind === "image";
  const form = element("form", { className: "regard ask", ariaLabel: "model input" });
  const typed = element("textarea", { name: "text", rows: 2, dir: "auto" });
  const file = element("input", { type: "file", accept: "image/*", name: "file" });
  const given = picture
    ? element("label", { className: "file" }, "Picture ", file)
    : element("label", { className: "field" }, payload.output.kind === "continuation" ? "Prompt " : "Text ", typed);
  const temperature = element("input", { type: "range", name: "temperature", min: 0, max: 1.5, step: 0.1, value: 0 });
  const chance = payload.output.kind === "continuation" ? element("label", { className: "tick" }, "temperature ", temperature) : "";
  const status = element("p", { id: "status", role: "status" });
  const examples = element("div", { className: "examples", role: "group", ariaLabel: "examples from the validation data" });
  const seen = element("main", { id: "seen" });
  form.append(
    element("div", { className: "top" }, element("strong", { className: "brand", textContent: "regard" })),
    element("h1", { id: "name", textContent: about.name }), element("p", { id: "line", textContent: about.line }),
    element("div", { className: "input" }, given, chance, element("button", { type: "submit", className: "go", textContent: "Run" })),
    examples, status,
  );
  root.append(form, seen);
  const press = drawExamples(examples, about.examples, async (example) => {
    if (picture) show(await pixelsOf(await decoded(`data:image/png;base64,${example.image}`), payload.input), example.text);
    else {
      typed.value = example.text;
      show(example.text, example.text);
    }
  });
  let page = null;
  let last = null;

  function show(input, name, options = {}) {
    last = { input, name };
    press(name);
    page?.close();
    const began = performance.now();
    try {
      const found = model.answer(input, { temperature: Number(temperature.value), ...options });
      status.textContent = `${Math.round(performance.now() - began)} ms, in this browser: nothing was sent anywhere.`;
      const place = element("div");
      seen.replaceChildren(place);
      const goOn = ({ prefix, output }) => (payload.output.kind === "text" ? show(input, name, { prefix: prefix ?? output }) : show(input + (prefix ?? output), name));
      page = mount(place, documentOf(found, about, picture ? name : input), { acts: { weight: async (cell) => model.weight(found, about.kinds, cell), ...(payload.output.kind === "labels" ? {} : { goOn }) }, level: "h2" });
    } catch (error) {
      status.textContent = error.message;
      seen.replaceChildren();
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (picture) {
      if (last) show(last.input, last.name);
    } else if (typed.value.trim()) show(typed.value, typed.value);
  });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      show(await pixelsOf(await createImageBitmap(chosen), payload.input), chosen.name);
    } catch {
      status.textContent = `${chosen.name} is no picture that this browser can read.`;
    }
  });
  examples.querySelector("button")?.click();
  return undefined;
}

/** What `mount` takes, of one answer. */
function documentOf(found, about, input) {
  const order = Object.keys(about.kinds), attentions = found.attentions.map((one) => ({ ...one, weights: base64(one.weights) }))
    .sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  const record = { ...found, attentions, input, method: "raw", model: about.name, without: [], gold: null, evidence: [], beams: [] };
  const cards = {};
  for (const { kind, layer, shape } of found.attentions) {
    const heads = Array.from({ length: shape[0] }, (_, head) => head), of = `Attention ${about.kinds[kind]}`;
    for (const which of ["all", layer]) for (const head of ["mean", "max", ...heads]) {
      const where = which === "all" ? "" : `, layer ${layer}`;
      cards[`${kind}/${which}/${head}`] ??= { title: `${of}${where}${shape[0] > 1 ? `, ${typeof head === "number" ? `head ${head}` : `${head} of heads`}` : ""}`, figures: [], sentence: "", head: { line: "" } };
    }
  }
  const first = attentions[0]?.kind;
  if (!first) throw new Error(`It says: ${found.output}. This model has no attention to look at.`);
  const view = found.axes.source?.grid ? "overlay" : "matrix";
  return {
    open: { view, kind: first, layer: "all", head: "mean", log: false }, records: [record], cards, methods: about.methods,
    kinds: about.kinds, tree: [], scores: [found.score],
  };
}

function base64(weights) {
  const bytes = new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}

function decoded(address) {
  return new Promise((resolve, reject) => {
    const image = element("img", { src: address, alt: "" });
    image.addEventListener("load", () => resolve(image));
    image.addEventListener("error", () => reject(new Error("a picture that cannot be read")));
  });
}

/** Pixels of the size that the model takes, channels × rows × columns; `fit` as data.fit of the recipe. */
async function pixelsOf(picture, { width, height, channels, fit }) {
  const canvas = element("canvas", { width, height }), pen = canvas.getContext("2d", { willReadFrequently: true });
  const [w, h] = [picture.naturalWidth ?? picture.width, picture.naturalHeight ?? picture.height];
  const scale = (fit === "pad" ? Math.min : Math.max)(width / w, height / h);
  const [wide, high] = fit === "squash" ? [width, height] : [w * scale, h * scale];
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, (width - wide) / 2, (height - high) / 2, wide, high);
  const { data } = pen.getImageData(0, 0, width, height), size = width * height, pixels = new Float32Array(channels * size);
  for (let i = 0; i < size; i++) {
    const [r, g, b] = data.subarray(4 * i, 4 * i + 3);
    if (channels === 1) pixels[i] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16; // ITU-R 601, as Pillow has it
    else [r, g, b].forEach((value, c) => { pixels[c * size + i] = value; });
  }
  return { pixels, image: canvas.toDataURL("image/png").split(",")[1] };
}

/** For `regard export`, which opens the page with inputs to check it by: what it says, beside what Python said. */
function answerCheck(root, model, check) {
  const numbers = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const answers = check.map(({ text, pixels, ids, logits, options }) => {
    const given = pixels ? { pixels: numbers(pixels) } : text;
    return { said: model.answer(given, options).output, ...model.difference(given, ids, numbers(logits)) };
  });
  root.append(element("pre", { id: "checked", textContent: JSON.stringify(answers) }));
}
