// Pictures: convolutions, a small network of them with attention over positions, the Vision Transformer.
import { Module } from "./module.js";
import { mean, plus, times } from "./vectors.js";

/** A feature map is {channels, rows, columns, data}; positions are its columns of channels, row by row. */
export function positionsOf({ channels, rows, columns, data }) {
  const size = rows * columns;
  return Array.from({ length: size }, (_, k) => Float32Array.from({ length: channels }, (_, c) => data[c * size + k]));
}

export function mapOf(vectors, rows, columns) {
  const channels = vectors[0].length, size = rows * columns, data = new Float32Array(channels * size);
  vectors.forEach((vector, k) => vector.forEach((value, c) => { data[c * size + k] = value; }));
  return { channels, rows, columns, data };
}

export class Conv2d extends Module {
  forward(map) {
    const [out, channels, high, wide] = this.weight.shape, [step] = this.stride, [edge] = this.padding, w = this.weight.data;
    const rows = Math.floor((map.rows + 2 * edge - high) / step) + 1, columns = Math.floor((map.columns + 2 * edge - wide) / step) + 1;
    const data = new Float32Array(out * rows * columns);
    for (let o = 0; o < out; o++) for (let r = 0; r < rows; r++) for (let s = 0; s < columns; s++) {
      let sum = this.bias ? this.bias.data[o] : 0;
      for (let c = 0; c < channels; c++) for (let i = 0; i < high; i++) {
        const y = r * step + i - edge;
        if (y < 0 || y >= map.rows) continue;
        const from = (c * map.rows + y) * map.columns, taps = ((o * channels + c) * high + i) * wide;
        for (let j = 0; j < wide; j++) {
          const x = s * step + j - edge;
          if (x >= 0 && x < map.columns) sum += map.data[from + x] * w[taps + j];
        }
      }
      data[(o * rows + r) * columns + s] = sum;
    }
    return { channels: out, rows, columns, data };
  }
}

/** Channels in groups, normalized over a group's numbers. */
export class GroupNorm extends Module {
  forward(map) {
    const size = (map.channels / this.num_groups) * map.rows * map.columns, each = map.rows * map.columns;
    const data = new Float32Array(map.data.length);
    for (let from = 0; from < data.length; from += size) {
      const part = map.data.subarray(from, from + size), middle = part.reduce((sum, value) => sum + value, 0) / size;
      const scale = 1 / Math.sqrt(part.reduce((sum, value) => sum + (value - middle) ** 2, 0) / size + this.eps);
      for (let i = 0; i < size; i++) {
        const c = Math.floor((from + i) / each);
        data[from + i] = (part[i] - middle) * scale * this.weight.data[c] + this.bias.data[c];
      }
    }
    return { ...map, data };
  }
}

export class Convolution extends Module {
  forward(map) {
    const y = this.norm.forward(this.convolve.forward(map)), data = y.data.map((value) => Math.max(value, 0));
    return { ...y, data: this.shortcut ? plus(data, map.data) : data };
  }
}

/** y = x + γ W_v attend(x, x, x) */
export class PositionAttention extends Module {
  forward(map) {
    const xs = positionsOf(map), seen = this.out.forward(this.attention.forward(xs, xs)), gate = this.gate.data[0];
    return mapOf(xs.map((x, k) => plus(x, times(seen[k], gate))), map.rows, map.columns);
  }
}

export class ConvNet extends Module {
  forward(map) {
    const vectors = positionsOf(this.stages.forward(map));
    return { vectors, summary: mean(vectors), grid: this.grid };
  }
}

export class VisionTransformer extends Module {
  forward(map) {
    let xs = this.positions.forward([this.summary.data, ...positionsOf(this.patches.forward(map))], 0);
    for (const block of this.layers) xs = block.forward(xs);
    const [summary, ...vectors] = this.norm.forward(xs);
    return { vectors, summary, grid: this.grid };
  }
}

/** Pixels between 0 and 255, normalized, through the body; regions projected and told their places. */
export class PictureEncoder extends Module {
  forward(pixels) {
    const each = pixels.rows * pixels.columns, [middle, spread] = [this.mean.data, this.deviation.data];
    const data = pixels.data.map((value, i) => (value / 255 - middle[Math.floor(i / each)]) / spread[Math.floor(i / each)]);
    const memory = this.body.forward({ ...pixels, data });
    if (!this.project && !this.positions) return memory;
    let xs = this.project ? this.project.forward(memory.vectors) : memory.vectors;
    if (this.positions) xs = this.positions.forward(xs, this.grid);
    for (const block of this.layers) xs = block.forward(xs);
    xs = this.norm.forward(xs);
    return { vectors: xs, summary: mean(xs), grid: this.grid };
  }
}
