// What a model is made of: the tree of modules that Python had, with the same names.

/** Settings, parameters ({data, shape}) and parts of a module, under the names that they have in Python. */
export class Module {
  constructor({ settings, parameters, parts }) {
    Object.assign(this, settings, parameters, parts);
  }
}

/** Modules of a tree that Python wrote; `classes` knows them by name, and `numbers` are all parameters, by their place. */
export function build(tree, classes, numbers) {
  if (tree === null) return null;
  if (Array.isArray(tree)) return tree.map((one) => build(one, classes, numbers));
  const parts = Object.fromEntries(Object.entries(tree.parts).map(([name, one]) => [name, build(one, classes, numbers)]));
  const parameters = Object.fromEntries(Object.entries(tree.parameters).map(([name, place]) => [name, numbers[place]]));
  return new classes[tree.class]({ settings: tree.settings, parameters, parts });
}

/** Where attention looked, while it is watched: for each module of attention, heads × rows of weights. */
export class Trace {
  static now = null;

  constructor() {
    this.seen = new Map();
    this.hows = new Map();
  }

  during(work) {
    Trace.now = this;
    try {
      return work();
    } finally {
      Trace.now = null;
    }
  }

  /** `rows`: weights of one more row (or of several), a list of heads each; `hows`: what each row came from, see weight.js. */
  keep(module, rows, hows) {
    for (const [kept, more] of [[this.seen, rows], [this.hows, hows]]) {
      if (!kept.has(module)) kept.set(module, []);
      kept.get(module).push(...more);
    }
  }
}
