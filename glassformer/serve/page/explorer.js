// The explorer: a text, its tokens, and one panel at a time that shows what the model computes for them.

import { requestBytes, requestJson, requestNumbers } from "./api.js";
import { button, displayToken, element, rovingFocus, updateChildren } from "./dom.js";
import { header } from "./header.js";
import { toggleHead } from "./head_grid.js";
import { setTheme } from "./canvas.js";
import { headsPanel, headViewPanel, heatMapPanel, neuronViewPanel } from "./panels_attention.js";
import { lensPanel, predictPanel } from "./panels_predictions.js";
import { attributePanel } from "./panel_attribution.js";
import { comparePanel } from "./panel_compare.js";
import { generatePanel } from "./panel_generate.js";
import { anatomyPanel } from "./panel_anatomy.js";
import { relationsPanel } from "./panel_relations.js";
import { whatIfPanel } from "./panel_what_if.js";
import { readState, textDefaults, writeState } from "./state.js";
import { setLanguage, translate } from "./translations.js";
import "./explorer_translations.js";

const PANELS = {
  heads: [headsPanel, "allHeads"], arcs: [headViewPanel, "headView"], heat: [heatMapPanel, "heatMap"], neuron: [neuronViewPanel, "neuronView"],
  relations: [relationsPanel, "relations"],
  predict: [predictPanel, "predictions"], lens: [lensPanel, "lens"], whatif: [whatIfPanel, "whatIf"],
  attribute: [attributePanel, "attribution"], compare: [comparePanel, "compare"], generate: [generatePanel, "generation"],
  anatomy: [anatomyPanel, "anatomy"],
};
const READ_DELAY = 500; // milliseconds after the last key until the text is sent to the model

class Explorer {
  constructor(root) {
    this.root = root;
    this.state = readState();
    this.weights = new Map();
    this.pending = 0; // running operations
    this.readError = ""; // why the current text could not be read
    this.sequence = { tokens: 0, read: 0 }; // numbers of requests, so that a late response does not replace a newer one
  }

