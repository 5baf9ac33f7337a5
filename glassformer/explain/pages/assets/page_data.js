// The data of a standalone page: numbers packed into the page itself.

async function inflate(text) {
  const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export class PageData {
  constructor(about, buffer) {
    this.about = about;
    this.buffer = buffer;
  }

  static async read() {
    const text = (id) => document.getElementById(id).textContent;
    return new PageData(JSON.parse(text("about")), await inflate(text("numbers")));
  }

  // The weights of one head of one kind of attention: a row for each query.
  weights(kind, layer, head) {
    const { rows, columns, first, places } = this.about.attention[kind];
    const index = places[`${layer}.${head}`];
    const size = rows * columns;
    if (this.about.precision === "float32") return new Float32Array(this.buffer, 4 * (first + index * size), size);
    const quantised = new Uint16Array(this.buffer, 2 * (first + index * size), size);
    return Float32Array.from(quantised, (value) => value / 65535);
  }

  // Queries (T x D), keys (S x D) and the score bias (T x S, or null) of one head, where the page has them.
  vectors(kind, layer, head) {
    const { size, first, rows, columns, places, biased } = this.about.vectors[kind];
    const biasStart = (rows + columns) * size;
    const length = biasStart + (biased ? rows * columns : 0);
    const all = new Float32Array(this.buffer, 4 * (first + places[`${layer}.${head}`] * length), length);
    const bias = biased ? all.subarray(biasStart) : null;
    return { queries: all.subarray(0, rows * size), keys: all.subarray(rows * size, biasStart), bias, size };
  }
}
