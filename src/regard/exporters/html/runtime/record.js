// The tables of a record: what was traced, heads × rows × columns, and the axes that it stands between.

const AXES = { encoder: ["source", "source"], decoder: ["target", "read"], cross: ["target", "source"], pooling: ["target", "source"] };

/** Every attention that was traced; rows that could not see all columns are filled with zeros. */
export function tables(trace) {
  return [...trace.seen].filter(([module]) => module.role).map(([module, seen]) => {
    const { role } = module, hows = trace.hows.get(module);
    const heads = seen[0].length, columns = Math.max(...seen.map(([head]) => head.length));
    const weights = new Float32Array(heads * seen.length * columns);
    seen.forEach((row, q) => row.forEach((head, h) => weights.set(head, (h * seen.length + q) * columns)));
    return {
      name: `${role.kind}.${role.layer}`, kind: role.kind === "pooling" ? "cross" : role.kind, role: role.kind, layer: role.layer,
      rows: AXES[role.kind][0], columns: AXES[role.kind][1], shape: [heads, seen.length, columns], weights,
      came: { before: 0, query: (row) => hows[row] },
    };
  });
}

/** What a label saw of the input, by how the memory was pooled: see look/placing.py. */
export function pooled(all, length, classToken, own) {
  const seen = [], inside = [];
  for (const one of all) {
    const [heads, rows, columns] = one.shape, before = columns - length; // a class token that the axis does not name
    if (before !== 0 && before !== 1) continue;
    const at = (h, q, k) => one.weights[(h * rows + q) * columns + k + before];
    const table = (count, value, query) => {
      const weights = new Float32Array(heads * count * length);
      for (let h = 0; h < heads; h++) for (let q = 0; q < count; q++) for (let k = 0; k < length; k++) weights[(h * count + q) * length + k] = value(h, q, k);
      return { ...one, shape: [heads, count, length], weights, came: { before, query } };
    };
    const { query } = one.came;
    if (one.role === "pooling") seen.push(table(1, at, query));
    else {
      inside.push(table(length, (h, q, k) => at(h, q + before, k), (row) => query(row + before)));
      const average = (h, _, k) => {
        let sum = 0;
        for (let q = before; q < rows; q++) sum += at(h, q, k);
        return sum / (rows - before);
      };
      if (!own) seen.push({ ...table(1, classToken ? at : average, classToken ? query : () => null), kind: "cross", rows: "target" });
    }
  }
  return [...seen, ...inside];
}
