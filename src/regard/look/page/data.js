// A record as it arrives (JSON, weights in base 64), and where the views get their tables from.

/** Weights become one Float32Array an attention: heads × rows × columns. A served page brings none of them at first. */
export function openRecord(tree) {
  const attentions = tree.attentions.map((one) => ({ ...one, weights: one.weights === undefined ? null : decode(one.weights) }));
  const axes = Object.fromEntries(Object.entries(tree.axes).map(([name, axis]) =>
    [name, { ...axis, signal: typeof axis.signal === "string" ? decode(axis.signal) : null }]));
  return { ...tree, attentions, axes, beams: tree.beams.map(openRecord) };
}

/** float32, little-endian, as every machine with a browser is. */
export function decode(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/**
 * Tables of records that are here as a whole. A source has three methods, which may take their time:
 * `table(number, hypothesis, choice)` → {values, rows, columns, card}, `heads(hypothesis, choice)` → one table a head of a
 * layer, `maps(hypothesis, kind)` → [{layer, heads: [{values, q, k, line, entropy, role, above_chance, alignment_error?}]}]; a source that has a model behind it, two
 * more: `evidence(number, choice)` → figures, `weight(choice)` → how a weight came about, `explain(hypothesis, wish)` → a table.
 */
export function localSource(records, cards, beamCards = []) {
  const hypothesis = (number, beam) => [records[number], ...records[number].beams][beam];
  const cardsOf = (number, beam) => (beam ? beamCards[beam - 1] : cards[number]);
  return {
    async table(number, beam, choice) {
      return { ...tableOf(hypothesis(number, beam), choice), card: cardsOf(number, beam)?.[keyOf(choice)] };
    },
    async heads(beam, choice) {
      const one = hypothesis(0, beam);
      const [layer] = layersOf(one, choice.kind).filter((one) => choice.layer === "all" || one.layer === Number(choice.layer));
      return Array.from({ length: layer.shape[0] }, (_, head) => tableOf(one, { ...choice, layer: layer.layer, head }));
    },
    async maps(beam, kind) {
      return layersOf(hypothesis(0, beam), kind).map((one) => {
        const [heads, q, k] = one.shape;
        return {
          layer: one.layer,
          heads: Array.from({ length: heads }, (_, head) => ({
            values: one.weights.subarray(head * q * k, (head + 1) * q * k), q, k,
            ...cardsOf(0, beam)[keyOf({ kind, layer: one.layer, head })].head,
          })),
        };
      });
    },
  };
}

export function kindsOf(record) {
  return [...new Set(record.attentions.map((one) => one.kind))];
}

export function layersOf(record, kind) {
  return record.attentions.filter((one) => one.kind === kind).sort((a, b) => a.layer - b.layer);
}

/** Names of all heads of a kind, as "layer.head". */
export function headsOf(record, kind) {
  return layersOf(record, kind).flatMap(({ layer, shape }) => Array.from({ length: shape[0] }, (_, head) => `${layer}.${head}`));
}

/** Does a record have the table of this choice? */
export function has(record, { kind, layer, head }) {
  const layers = layersOf(record, kind).filter((one) => layer === "all" || one.layer === Number(layer));
  return layers.length > 0 && (["mean", "max"].includes(head) || Number(head) < layers[0].shape[0]);
}

/** The key under which the card and the title of a choice are kept. */
export function keyOf({ kind, layer, head }) {
  return `${kind}/${layer}/${head}`;
}

/** One table: of a head, or of the mean or the largest over heads, of a layer or of all of them. */
export function tableOf(record, choice) {
  const { kind, layer, head } = choice;
  const layers = layersOf(record, kind).filter((one) => layer === "all" || one.layer === Number(layer));
  const several = head === "mean" || head === "max";
  const tables = layers.flatMap((one) => {
    const size = one.shape[1] * one.shape[2];
    const heads = several ? Array.from({ length: one.shape[0] }, (_, h) => h) : [Number(head)];
    const [rows, columns] = [record.axes[one.rows].tokens, record.axes[one.columns].tokens];
    return heads.map((h) => arranged({ values: one.weights.subarray(h * size, (h + 1) * size), rows, columns }, choice));
  });
  if (tables.length === 1) return tables[0];
  const values = new Float32Array(tables[0].values.length);
  for (const table of tables) {
    for (let i = 0; i < values.length; i++) {
      values[i] = head === "max" ? Math.max(values[i], table.values[i]) : values[i] + table.values[i] / tables.length;
    }
  }
  return { ...tables[0], values };
}

/** Sub-words as words (sum over columns, mean over rows), and special tokens hidden, if so wished. */
function arranged(table, { words = false, specials = true }) {
  if (!words && specials) return table;
  const rows = groups(table.rows, words, specials);
  const columns = groups(table.columns, words, specials);
  if (!rows.length || !columns.length) return table;
  const values = new Float32Array(rows.length * columns.length);
  const width = table.columns.length;
  rows.forEach((row, i) => columns.forEach((column, j) => {
    let sum = 0;
    for (let r = row.start; r < row.stop; r++)
      for (let c = column.start; c < column.stop; c++) sum += table.values[r * width + c];
    values[i * columns.length + j] = sum / (row.stop - row.start);
  }));
  return { values, rows: rows.map((one) => one.token), columns: columns.map((one) => one.token) };
}

/**
 * What is known of each row that was written, as the table has its rows: {score, next, first}. `score`: log p of all its
 * tokens; `next`: the most probable tokens there; `first`: the number of its first token. None, if rows were not written.
 */
export function stepsOf(record, kind, choice) {
  const [one] = layersOf(record, kind);
  const tokens = record.axes[one.rows].tokens;
  const said = record.next_tokens.length > 0 || ["labels", "marks"].includes(record.said?.kind);
  if (one.rows !== "target" || !said || record.scores.length !== tokens.length) return [];
  return groups(tokens, choice.words, choice.specials).map(({ start, stop }) => ({
    score: record.scores.slice(start, stop).reduce((sum, value) => sum + value, 0), next: record.next_tokens[start] ?? [], first: start,
  }));
}

/** Where the text that a model wrote begins on the axis of what it told: after the prompt, if that is told as well. */
export function writtenFrom({ axes: { target }, output }) {
  const text = [...target.text];
  const begin = output && target.text.endsWith(output) ? text.length - [...output].length : 0;
  const first = begin ? target.tokens.findIndex(({ span, special }) => !special && span && span[1] > begin) : 0;
  return { begin, first: Math.max(0, first) };
}

/** The text up to token `first`, and a piece after it: what an output has to begin with to go another way from there. */
export function prefixBefore(record, first, piece) {
  const { tokens, text } = record.axes.target;
  const before = tokens.slice(0, first).filter(({ span }) => span).pop();
  return [...text].slice(writtenFrom(record).begin, before ? before.span[1] : 0).join("") + piece;
}

function groups(tokens, words, specials) {
  const found = [];
  tokens.forEach((token, i) => {
    if (token.special && !specials) return;
    const last = found[found.length - 1];
    const same = words && last && !token.special && !last.token.special && token.word !== null
      && token.word === last.token.word && last.stop === i;
    if (same) {
      last.stop = i + 1;
      last.token = { ...last.token, text: last.token.text + visible(token) };
    } else found.push({ start: i, stop: i + 1, token: words ? { ...token, text: visible(token) } : token });
  });
  return found;
}

/** The first bytes of a character bring nothing; its last byte brings it. */
function visible({ text, span }) {
  return span && span[0] === span[1] ? "" : text;
}

export function hasWords(record) {
  return Object.values(record.axes).every((axis) => axis.tokens.every((t) => t.special || t.word !== null));
}

/** The mean of all rows, row by row: a thousand by thousand take a millisecond. */
export function meanRow({ values, rows, columns }) {
  const mean = new Float64Array(columns.length);
  for (let i = 0, at = 0; i < rows.length; i++) for (let j = 0; j < mean.length; j++) mean[j] += values[at++];
  return mean.map((sum) => sum / rows.length);
}

export function largest(values) {
  let top = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > top) top = size;
  }
  return top || 1;
}

