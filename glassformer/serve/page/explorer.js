// The explorer: a text, its tokens, and one view at a time of what the model makes of them.

import { askBytes, askJson, askNumbers } from "./api.js";
import { button, make, visible } from "./build.js";
import { header } from "./frame.js";
import { arcsPanel, headsPanel, heatPanel, neuronPanel } from "./panels_attention.js";
import { lensPanel, predictPanel } from "./panels_answers.js";
import { attributePanel, whatIfPanel } from "./panels_causes.js";
import { comparePanel } from "./panel_compare.js";
import { generatePanel } from "./panel_generate.js";
import { anatomyPanel } from "./panel_anatomy.js";
import { readState, writeState } from "./state.js";
import { say, speak } from "./words.js";
import "./texts.js";

const PANELS = {
  heads: [headsPanel, "allHeads"], arcs: [arcsPanel, "headView"], heat: [heatPanel, "heatMap"], neuron: [neuronPanel, "neuronView"],
  predict: [predictPanel, "predictions"], lens: [lensPanel, "lens"], whatif: [whatIfPanel, "whatIf"],
  attribute: [attributePanel, "attribution"], compare: [comparePanel, "compare"], generate: [generatePanel, "generation"],
  anatomy: [anatomyPanel, "anatomy"],
};
const PAUSE = 500; // milliseconds without a key until a text is read

class Explorer {
  constructor(root) {
    this.root = root;
    this.state = readState();
    this.weights = new Map();
  }

  async begin() {
    this.about = await askJson("model");
    if (!this.state.text) {
      this.state.text = this.about.text;
      this.state.pair = this.about.pair;
    }
    this.state.model = Math.min(this.state.model, this.about.models.length - 1);
    if (!(this.state.view in PANELS)) this.state.view = "heads";
    this.build();
    await this.read();
    document.documentElement.dataset.ready = "yes";
  }

  get model() {
    return this.about.models[this.state.model];
  }

  // The kind of attention that is looked at; encoder-decoders have three.
  get part() {
    const { parts } = this.reading;
    return parts[this.state.part] ?? Object.values(parts)[0];
  }

  get partName() {
    const { parts } = this.reading;
    return this.state.part in parts ? this.state.part : Object.keys(parts)[0];
  }

  // --- the frame ------------------------------------------------------------------------------------------------

