// Panels that ask why: what changes when something is switched off or patched, and which tokens an answer rests on.

import { askJson } from "./api.js";
import { button, choice, labelled, make, slider, table, tick, visible } from "./build.js";
import { colour, triple } from "./paint.js";
import { headPicker } from "./panels_attention.js";
import { share, tokenPicker } from "./panels_answers.js";
import { say } from "./words.js";

// Tokens on a ground as strong as their numbers, with the numbers beneath.
function scored(tokens, scores, all = scores) {
  const most = Math.max(1e-12, ...all.map(Math.abs));
  const [plus, minus] = [triple(colour("strong")), triple(colour("minus"))];
  return make("div", { className: "scored" }, ...tokens.map((token, i) => {
    const [r, g, b] = scores[i] < 0 ? minus : plus;
    const box = make("span", {}, make("bdi", { textContent: visible(token) }), make("small", { textContent: scores[i].toFixed(4) }));
    box.style.background = `rgb(${r} ${g} ${b} / ${((Math.abs(scores[i]) / most) * 0.6).toFixed(3)})`;
    return box;
  }));
}

export function whatIfPanel(app, root) {
  const picker = headPicker(app);
  const plan = { factor: 0, heads: {}, skip: new Set(), source: "", layer: 0, here: "", there: "" };
  const result = make("div");
  let found = null;
  const kept = make("p", { className: "hint" });
  // Heads that were changed before, with those that are chosen now: {heads, cross_heads}, each {layer: {head: factor}}.
  const changed = () => {
    const { layer, heads } = app.state;
    const kind = app.partName === "cross" ? "cross_heads" : "heads";
    const own = { ...plan.heads[kind]?.[layer], ...Object.fromEntries(heads.map((head) => [head, plan.factor])) };
    return { ...plan.heads, [kind]: { ...plan.heads[kind], [layer]: own } };
  };
  const tellKept = () => {
    const all = Object.entries(plan.heads).flatMap(([kind, layers]) => Object.entries(layers).flatMap(([layer, heads]) =>
      Object.entries(heads).map(([head, factor]) => `${kind === "heads" ? "" : `${say("cross")} `}${layer}.${head} × ${factor}`)));
    kept.textContent = all.length ? `${say("keptHeads")}: ${all.join(", ")}` : "";
  };
  const skips = make("div", { className: "controls" }, make("span", { textContent: say("skipLayers") }),
    ...app.model.heads.map((_, layer) => tick(String(layer), false, (on) => (on ? plan.skip.add(layer) : plan.skip.delete(layer)))));
  const source = make("input", { type: "text", dir: "auto", oninput: () => (plan.source = source.value) });
  const number = (label, name) => {
    const input = make("input", { type: "number", min: "0", placeholder: "–", oninput: () => (plan[name] = input.value) });
    return labelled(say(label), input);
  };
  const patch = make("div", { className: "controls" }, labelled(say("patchFrom"), source),
    choice(say("behind"), app.model.heads.map((_, i) => [i, i]), 0, (layer) => (plan.layer = Number(layer))),
    number("there", "there"), number("here", "here"), make("span", { className: "hint", textContent: `– : ${say("everywhere")}` }));
  const run = async () => {
    const { position } = app.state;
    const question = { reading: app.reading.reading, position, skip: [...plan.skip] };
    Object.assign(question, changed());
    if (plan.source) {
      Object.assign(question, { source: plan.source, layer: plan.layer });
      if (plan.here !== "" && plan.there !== "") Object.assign(question, { here: Number(plan.here), there: Number(plan.there) });
    }
    found = await askJson("change", question);
    const most = Math.max(0, ...[...found.before, ...found.after].map((guess) => guess.probability));
    const guesses = (list) => list.slice(0, 8).map((guess) => [visible(guess.text), guess.probability.toFixed(5), share(guess.probability, most)]);
    result.replaceChildren(
      ...(found.divergence === null ? [] : [make("p", { className: "told", textContent: say("divergence", found.divergence.toPrecision(3)) }),
        make("div", { className: "columns" }, ...["before", "after"].map((when) =>
          table(say(when), [say(app.model.kind === "label" ? "label" : "guess"), say("probability"), ""], guesses(found[when]))))]),
      make("h2", { textContent: say("movedBy") }), scored(app.reading.tokens, found.moved));
  };
  root.append(picker.bar, make("div", { className: "controls" },
    slider(say("factor"), { low: 0, high: 2, step: 0.1, value: 0, shown: (v) => (v ? v.toFixed(1) : say("off")) }, (factor) => (plan.factor = factor)),
    button(say("tryIt"), () => app.safely(run), { id: "try" }),
    button(say("keepHeads"), () => {
      plan.heads = changed();
      tellKept();
    }, { id: "keep-heads" }),
    button(say("forgetHeads"), () => {
      plan.heads = {};
      tellKept();
      app.safely(run);
    })), kept, skips, patch, result);
  return {
    async update() {
      picker.draw();
      await run();
    },
    found: () => found,
  };
}

export function attributePanel(app, root) {
  const bar = make("div", { className: "controls" });
  const place = make("div");
  root.append(bar, make("p", { className: "note", textContent: say("honest") }), place);
  const { kind } = app.model;
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
      const { method, position, target } = app.state;
      const pickers = [choice(say("method"), Object.keys(app.about.methods).map((name) => [name, name]), method, (value) => app.set({ method: value }))];
      if (kind !== "label") pickers.push(tokenPicker(app));
      if (kind !== "none") pickers.push(await targetPicker());
      bar.replaceChildren(...pickers);
      found = await askJson("attribute", { reading: app.reading.reading, method, position, target });
      const parts = found.source ? [[say("text"), 0, found.source], [say("written"), found.source]] : [["", 0]];
      place.replaceChildren(
        make("p", { className: "note", textContent: `${method}: ${say(method, app.about.methods[method])}` }),
        make("p", { className: "told", textContent:
          `${say(`about-${kind}`, visible(found.word), position, visible(app.reading.tokens[position]))}: ${found.value.toFixed(4)}` }),
        ...parts.flatMap(([name, ...range]) => [make("h2", { textContent: name }),
          scored(found.tokens.slice(...range), found.scores.slice(...range), found.scores)]),
        ...(found.gap === null ? [] : [make("p", { className: "hint", textContent: say("gap", found.gap.toFixed(4)) })]));
    },
    found: () => found,
  };
}
