// The explorer: a text, its tokens, and one view at a time of what the model makes of them.

import { askBytes, askJson, askNumbers } from "./api.js";
import { button, make, refill, rove, visible } from "./build.js";
import { header } from "./frame.js";
import { chosenWith } from "./grid.js";
import { dress } from "./paint.js";
import { arcsPanel, headsPanel, heatPanel, neuronPanel } from "./panels_attention.js";
import { lensPanel, predictPanel } from "./panels_answers.js";
import { attributePanel, whatIfPanel } from "./panels_causes.js";
import { comparePanel } from "./panel_compare.js";
import { generatePanel } from "./panel_generate.js";
import { anatomyPanel } from "./panel_anatomy.js";
import { relationsPanel } from "./panel_relations.js";
import { forText, readState, writeState } from "./state.js";
import { say, speak } from "./words.js";
import "./texts.js";

const PANELS = {
  heads: [headsPanel, "allHeads"], arcs: [arcsPanel, "headView"], heat: [heatPanel, "heatMap"], neuron: [neuronPanel, "neuronView"],
  relations: [relationsPanel, "relations"],
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
    this.working = 0; // how much is under way
    this.unread = ""; // why the text that stands there was not read
    this.turns = { tokens: 0, read: 0 }; // of questions, so that a late answer does not replace a newer one
  }

  async begin() {
    speak(this.state.language);
    this.about = await askJson("model");
    if (!this.state.text) {
      this.state.text = this.about.text;
      this.state.pair = this.about.pair;
    }
    this.state.model = Math.max(0, Math.min(this.state.model, this.about.models.length - 1));
    if (!Object.hasOwn(PANELS, this.state.view)) this.state.view = "heads";
    this.build();
    await this.read();
    document.documentElement.dataset.ready = "yes";
  }

  get model() {
    return this.about.models[this.state.model];
  }

  // The kind of attention that is looked at; encoder-decoders have three.
  get part() {
    return this.reading.parts[this.partName];
  }

  get partName() {
    const { parts } = this.reading;
    return Object.hasOwn(parts, this.state.part) ? this.state.part : Object.keys(parts)[0];
  }

  // --- the frame ------------------------------------------------------------------------------------------------

  build() {
    const { state } = this;
    speak(state.language);
    dress(["light", "dark"].includes(state.theme) ? state.theme : "auto");
    document.title = say("title");
    this.chips = make("div", { className: "tokens", role: "group", "aria-label": say("tokens") });
    rove(this.chips);
    this.source = make("div", { className: "tokens source", role: "group", "aria-label": say("sourceTokens") });
    this.problem = make("p", { className: "error", role: "alert" });
    this.panel = make("div", { role: "tabpanel", id: "panel", tabIndex: -1 });
    const works = make("p", { className: "works", textContent: say("works"), "aria-hidden": "true" }); // shown after a while
    refill(this.root, header(this), this.fields(), this.source, this.chips, this.problem, this.tabs(), works, this.panel);
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
    this.pairField = null;
    const { decoder, writes_beside: writes } = this.model;
    return make("div", { className: decoder ? "texts one" : "texts" }, field("text", "text"),
      decoder ? null : field("pair", writes ? "target" : "pair"), button(say("read"), () => this.take()));
  }

  tabs() {
    const names = Object.keys(PANELS);
    const list = make("div", { role: "tablist", "aria-label": say("views") });
    list.append(...names.map((name) => make("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", textContent: say(PANELS[name][1]),
      onclick: () => this.set({ view: name }),
    })));
    list.addEventListener("keydown", (event) => {
      const at = names.indexOf(this.state.view);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = names.at(to % names.length);
      this.set({ view: next });
      document.getElementById(`tab-${next}`).focus();
    });
    return list;
  }

  // --- the text -------------------------------------------------------------------------------------------------

  typed() {
    clearTimeout(this.waiting);
    const [text, pair] = [this.textField.value, this.pairField?.value ?? ""];
    const turn = ++this.turns.tokens;
    askJson("tokens", { text, pair, model: this.state.model })
      .then((tokens) => turn === this.turns.tokens && this.showTokens(tokens))
      .catch((error) => this.tell(error.message));
    this.waiting = setTimeout(() => this.take(), PAUSE);
  }

  async take() {
    clearTimeout(this.waiting);
    this.turns.tokens++; // what was typed on the way is of no more interest
    const [text, pair] = [this.textField.value, this.pairField?.value ?? this.state.pair];
    const { kind, mask } = this.model;
    const asks = kind === "next" || (mask && text.includes(mask)); // about its end, or about a mask
    Object.assign(this.state, forText(), { text, pair }, asks ? { position: null } : {});
    await this.read();
  }

  async read() {
    await this.safely(async () => {
      const { text, pair, mask, model } = this.state;
      const question = { text, pair: this.model.decoder ? "" : pair, model };
      if (mask !== null) question.mask = mask;
      const turn = ++this.turns.read;
      this.unread = "";
      const reading = await askJson("read", question).catch((error) => {
        this.unread = error.message; // it stays true until another text is read
        throw error;
      });
      if (turn !== this.turns.read) return;
      this.reading = reading;
      this.weights.clear();
      this.thumbs = new Map();
      await this.pictures();
      const { state } = this;
      Object.assign(state, this.there(state.layer, state.heads));
      const last = reading.tokens.length - 1;
      const first = this.model.kind === "next" ? last : reading.tokens.indexOf(this.model.mask); // what is asked for, if anything
      state.position = Math.max(0, Math.min(state.position ?? first, last));
      writeState(state);
      this.showTokens(reading);
      this.open();
    });
  }

  showTokens({ tokens, ids, special, segments, source }) {
    const inside = (token, id) => [make("bdi", { textContent: visible(token) }), make("small", { textContent: String(id) })];
    this.source.replaceChildren(...(source?.tokens ?? []).map((token, place) => make("span", {
      className: `token${source.special[place] ? " special" : ""}`,
    }, ...inside(token, source.ids[place]))));
    refill(this.chips, ...tokens.map((token, place) => make("button", {
      type: "button", title: `${place}: ${visible(token)} (${ids[place]})`,
      className: `token${special[place] ? " special" : ""}${segments[place] ? " second" : ""}`,
      "aria-label": `${say("token")} ${place} ${visible(token)}, ${say("id")} ${ids[place]}${special[place] ? `, ${say("special")}` : ""}`,
      onclick: () => this.set({ position: place }),
    }, ...inside(token, ids[place]))));
    this.markToken();
  }

  markToken() {
    const at = Math.min(this.state.position ?? 0, this.chips.children.length - 1);
    [...this.chips.children].forEach((chip, place) => {
      chip.setAttribute("aria-pressed", String(place === at));
      chip.tabIndex = place === at ? 0 : -1;
    });
  }

  // --- what is shown --------------------------------------------------------------------------------------------

  // Remember a choice in the address; nothing is drawn anew.
  note(changes) {
    Object.assign(this.state, changes);
    writeState(this.state);
  }

  set(changes) {
    const { view, position } = this.state;
    const moved = "position" in changes && changes.position !== position;
    this.note(moved ? { target: null, ...changes } : changes); // another place, another answer
    if (moved) this.markToken();
    if (view !== this.state.view) this.open();
    else this.refresh(changes);
  }

  open() {
    for (const name of Object.keys(PANELS)) {
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", String(name === this.state.view));
      tab.tabIndex = name === this.state.view ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.state.view}`);
    this.tell("");
    delete this.panel.dataset.view;
    const inner = make("div");
    this.panel.replaceChildren(inner);
    if (!this.reading) return; // no text could be read yet
    this.safely(async () => {
      const { view } = this.state;
      const shown = PANELS[view][0](this, inner);
      Object.assign(this, { shown, inner });
      await this.work(shown, {});
      if (this.shown === shown) this.panel.dataset.view = view; // no other was opened meanwhile
    });
  }

  refresh(changes) {
    if (this.changes) Object.assign(this.changes, changes); // the view is at work: they wait
    else if (this.shown) this.safely(() => this.work(this.shown, changes));
  }

  // Let a view show what changed; what changes meanwhile is shown after it, all at once.
  async work(shown, changes) {
    let now = changes;
    try {
      do {
        this.changes = {};
        await shown.update(now);
        now = this.changes;
      } while (this.shown === shown && Object.keys(now).length);
    } finally {
      if (this.shown === shown) this.changes = null;
    }
  }

  // The layer and the heads that are meant, as far as this kind of attention has them.
  there(layer, heads) {
    const { layers } = this.part;
    const found = Object.hasOwn(layers, layer) ? layer : Number(Object.keys(layers)[0]);
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
    this.set({ layer, heads: chosenWith(this.state.heads, head, several && layer === this.state.layer) });
  }

  tell(message) {
    this.problem.textContent = message || this.unread;
  }

  async safely(work) {
    this.working++;
    this.root.setAttribute("aria-busy", "true");
    try {
      await work();
      this.tell("");
    } catch (error) {
      this.tell(error.message);
    } finally {
      if (!--this.working) this.root.setAttribute("aria-busy", "false");
    }
  }
}

const explorer = new Explorer(document.getElementById("explorer"));
const begin = () => explorer.begin().catch((error) => // the server does not answer
  explorer.root.replaceChildren(make("p", { className: "error", textContent: error.message })));
addEventListener("hashchange", () => { // another link was put into the address
  if (!explorer.about) return;
  Object.assign(explorer, { state: readState(), reading: null, said: null });
  begin();
});
begin();
