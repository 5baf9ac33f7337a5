// The data of a page that stands alone: numbers packed into the page itself.

export async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

export class PageSource {
  constructor(about, buffer) {
    this.about = about;
    this.buffer = buffer;
  }

  static async read() {
    const text = (id) => document.getElementById(id).textContent;
    return new PageSource(JSON.parse(text("about")), await unpack(text("numbers")));
  }

  // The weights of one head of one kind of attention: a row for each query.
  weights(kind, layer, head) {
    const { rows, columns, first, places } = this.about.attention[kind];
    const place = places[`${layer}.${head}`];
    const size = rows * columns;
    if (this.about.precision === "float32") return new Float32Array(this.buffer, 4 * (first + place * size), size);
    const whole = new Uint16Array(this.buffer, 2 * (first + place * size), size);
    return Float32Array.from(whole, (value) => value / 65535);
  }

  // Queries (T x D), keys (S x D) and what is added to scores (T x S, or null) of one head, where the page has them.
  vectors(kind, layer, head) {
    const { size, first, rows, columns, places, biased } = this.about.vectors[kind];
    const both = (rows + columns) * size;
    const each = both + (biased ? rows * columns : 0);
    const all = new Float32Array(this.buffer, 4 * (first + places[`${layer}.${head}`] * each), each);
    const bias = biased ? all.subarray(both) : null;
    return { queries: all.subarray(0, rows * size), keys: all.subarray(rows * size, both), bias, size };
  }
}
