// Whole models: what reads and writes, what writes on, what names a class.
import { Module } from "./module.js";
import { mean } from "./vectors.js";

export class Seq2Seq extends Module {
  start(input) {
    return this.decoder.start(this.encoder.forward(input));
  }

  step(tokens, state) {
    return this.decoder.step(tokens, state);
  }

  select(state, rows) {
    return this.decoder.select(state, rows);
  }

  logits(features) {
    return this.output.forward(features);
  }
}

/** Its penalty on attention is there in training only. */
export class Captioner extends Seq2Seq {}

export class LanguageModel extends Seq2Seq {
  start() {
    return this.decoder.start();
  }
}

export class Classifier extends Module {
  logits(input) {
    return this.output.one(this.pooling.forward(this.encoder.forward(input)));
  }
}

/** Many vectors into one. */
export class Pooling extends Module {
  forward({ vectors, summary }) {
    if (this.kind === "last" || this.kind === "summary") return summary;
    if (this.kind === "cls") return vectors[0];
    if (this.kind === "mean") return mean(vectors);
    return vectors[0].map((_, i) => vectors.reduce((best, vector) => Math.max(best, vector[i]), -Infinity));
  }
}

/** One learned query looks at all vectors. */
export class AttentionPooling extends Module {
  forward({ vectors }) {
    return this.attention.forward([this.query.data], vectors)[0];
  }
}

/** The vectors look at each other before they are pooled. */
export class Attended extends Module {
  forward(memory) {
    return this.pooling.forward({ ...memory, vectors: this.own.forward(memory.vectors, memory.vectors) });
  }
}