  async start() {
    setLanguage(this.state.language);
    this.about = await requestJson("model");
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

  // The selected kind of attention; encoder-decoders have three.
  get part() {
    return this.reading.parts[this.partName];
  }

  get partName() {
    const { parts } = this.reading;
    return Object.hasOwn(parts, this.state.part) ? this.state.part : Object.keys(parts)[0];
  }

  // --- the layout -----------------------------------------------------------------------------------------------

  build() {
    const { state } = this;
    setLanguage(state.language);
    setTheme(["light", "dark"].includes(state.theme) ? state.theme : "auto");
    document.title = translate("title");
    this.chips = element("div", { className: "tokens", role: "group", "aria-label": translate("tokens") });
    rovingFocus(this.chips);
    this.source = element("div", { className: "tokens source", role: "group", "aria-label": translate("sourceTokens") });
    this.error = element("p", { className: "error", role: "alert" });
    this.panel = element("div", { role: "tabpanel", id: "panel", tabIndex: -1 });
    const busy = element("p", { className: "busy", textContent: translate("busy"), "aria-hidden": "true" }); // shown after a delay
    updateChildren(this.root, header(this), this.fields(), this.source, this.chips, this.error, this.tabs(), busy, this.panel);
    if (this.reading) {
      this.showTokens(this.reading);
      this.openPanel();
    }
  }

  fields() {
    const field = (name, label) => {
      const area = element("textarea", { value: this.state[name], rows: 1, dir: "auto", spellcheck: false, id: name });
      area.addEventListener("input", () => this.onInput());
      area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.readFields();
      });
      this[`${name}Field`] = area;
      return element("label", {}, translate(label), area);
    };
    this.pairField = null;
    const { decoder, writes_beside: writes } = this.model;
    return element("div", { className: decoder ? "texts single" : "texts" }, field("text", "text"),
      decoder ? null : field("pair", writes ? "target" : "pair"), button(translate("read"), () => this.readFields()));
  }

  tabs() {
    const names = Object.keys(PANELS);
    const list = element("div", { role: "tablist", "aria-label": translate("views") });
    list.append(...names.map((name) => element("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", textContent: translate(PANELS[name][1]),
      onclick: () => this.set({ view: name }),
    })));
    list.addEventListener("keydown", (event) => {
      const current = names.indexOf(this.state.view);
      const index = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: names.length - 1 }[event.key];
      if (index === undefined) return;
      event.preventDefault();
      const next = names.at(index % names.length);
      this.set({ view: next });
      document.getElementById(`tab-${next}`).focus();
    });
    return list;
  }

  // --- the text -------------------------------------------------------------------------------------------------

  onInput() {
    clearTimeout(this.readTimer);
    const [text, pair] = [this.textField.value, this.pairField?.value ?? ""];
    const number = ++this.sequence.tokens;
    requestJson("tokens", { text, pair, model: this.state.model })
      .then((tokens) => number === this.sequence.tokens && this.showTokens(tokens))
      .catch((error) => this.showError(error.message));
    this.readTimer = setTimeout(() => this.readFields(), READ_DELAY);
  }

  async readFields() {
    clearTimeout(this.readTimer);
    this.sequence.tokens++; // pending tokens of a partial text are obsolete
    const [text, pair] = [this.textField.value, this.pairField?.value ?? this.state.pair];
    const { kind, mask } = this.model;
    const movesPosition = kind === "next" || (mask && text.includes(mask)); // to the end, or to the mask
    Object.assign(this.state, textDefaults(), { text, pair }, movesPosition ? { position: null } : {});
    await this.read();
  }

  async read() {
    await this.run(async () => {
      const { text, pair, mask, model } = this.state;
      const request = { text, pair: this.model.decoder ? "" : pair, model };
      if (mask !== null) request.mask = mask;
      const number = ++this.sequence.read;
      this.readError = "";
      const reading = await requestJson("read", request).catch((error) => {
        this.readError = error.message; // shown until another text is read
        throw error;
      });
      if (number !== this.sequence.read) return;
      this.reading = reading;
      this.weights.clear();
      this.thumbnails = new Map();
      await this.fetchThumbnails();
      const { state } = this;
      Object.assign(state, this.availableHeads(state.layer, state.heads));
      const last = reading.tokens.length - 1;
      const first = this.model.kind === "next" ? last : reading.tokens.indexOf(this.model.mask); // the predicted position, if there is one
      state.position = Math.max(0, Math.min(state.position ?? first, last));
      writeState(state);
      this.showTokens(reading);
      this.openPanel();
    });
  }

  showTokens({ tokens, ids, special, segments, source }) {
    const inside = (token, id) => [element("bdi", { textContent: displayToken(token) }), element("small", { textContent: String(id) })];
    this.source.replaceChildren(...(source?.tokens ?? []).map((token, position) => element("span", {
      className: `token${source.special[position] ? " special" : ""}`,
    }, ...inside(token, source.ids[position]))));
    updateChildren(this.chips, ...tokens.map((token, position) => element("button", {
      type: "button", title: `${position}: ${displayToken(token)} (${ids[position]})`,
      className: `token${special[position] ? " special" : ""}${segments[position] ? " second" : ""}`,
      "aria-label": `${translate("token")} ${position} ${displayToken(token)}, ${translate("id")} ${ids[position]}${special[position] ? `, ${translate("special")}` : ""}`,
      onclick: () => this.set({ position }),
    }, ...inside(token, ids[position]))));
    this.markToken();
  }

  markToken() {
    const at = Math.min(this.state.position ?? 0, this.chips.children.length - 1);
    [...this.chips.children].forEach((chip, position) => {
      chip.setAttribute("aria-pressed", String(position === at));
      chip.tabIndex = position === at ? 0 : -1;
    });
  }

  // --- the panels -----------------------------------------------------------------------------------------------

  // Store changes in the address without drawing.
  store(changes) {
    Object.assign(this.state, changes);
    writeState(this.state);
  }

  set(changes) {
    const { view, position } = this.state;
    const moved = "position" in changes && changes.position !== position;
    this.store(moved ? { target: null, ...changes } : changes); // another position has other answers
    if (moved) this.markToken();
    if (view !== this.state.view) this.openPanel();
    else this.refresh(changes);
  }

  openPanel() {
    for (const name of Object.keys(PANELS)) {
      const tab = document.getElementById(`tab-${name}`);
      tab.setAttribute("aria-selected", String(name === this.state.view));
      tab.tabIndex = name === this.state.view ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.state.view}`);
    this.showError("");
    delete this.panel.dataset.view;
    const inner = element("div");
    this.panel.replaceChildren(inner);
    if (!this.reading) return; // no text has been read yet
    this.run(async () => {
      const { view } = this.state;
      const activePanel = PANELS[view][0](this, inner);
      Object.assign(this, { activePanel, inner });
      await this.updatePanel(activePanel, {});
      if (this.activePanel === activePanel) this.panel.dataset.view = view; // unless another was opened meanwhile
    });
  }

  refresh(changes) {
    if (this.changes) Object.assign(this.changes, changes); // the panel is being updated: they wait
    else if (this.activePanel) this.run(() => this.updatePanel(this.activePanel, changes));
  }

  // Update a panel; changes that arrive meanwhile are applied afterwards, all at once.
  async updatePanel(panel, changes) {
    let current = changes;
    try {
      do {
        this.changes = {};
        await panel.update(current);
        current = this.changes;
      } while (this.activePanel === panel && Object.keys(current).length);
    } finally {
      if (this.activePanel === panel) this.changes = null;
    }
  }

  // The layer and those of the heads that this kind of attention has.
  availableHeads(layer, heads) {
    const { layers } = this.part;
    const available = Object.hasOwn(layers, layer) ? layer : Number(Object.keys(layers)[0]);
    const kept = heads.filter((head) => layers[available].heads.includes(head));
    return { layer: available, heads: kept.length ? kept : layers[available].heads.slice(0, 1) };
  }

  // The weights of a head, fetched once for each text.
  async fetchHead(layer, head) {
    const [{ reading }, part] = [this.reading, this.partName];
    const key = `${part}.${layer}.${head}`;
    if (!this.weights.has(key)) this.weights.set(key, await requestNumbers("head", { reading, part, layer, head }));
    return this.weights.get(key);
  }

  // The thumbnails of all heads, fetched once for each kind of attention.
  async fetchThumbnails() {
    const [{ reading }, part] = [this.reading, this.partName];
    if (!this.thumbnails.has(part)) this.thumbnails.set(part, new Uint8Array(await requestBytes("thumbs", { reading, part })));
    return this.thumbnails.get(part);
  }

  selectHead(layer, head, several) {
    this.set({ layer, heads: toggleHead(this.state.heads, head, several && layer === this.state.layer) });
  }

  showError(message) {
    this.error.textContent = message || this.readError;
  }

  // Run an operation: the page is busy meanwhile, and its error is shown.
  async run(operation) {
    this.pending++;
    this.root.setAttribute("aria-busy", "true");
    try {
      await operation();
      this.showError("");
    } catch (error) {
      this.showError(error.message);
    } finally {
      if (!--this.pending) this.root.setAttribute("aria-busy", "false");
    }
  }
}

const explorer = new Explorer(document.getElementById("explorer"));
const start = () => explorer.start().catch((error) => // the server does not answer
  explorer.root.replaceChildren(element("p", { className: "error", textContent: error.message })));
addEventListener("hashchange", () => { // another link was entered
  if (!explorer.about) return;
  Object.assign(explorer, { state: readState(), reading: null, previousProbabilities: null });
  start();
});
start();
