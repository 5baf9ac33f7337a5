// Generation, played back: each new word with the words that stood beside it.

import { askJson } from "./api.js";
import { button, harmless, labelled, make, slider, table, tick, visible } from "./build.js";
import { chance, emptyPanel, narrowed, narrowing, share } from "./panels_answers.js";
import { say } from "./words.js";

const BEAT = 600; // milliseconds between two words

export function generatePanel(app, root) {
  if (app.model.kind !== "next") return emptyPanel(root, "noWriting");
  const { state } = app;
  const place = make("div");
  const keep = (changes) => app.note(changes); // it is written when that is asked for
  let [found, playing] = [null, null];
  const seed = make("input", { type: "number", min: "0", value: state.seed, oninput: () => keep({ seed: Math.max(0, Math.floor(Number(seed.value)) || 0) }) });
  const stop = () => {
    clearInterval(playing);
    playing = null;
    play.textContent = say("play");
  };
  const go = (to) => {
    keep({ step: Math.max(0, Math.min(found.steps.length - 1, to)) });
    draw();
  };
  const play = button(say("play"), () => {
    if (playing || !found?.steps.length) return stop();
    if (state.step >= found.steps.length - 1) go(0);
    play.textContent = say("pause");
    playing = setInterval(() => {
      if (!root.isConnected || state.step >= found.steps.length - 1) stop();
      else go(state.step + 1);
    }, BEAT);
    return undefined;
  });
  const draw = () => {
    const { pieces, start, steps } = found;
    const words = pieces.slice(0, start + state.step + 1).map((piece, i) => make("span", {
      className: i < start ? "" : i === start + state.step ? "new here" : "new", textContent: harmless(piece),
    }));
    const now = steps[state.step];
    const rows = now.others.map(([name, value]) => [visible(name), chance(value), share(value), name === now.chosen ? "←" : ""]);
    place.replaceChildren(make("p", { className: "written", dir: "auto" }, ...words),
      make("p", { className: "told", role: "status", textContent:
        `${state.step + 1} / ${steps.length}: ${visible(now.chosen)} ${now.probability === null ? "" : chance(now.probability)}` }),
      table(say("stoodThere"), [say("guess"), say("probability"), "", ""], rows));
  };
  const write = async () => {
    stop();
    const { text, model, steps, sample, seed: number } = state;
    found = await askJson("generate", { text, model, steps, sample, seed: number, ...narrowed(state) });
    if (found.steps.length) go(state.step);
    else place.replaceChildren(make("p", { className: "note", textContent: say("wroteNothing") }));
  };
  const drawn = make("fieldset", { disabled: !state.sample }, ...narrowing(app, keep), labelled(say("seed"), seed)); // for a sample only
  const again = () => app.safely(async () => {
    keep({ step: 0 });
    await write();
  });
  root.append(
    make("div", { className: "controls" }, slider(say("steps"), { low: 1, high: 100, step: 1, value: state.steps }, (steps) => keep({ steps })),
      tick(say("sample"), state.sample, (sample) => {
        keep({ sample });
        drawn.disabled = !sample;
      }), drawn),
    make("div", { className: "controls" }, button(say("write"), again, { id: "write" }), play,
      button(say("back"), () => found?.steps.length && go(state.step - 1)), button(say("forward"), () => found?.steps.length && go(state.step + 1))),
    place);
  return { update: (changes) => (Object.keys(changes).length ? undefined : write()), found: () => found };
}
