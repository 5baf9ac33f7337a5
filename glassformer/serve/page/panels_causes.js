// Panels that ask why: what changes when something is switched off or patched, and which tokens an answer rests on.

import { askJson } from "./api.js";
import { button, choice, exact, labelled, make, refill, slider, table, tick, visible } from "./build.js";
import { headPicker } from "./panels_attention.js";
import { chance, emptyPanel, guessed, share, tinted, tokenPicker } from "./panels_answers.js";
import { say } from "./words.js";

const HIDING = ["integrated-gradients", "occlusion"]; // methods that hide tokens

// Four digits, without the sign of what they show as nothing.
function signed(value) {
  return (Math.abs(value) < 5e-5 ? 0 : value).toFixed(4);
}

function bits(value) {
  return value === 0 || value >= 1e-3 ? value.toPrecision(3) : value.toExponential(1);
}

// Tokens on a ground as strong as their numbers, with the numbers beneath.
function scored(tokens, scores, all = scores) {
  const most = Math.max(5e-5, ...all.map(Math.abs)); // what is shown as nothing has no ground
  return make("div", { className: "scored" }, ...tokens.map((token, i) => tinted(make("span", {},
    make("bdi", { textContent: visible(token) }), make("small", { textContent: signed(scores[i]) })), scores[i] / most)));
}

export function whatIfPanel(app, root) {
  if (!app.model.heads.length) return emptyPanel(root, "noWhatIf");
  const { state } = app;
  const picker = headPicker(app);
  const [kept, skips, patch, result] = [make("p", { className: "told" }), make("div", { className: "controls" }),
    make("div", { className: "controls" }), make("div")];
  let found = null;

  // Heads that are kept, with those that are chosen now: {heads, cross_heads}, each {layer: {head: factor}}.
  const changed = () => {
    const { layer, heads, factor } = state;
    const kind = app.partName === "cross" ? "cross_heads" : "heads";
    const own = { ...state.kept[kind]?.[layer], ...Object.fromEntries(heads.map((head) => [head, factor])) };
    return { ...state.kept, [kind]: { ...state.kept[kind], [layer]: own } };
  };
  const tellKept = () => {
    const all = Object.entries(state.kept).flatMap(([kind, layers]) => Object.entries(layers).flatMap(([layer, heads]) =>
      Object.entries(heads).map(([head, factor]) => `${kind === "heads" ? "" : `${say("cross")} `}${layer}.${head} × ${factor}`)));
    kept.hidden = !all.length;
    kept.textContent = all.length ? `${say("keptHeads")}: ${all.join(", ")}` : "";
  };
  // A tick for each layer; those of an encoder-decoder stand with the half that they belong to.
  const drawSkips = () => {
    const halves = Object.entries(app.reading.parts).filter(([name]) => name !== "cross");
    refill(skips, make("span", { textContent: say("skipLayers") }), ...halves.flatMap(([name, { layers }]) => [
      halves.length > 1 ? make("span", { className: "hint", textContent: say(name) }) : null,
      ...Object.keys(layers).map(Number).map((layer) => tick(String(layer), state.skip.includes(layer),
        (on) => app.set({ skip: on ? [...state.skip, layer] : state.skip.filter((each) => each !== layer) }))),
    ]));
  };
  const numberField = (label, name) => {
    const input = make("input", { type: "number", min: "0", placeholder: say("allTokens"), value: state[name] ?? "",
      onchange: () => app.set({ [name]: input.value === "" ? null : Number(input.value) }) });
    return labelled(say(label), input);
  };
  const source = make("input", { type: "text", dir: "auto", value: state.source, onchange: () => app.set({ source: source.value }) });
  patch.append(labelled(say("patchFrom"), source),
    choice(say("behindLayer"), app.model.heads.map((_, i) => [i, i]), state.behind, (layer) => app.set({ behind: Number(layer) })),
    numberField("there", "there"), numberField("here", "here"));
  root.append(picker.bar, make("div", { className: "controls" },
    slider(say("factor"), { low: 0, high: 2, step: 0.1, value: state.factor, shown: (v) => (v === 0 ? say("off") : v === 1 ? say("unchanged") : v.toFixed(1)) },
      (factor) => app.set({ factor })),
    button(say("keepHeads"), () => app.set({ kept: changed() }), { id: "keep-heads" }),
    button(say("forgetHeads"), () => app.set({ kept: {} }))), kept, skips, patch, result);
  return {
    async update() {
      picker.draw();
      drawSkips();
      tellKept();
      const { position, skip } = state;
      const question = { reading: app.reading.reading, position, skip, ...changed() };
      const { source: text, behind, here, there } = state;
      if (text) Object.assign(question, { source: text, layer: behind, here, there });
      found = await askJson("change", question);
      const most = Math.max(0, ...[...found.before, ...found.after].map((guess) => guess.probability));
      const guesses = (list) => list.slice(0, 8).map((guess) => [visible(guess.text), chance(guess.probability), share(guess.probability, most)]);
      const { kind } = app.model;
      refill(result,
        ...(kind === "none" ? [] : [
          found.divergence === null ? null : make("p", { className: "told", textContent: say("divergence", bits(found.divergence)) }),
          kind === "label" ? null : make("p", { className: "note", textContent: say(`said-${kind}`, position, visible(app.reading.tokens[position])) }),
          make("div", { className: "columns" }, ...["before", "after"].map((when) =>
            table(say(when), [...guessed(app.model), ""], guesses(found[when]))))]),
        make("h2", { textContent: say("movedBy") }), scored(app.reading.tokens, found.moved));
    },
    found: () => found,
  };
}

