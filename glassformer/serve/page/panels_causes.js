// Panels that ask why: what changes when something is switched off or patched, and which tokens an answer rests on.

import { askJson } from "./api.js";
import { button, choice, labelled, make, slider, table, tick, visible } from "./build.js";
import { colour, triple } from "./paint.js";
import { headPicker } from "./panels_attention.js";
import { share, tokenPicker } from "./panels_answers.js";
import { say } from "./words.js";

// Tokens on a ground as strong as their numbers, with the numbers beneath.
function scored(tokens, scores, digits = 4) {
  const most = Math.max(1e-12, ...scores.map(Math.abs));
  const [plus, minus] = [triple(colour("strong")), triple(colour("minus"))];
  return make("div", { className: "scored" }, ...tokens.map((token, i) => {
    const [r, g, b] = scores[i] < 0 ? minus : plus;
    const box = make("span", {}, make("bdi", { textContent: visible(token) }), make("small", { textContent: scores[i].toFixed(digits) }));
    box.style.background = `rgb(${r} ${g} ${b} / ${((Math.abs(scores[i]) / most) * 0.6).toFixed(3)})`;
    return box;
  }));
}

export function whatIfPanel(app, root) {
  const picker = headPicker(app);
  const plan = { factor: 0, heads: {}, skip: new Set(), source: "", layer: 0, here: "", there: "" };
  const result = make("div");
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
    const found = await askJson("change", question);
    const guesses = (list) => list.slice(0, 8).map((guess) => [visible(guess.text), guess.probability.toFixed(5), share(guess.probability)]);
    result.replaceChildren(
      ...(found.divergence === null ? [] : [make("p", { className: "told", textContent: say("divergence", found.divergence.toFixed(4)) }),
        make("div", { className: "columns" }, ...["before", "after"].map((when) =>
          table(say(when), [say("guess"), say("probability"), ""], guesses(found[when]))))]),
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
  };
}

export function attributePanel(app, root) {
  const bar = make("div", { className: "controls" });
  const place = make("div");
  root.append(bar, make("p", { className: "note", textContent: say("honest") }), place);
  return {
    async update() {
      const { method, position } = app.state;
      bar.replaceChildren(choice(say("method"), Object.keys(app.about.methods).map((name) => [name, name]), method, (value) => app.set({ method: value })),
        tokenPicker(app));
      const found = await askJson("attribute", { reading: app.reading.reading, method, position });
      place.replaceChildren(
        make("p", { className: "note", textContent: `${method}: ${say(method, app.about.methods[method])}` }),
        make("p", { className: "told", textContent: `${say("about", found.target)}: ${found.value.toFixed(4)}` }),
        scored(app.reading.tokens, found.scores),
        ...(found.gap === null ? [] : [make("p", { className: "hint", textContent: say("gap", found.gap.toFixed(4)) })]));
    },
  };
}