/** What is painted in full color: the upper quartile of the rows' largest weights, but no less than five times what each
 *  of `keys` has where all are looked at alike (or 1): 1 / keys, or the mean, where columns sum to one. Rows that look at
 *  one thing alone do not make the others pale, and nearly even weights stay faint. */
export function topWeight(values, keys) {
  const rows = Math.max(1, Math.round(values.length / keys));
  const tops = new Float64Array(rows);
  let sum = 0;
  for (let row = 0, i = 0; row < rows; row++) {
    let most = 0;
    for (const end = Math.min(i + keys, values.length); i < end; i++) {
      sum += values[i];
      if (values[i] > most) most = values[i];
    }
    tops[row] = most;
  }
  tops.sort();
  return Math.max(tops[Math.floor((3 * (rows - 1)) / 4)], Math.min(1, 5 * (sum > 1.5 * rows ? sum / values.length : 1 / keys)));
}

/** How strongly to paint, 0 to 1: in proportion, or by four decades below the largest. */
export function strength(value, top, log) {
  const share = Math.min(1, Math.abs(value) / top);
  return log ? Math.max(0, 1 + Math.log10(share) / 4) : share;
}

/** A date as it is; a number with its unit: 1.07 s, but line 34. */
export function momentOf(text, unit) {
  if (text === "" || Number.isNaN(Number(text))) return text;
  return unit.length > 3 ? `${unit} ${text}` : `${text} ${unit}`.trim();
}
