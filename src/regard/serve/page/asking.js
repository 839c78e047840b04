// Calls of the service, and tables of records that stay there: the page gets what it shows, when it shows it.
import { decode } from "./data.js";

export const DECODING = ["sample", "temperature", "top_k", "top_p", "seed", "beam", "n_best"];
const NOBODY = "The service does not answer. Is regard serve still running, and is this machine still on its network?";

/** POST with a body (JSON, or a file as it is), or GET without one; an error's sentence becomes an Error. */
export async function call(path, body, key) {
  const file = body instanceof Blob;
  const headers = { "content-type": file ? "application/octet-stream" : "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  const answer = await fetch(path, body ? { method: "POST", headers, body: file ? body : JSON.stringify(body) } : { headers })
    .catch(() => { throw Object.assign(new Error(NOBODY), { status: 0 }); });
  if (answer.ok && !answer.headers.get("content-type").startsWith("application/json")) return answer.blob();
  const told = await answer.json().catch(() => { throw new Error(`The service answered ${answer.status}, which this page does not understand: reload it.`); });
  if (!answer.ok) throw Object.assign(new Error(told.field ? `${told.field}: ${told.error}` : told.error), { status: answer.status });
  return told;
}

/** Events of the service, one by one: `tell({token, text})` for each token that is written. */
export async function callStream(path, body, key, tell, signal) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!answer.ok) return;
  let rest = "";
  for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("event: token\n")) tell(JSON.parse(event.slice(event.indexOf("data: ") + 6)));
  }
}

/** What `mount` asks for tables. `questions`: one for each record of the page; `outputs`: those of the hypotheses;
 *  `ask(path, body)` calls the service. */
export function remoteSource(questions, ask, outputs = []) {
  const wish = (number, choice, part) => ({
    ...questions[number], part, kind: choice.kind, layer: choice.layer === "all" ? null : Number(choice.layer),
    head: ["mean", "max"].includes(choice.head) ? choice.head : Number(choice.head), words: choice.words, specials: choice.specials,
  });
  /** A question about the output that is shown: where it was drawn, or searched for in another way, it is given. */
  const sameOutput = (hypothesis) => {
    const { text, model, output, prefix, without, ...decoding } = questions[0];
    const given = hypothesis || DECODING.some((name) => decoding[name] != null);
    return { text, model, without, ...(given ? { output: outputs[hypothesis], prefix: "" } : { output, prefix }) };
  };
  const opened = (table) => ({ ...table, values: decode(table.values) });
  return {
    async table(number, hypothesis, choice) {
      return opened(await ask("/api/page", { ...wish(number, choice, "table"), hypothesis }));
    },
    evidence(number, choice) {
      return ask("/api/page", wish(number, choice, "evidence"));
    },
    /** How a weight came about: of the hypothesis that is shown, cells as they are counted there. */
    async weight({ kind, layer, head, row, column, words, specials, hypothesis, tokens = false }) {
      const wish = { ...sameOutput(hypothesis), kind, row, column, words, specials, tokens };
      if (layer !== "all") wish.layer = Number(layer);
      if (!["mean", "max"].includes(head)) wish.head = Number(head);
      return ask("/api/weight", wish);
    },
    /** A table; with `format`, a picture of it. A profile is of the model, whatever it was asked. */
    explain(hypothesis, wish) {
      if (wish.how === "profile") return ask("/api/profile", { model: questions[0].model, training: wish.by === "training", ...(wish.format ? { format: wish.format } : {}) });
      return ask("/api/explain", { ...sameOutput(hypothesis), ...wish });
    },
    async heads(hypothesis, choice) {
      return (await ask("/api/page", { ...wish(0, choice, "heads"), hypothesis })).tables.map(opened);
    },
    async maps(hypothesis, kind) {
      const { layers } = await ask("/api/page", { ...questions[0], part: "maps", kind, hypothesis });
      return layers.map(({ layer, heads }) => ({ layer, heads: heads.map(opened) }));
    },
  };
}
