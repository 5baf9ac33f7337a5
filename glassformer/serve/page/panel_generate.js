// Generation, played back: each new word with the words that stood beside it.

import { askJson } from "./api.js";
import { button, harmless, labelled, make, slider, table, tick, visible } from "./build.js";
import { share } from "./panels_answers.js";
import { say } from "./words.js";

const BEAT = 600; // milliseconds between two words

export function generatePanel(app, root) {
  if (app.model.kind !== "next") {
    root.append(make("p", { className: "note", textContent: say("noWriting") }));
    return { update() {} };
  }
  const settings = { steps: 20, sample: false, temperature: 1, top_k: 0, top_p: 1, seed: 0 };
  const place = make("div");
  let found = null, at = 0, playing = null;
  const seed = make("input", { type: "number", min: "0", value: "0", oninput: () => (settings.seed = Math.max(0, Number(seed.value) || 0)) });
  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = say("play");
  };
  const step = (by) => {
    at = Math.max(0, Math.min(found.steps.length - 1, at + by));
    draw();
  };
  const play = button(say("play"), () => {
    if (playing) return stop();
    if (at === found.steps.length - 1) at = -1;
    play.textContent = say("pause");
    playing = setInterval(() => {
      if (!root.isConnected || at >= found.steps.length - 1) stop();
      else step(1);
    }, BEAT);
  });
  const draw = () => {
    const { pieces, start, steps } = found;
    const words = pieces.slice(0, start + at + 1).map((piece, i) => make("span", {
      className: i < start ? "" : i === start + at ? "new here" : "new", textContent: harmless(piece),
    }));
    const now = steps[at];
    const rows = now.others.map(([name, chance]) => [visible(name), chance.toFixed(5), share(chance, now.others[0][1]), name === now.chosen ? "←" : ""]);
    place.replaceChildren(make("p", { className: "written", dir: "auto" }, ...words),
      make("p", { className: "told", role: "status", textContent: `${at + 1} / ${steps.length}: ${visible(now.chosen)} ${now.probability?.toFixed(5) ?? ""}` }),
      table(say("predictions"), [say("guess"), say("probability"), "", ""], rows));
  };
  const write = async () => {
    stop();
    found = await askJson("generate", { text: app.state.text, model: app.state.model, ...settings });
    at = 0;
    if (found.steps.length) draw();
  };
  const set = (name) => (value) => (settings[name] = value);
  root.append(
    make("div", { className: "controls" }, slider(say("steps"), { low: 1, high: 100, step: 1, value: 20 }, set("steps")),
      tick(say("sample"), false, set("sample")),
      slider(say("temperature"), { low: 0.1, high: 3, step: 0.05, value: 1, shown: (v) => v.toFixed(2) }, set("temperature")),
      slider(say("topK"), { low: 0, high: 50, step: 1, value: 0 }, set("top_k")),
      slider(say("topP"), { low: 0.05, high: 1, step: 0.05, value: 1, shown: (v) => v.toFixed(2) }, set("top_p")),
      labelled(say("seed"), seed)),
    make("div", { className: "controls" }, button(say("write"), () => app.safely(write), { id: "write" }), play,
      button(say("back"), () => found && step(-1)), button(say("forward"), () => found && step(1))), place);
  return { update: (changes) => (Object.keys(changes).length ? undefined : write()), found: () => found };
}