  build() {
    const { state } = this;
    speak(state.language);
    document.title = say("title");
    if (state.theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = state.theme;
    this.chips = make("div", { className: "tokens", role: "group", "aria-label": say("tokens") });
    this.source = make("div", { className: "tokens source", role: "group", "aria-label": say("sourceTokens") });
    this.problem = make("p", { className: "error", role: "alert" });
    this.panel = make("div", { role: "tabpanel", id: "panel", tabIndex: -1 });
    this.root.replaceChildren(header(this), this.fields(), this.source, this.chips, this.problem, this.tabs(), this.panel);
    if (this.reading) {
      this.showTokens(this.reading);
      this.open();
    }
  }

  fields() {
    const field = (name, label) => {
      const area = make("textarea", { value: this.state[name], rows: 1, dir: "auto", spellcheck: false, id: name });
      area.addEventListener("input", () => this.typed());
      area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.take();
      });
      this[`${name}Field`] = area;
      return make("label", {}, say(label), area);
    };
    return make("div", { className: "texts" }, field("text", "text"), this.model.decoder ? make("span") : field("pair", this.model.writes_beside ? "target" : "pair"),
      button(say("read"), () => this.take()));
  }

  tabs() {
    const names = Object.keys(PANELS);
    const list = make("div", { role: "tablist", "aria-label": say("views") });
    list.append(...names.map((name) => make("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", textContent: say(PANELS[name][1]),
      onclick: () => this.set({ view: name }),
    })));
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = names[(names.indexOf(this.state.view) + step + names.length) % names.length];
      this.set({ view: next });
      document.getElementById(`tab-${next}`).focus();
    });
    return list;
  }

  // --- the text -------------------------------------------------------------------------------------------------

  typed() {
    clearTimeout(this.waiting);
    const [text, pair] = [this.textField.value, this.pairField?.value ?? ""];
    this.live ??= 0;
    const turn = ++this.live;
    askJson("tokens", { text, pair, model: this.state.model })
      .then((tokens) => turn === this.live && this.showTokens(tokens))
      .catch((error) => this.tell(error.message));
    this.waiting = setTimeout(() => this.take(), PAUSE);
  }

  async take() {
    clearTimeout(this.waiting);
    Object.assign(this.state, { text: this.textField.value, pair: this.pairField?.value ?? "", mask: null, target: null });
    await this.read();
  }

  async read() {
    await this.safely(async () => {
      const { text, pair, mask, model } = this.state;
      const question = { text, pair: this.model.decoder ? "" : pair, model };
      if (mask !== null) question.mask = mask;
      const turn = (this.turn = (this.turn ?? 0) + 1);
      const reading = await askJson("read", question);
      if (turn !== this.turn) return;
      this.reading = reading;
      this.weights.clear();
      this.thumbs = new Map();
      await this.pictures();
      const { state } = this;
      Object.assign(state, this.there(state.layer, state.heads));
      const last = reading.tokens.length - 1;
      state.position = Math.min(state.position ?? (this.model.kind === "next" ? last : 0), last);
      writeState(state);
      this.showTokens(reading);
      this.open();
    });
  }

  showTokens({ tokens, ids, special, segments, source }) {
    this.source.replaceChildren(...(source?.tokens ?? []).map((token, place) => make("span", {
      className: `token${source.special[place] ? " special" : ""}`,
    }, make("bdi", { textContent: visible(token) }), make("small", { textContent: String(source.ids[place]) }))));
    this.chips.replaceChildren(...tokens.map((token, place) => make("button", {
      type: "button", title: `${place}: ${visible(token)} (${ids[place]})`, "aria-pressed": String(place === this.state.position),
      className: `token${special[place] ? " special" : ""}${segments[place] ? " second" : ""}`,
      "aria-label": `${say("token")} ${place} ${visible(token)}, ${say("id")} ${ids[place]}${special[place] ? `, ${say("special")}` : ""}`,
      onclick: () => this.set({ position: place }),
    }, make("bdi", { textContent: visible(token) }), make("small", { textContent: String(ids[place]) }))));
  }

  // --- what is shown --------------------------------------------------------------------------------------------

  set(changes) {
    const { view, position } = this.state;
    Object.assign(this.state, changes);
    if (position !== this.state.position) this.state.target = null; // another place, another answer
    writeState(this.state);
    if (position !== this.state.position) {
      [...this.chips.children].forEach((chip, place) => chip.setAttribute("aria-pressed", String(place === this.state.position)));
    }
    if (view !== this.state.view) this.open();
    else this.safely(() => this.shown?.update(changes));
  }

  open() {
    for (const name of Object.keys(PANELS)) {
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", String(name === this.state.view));
      tab.tabIndex = name === this.state.view ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.state.view}`);
    this.panel.replaceChildren();
    this.tell("");
    delete this.panel.dataset.view;
    this.safely(async () => {
      const shown = PANELS[this.state.view][0](this, this.panel);
      this.shown = shown;
      await shown.update({});
      if (this.shown === shown) this.panel.dataset.view = this.state.view; // no other was opened meanwhile
    });
  }

  // The layer and the heads that are meant, as far as this kind of attention has them.
  there(layer, heads) {
    const { layers } = this.part;
    const found = layer in layers ? layer : Number(Object.keys(layers)[0]);
    const kept = heads.filter((head) => layers[found].heads.includes(head));
    return { layer: found, heads: kept.length ? kept : layers[found].heads.slice(0, 1) };
  }

  // The weights of a head, fetched once for each text.
  async head(layer, head) {
    const [{ reading }, part] = [this.reading, this.partName];
    const key = `${part}.${layer}.${head}`;
    if (!this.weights.has(key)) this.weights.set(key, await askNumbers("head", { reading, part, layer, head }));
    return this.weights.get(key);
  }

  // Small pictures of all heads, fetched once for each kind of attention.
  async pictures() {
    const [{ reading }, part] = [this.reading, this.partName];
    if (!this.thumbs.has(part)) this.thumbs.set(part, new Uint8Array(await askBytes("thumbs", { reading, part })));
    return this.thumbs.get(part);
  }

  choose(layer, head, several) {
    const { state } = this;
    const joined = several && layer === state.layer;
    const has = joined && state.heads.includes(head);
    let heads = joined ? [...state.heads, head] : [head];
    if (has && state.heads.length > 1) heads = state.heads.filter((each) => each !== head);
    this.set({ layer, heads: [...new Set(heads)] });
  }

  tell(message) {
    this.problem.textContent = message;
  }

  async safely(work) {
    try {
      this.root.setAttribute("aria-busy", "true");
      await work();
      this.tell("");
    } catch (error) {
      this.tell(error.message);
    } finally {
      this.root.setAttribute("aria-busy", "false");
    }
  }
}

const explorer = new Explorer(document.getElementById("explorer"));
addEventListener("hashchange", () => {
  const view = readState();
  Object.assign(explorer.state, view);
  explorer.build();
  explorer.read();
});
explorer.begin();
