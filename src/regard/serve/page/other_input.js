// The second input of patching: given as the first one is, or one of the examples.
import { drawExamples } from "./examples.js";
import { fileField, fileKind } from "./form.js";
import { element } from "./paint.js";

/**
 * `now`: the text of the first input, as the service takes it; `send(file)` → a promise of its name; `put(text, name)` is told the
 * other input, and the name of the field that was changed. Of a model that takes a file and a text, either may stay as it is.
 */
export function drawOtherInput({ model, examples, now, send }, current, put) {
  const kind = fileKind(model);
  const both = model.takes.length > 1;
  const cut = (text) => (both ? text.split("\t") : [text]);
  const file = model.takes.indexOf(kind);
  const parts = current ? cut(current) : both ? cut(now) : [""];
  const given = (place, part, name) => put(parts.map((one, i) => (i === place ? part : one)).join("\t"), name);
  const fields = model.takes.map((one, place) => (place === file ? sentField(place) : typedField(place)));

  function typedField(place) {
    const made = element("input", { type: "text", name: "other", value: parts[place], placeholder: "ideally of the same length", autocomplete: "off", dir: "auto" });
    made.addEventListener("change", () => given(place, made.value, "other"));
    return element("label", { className: "other" }, both ? "the other text " : "the other input ", made);
  }

  function sentField(place) {
    const [what, accept] = fileField(kind);
    const made = element("input", { type: "file", name: "other_file", accept });
    made.addEventListener("change", async () => made.files.length && given(place, await send(made.files[0]), "other_file"));
    const told = parts[place].startsWith("upload:") && parts[place] !== cut(now)[place] ? element("span", { textContent: " (sent)" }) : "";
    return element("label", {}, `the other ${what} `, made, told);
  }

  const named = (number) => (both ? { right: "", when: `example ${number + 1}` } : {}); // its picture alone is taken
  const shown = file < 0 ? examples : examples.map((one, number) => ({ ...one, ...named(number), text: cut(one.text)[file] }));
  const row = element("div", { className: "examples", role: "group", ariaLabel: "examples for the other input" });
  const press = drawExamples(row, shown, ({ text }) => given(Math.max(0, file), text, "other"));
  press(parts[Math.max(0, file)]);
  return [...fields, ...(shown.length ? [row] : [])];
}
