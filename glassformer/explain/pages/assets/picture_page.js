// What a model sees in a picture: one head, the mean of a layer, or rollout, from [CLS] or from any patch.

import { cssColour } from "./canvas.js";
import { checkbox, dropdown, element, button, table, updateChildren } from "./dom.js";
import { download, downloadPng } from "./download.js";
import { headButtons, HeadGrid } from "./head_grid.js";
import { isDark, pictureCanvas, PictureView } from "./picture_view.js";
import { translate } from "./translations.js";

export class PicturePage {
  constructor(data, root) {
    this.data = data;
    this.root = root;
    const { picture, attention, layer, heads } = data.about;
    this.about = picture;
    this.places = Object.keys(attention.all.places).map((key) => key.split(".").map(Number));
    this.layer = layer ?? this.places[0][0];
    this.head = heads?.[0] ?? this.headsOf(this.layer)[0];
    this.what = heads ? "head" : "rollout";
    this.query = null; // [CLS]
    const bytes = new Uint8Array(data.buffer, picture.first, 3 * picture.width * picture.height);
    this.picture = pictureCanvas(bytes, picture.width, picture.height);
    this.isDark = isDark(bytes);
  }

  layers() {
    return [...new Set(this.places.map(([layer]) => layer))];
  }

  headsOf(layer) {
    return this.places.filter(([each]) => each === layer).map(([, head]) => head);
  }

  build() {
    this.root.className = "picture";
    this.bar = element("div", { className: "controls", role: "group", "aria-label": translate("settings") });
    const [view, grid] = [element("div"), element("div")];
    const answers = this.about.answers.length ? table(translate("answers"), [translate("answerColumn"), translate("score")],
      this.about.answers.map(({ label, score }) => [label, score.toFixed(4)])) : null;
    this.root.replaceChildren(...[this.bar,
      element("section", { "aria-label": translate("pictureView") }, view), answers,
      element("section", { "aria-label": translate("allHeads") }, element("h2", { textContent: translate("allHeads") }), grid),
    ].filter((child) => child !== null));
    this.view = new PictureView(view, (patch) => this.look(patch === this.query ? null : patch));
    this.view.coloured = this.isDark;
    this.grid = new HeadGrid(grid, (layer, head) => Object.assign(this, { layer, head, what: "head" }).show());
    this.look(null);
  }

  // Show what a patch, or [CLS], looks at.
  look(query) {
    this.query = query;
    const { rows, columns } = this.about;
    const size = rows * columns;
    const bytes = new Uint8Array(this.places.length * size);
    this.places.forEach(([layer, head], index) => {
      const weights = this.row("all", layer, head).subarray(1);
      const largest = Math.max(...weights) || 1;
      weights.forEach((weight, i) => (bytes[index * size + i] = Math.round((255 * weight) / largest)));
    });
    this.grid.show({ heads: this.places.map(([layer, head]) => ({ layer, head, measures: {} })), bytes, rows, columns });
    this.show();
  }

  // The weights of the token that looks, [CLS] first.
  row(kind, layer, head) {
    const tokens = this.about.rows * this.about.columns + 1;
    const at = (this.query === null ? 0 : this.query + 1) * tokens;
    return this.data.weights(kind, layer, head).subarray(at, at + tokens);
  }

  shown() {
    if (this.what === "rollout") return this.row("rollout", this.layer, 0);
    if (this.what === "head") return this.row("all", this.layer, this.head);
    const heads = this.headsOf(this.layer).map((head) => this.row("all", this.layer, head));
    return heads[0].map((_, i) => heads.reduce((sum, weights) => sum + weights[i], 0) / heads.length);
  }

  get name() {
    const { columns } = this.about;
    const from = this.query === null ? "[CLS]" : translate("patch", Math.floor(this.query / columns), this.query % columns);
    const what = { head: translate("oneOf", this.layer, this.head), mean: `${translate("oneLayer", this.layer)}, ${translate("headMean")}`,
      rollout: `${translate("oneLayer", this.layer)}, ${translate("rollout")}` }[this.what];
    return `${from}, ${what}`;
  }

  show() {
    const { rows, columns } = this.about;
    const weights = this.shown();
    this.controls();
    this.grid.mark(this.what === "head" ? [[this.layer, this.head]] : this.headsOf(this.layer).map((head) => [this.layer, head]));
    this.view.show({ picture: this.picture, weights: weights.subarray(1), own: weights[0], rows, columns, query: this.query, name: this.name });
  }

  controls() {
    const set = (changes) => Object.assign(this, changes).show();
    const kinds = [["rollout", translate("rollout")], ["mean", translate("headMean")], ["head", translate("oneHead")]];
    updateChildren(this.bar,
      dropdown(translate("show"), kinds, this.what, (what) => set({ what })),
      dropdown(translate("layer"), this.layers().map((layer) => [layer, String(layer)]), this.layer, (value) => {
        const heads = this.headsOf(Number(value));
        set({ layer: Number(value), head: heads.includes(this.head) ? this.head : heads[0] });
      }),
      this.what === "head" ? headButtons(this.headsOf(this.layer), [this.head], (head) => set({ head })) : null,
      dropdown(translate("weightsAs"), [["", translate("brightness")], ["colour", translate("colour")]], this.view.coloured ? "colour" : "", (value) => {
        this.view.coloured = value === "colour";
        this.view.draw();
      }),
      checkbox(translate("smooth"), this.view.smooth, (smooth) => {
        this.view.smooth = smooth;
        this.view.draw();
      }),
      this.query === null ? null : button(translate("fromCls"), () => this.look(null)),
      element("div", { className: "exports", role: "group", "aria-label": translate("export") },
        button("PNG", () => downloadPng("attention.png", this.view.canvas, cssColour("paper"))),
        button("JSON", () => download("attention.json", JSON.stringify({
          what: this.what, layer: this.layer, head: this.what === "head" ? this.head : null, query: this.query,
          rows: this.about.rows, columns: this.about.columns, weights: Array.from(this.shown()),
        }), "application/json"))));
  }
}