export function attributePanel(app, root) {
  const bar = make("div", { className: "controls" });
  const place = make("div");
  root.append(bar, make("p", { className: "note", textContent: say("honest") }), place);
  const { kind } = app.model;
  const methods = Object.keys(app.about.methods);
  let found = null;
  // The word or label that is asked about: the likeliest, or one of those that come next.
  const targetPicker = async () => {
    const { position, target } = app.state;
    const { guesses } = await askJson("predict", { reading: app.reading.reading, position, count: 12 });
    const names = guesses.map((guess) => [guess.id, `${visible(guess.text)} ${guess.probability.toFixed(4)}`]);
    return choice(say("answer"), [["", say("likeliest")], ...names], target ?? "", (id) => app.set({ target: id === "" ? null : Number(id) }));
  };
  return {
    async update() {
      const { position, target } = app.state;
      const method = methods.includes(app.state.method) ? app.state.method : methods[0];
      const answers = kind === "none" ? null : await targetPicker();
      refill(bar, choice(say("method"), methods.map((name) => [name, say(name)]), method, (value) => app.set({ method: value })),
        kind === "label" ? null : tokenPicker(app), answers);
      found = await askJson("attribute", { reading: app.reading.reading, method, position, target });
      const halves = found.source ? [[say("text"), 0, found.source], [say("written"), found.source]] : [[null, 0]];
      place.replaceChildren(
        make("p", { className: "note", textContent: `${say(method)}: ${say(`${method}-is`, app.about.methods[method])}` }),
        ...(HIDING.includes(method) ? [make("p", { className: "note", textContent: say("hiddenBy", visible(found.hidden)) })] : []),
        make("p", { className: "told", textContent:
          `${say(`about-${kind}`, visible(found.word), position, visible(app.reading.tokens[position]))}: ${exact(found.value)}` }),
        ...halves.flatMap(([name, ...range]) => [...(name ? [make("h2", { textContent: name })] : []),
          scored(found.tokens.slice(...range), found.scores.slice(...range), found.scores)]),
        ...(found.gap === null ? [] : [make("p", { className: "note", textContent: say("gap", signed(found.gap)) })]));
    },
    found: () => found,
  };
}
