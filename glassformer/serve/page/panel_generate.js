// The generation panel: plays back a generation, each new word with the likeliest alternatives.

import { requestJson } from "./api.js";
import { button, checkbox, displayToken, element, escapeControls, labelledField, slider, table } from "./dom.js";
import { emptyPanel, formatProbability, samplingSettings, samplingSliders, shareBar } from "./panel_widgets.js";
import { translate } from "./translations.js";

const STEP_INTERVAL = 600; // milliseconds between two words

export function generatePanel(app, root) {
  if (app.model.kind !== "next") return emptyPanel(root, "noWriting");
  const { state } = app;
  const result = element("div");
  const store = (changes) => app.store(changes); // takes effect with the next generation
  let [generation, timer] = [null, null];
  const seed = element("input", { type: "number", min: "0", value: state.seed, oninput: () => store({ seed: Math.max(0, Math.floor(Number(seed.value)) || 0) }) });
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = translate("play");
  };
  const goTo = (step) => {
    store({ step: Math.max(0, Math.min(generation.steps.length - 1, step)) });
    draw();
  };
  const play = button(translate("play"), () => {
    if (timer || !generation?.steps.length) return stop();
    if (state.step >= generation.steps.length - 1) goTo(0);
    play.textContent = translate("pause");
    timer = setInterval(() => {
      if (!root.isConnected || state.step >= generation.steps.length - 1) stop();
      else goTo(state.step + 1);
    }, STEP_INTERVAL);
    return undefined;
  });
  const draw = () => {
    const { pieces, start, steps } = generation;
    const words = pieces.slice(0, start + state.step + 1).map((piece, i) => element("span", {
      className: i < start ? "" : i === start + state.step ? "new here" : "new", textContent: escapeControls(piece),
    }));
    const current = steps[state.step];
    const rows = current.others.map(([name, value]) => [displayToken(name), formatProbability(value), shareBar(value), name === current.chosen ? "←" : ""]);
    result.replaceChildren(element("p", { className: "written", dir: "auto" }, ...words),
      element("p", { className: "status", role: "status", textContent:
        `${state.step + 1} / ${steps.length}: ${displayToken(current.chosen)} ${current.probability === null ? "" : formatProbability(current.probability)}` }),
      table(translate("alternatives"), [translate("guess"), translate("probability"), "", ""], rows));
  };
  const generate = async () => {
    stop();
    const { text, model, steps, sample, seed: number } = state;
    generation = await requestJson("generate", { text, model, steps, sample, seed: number, ...samplingSettings(state) });
    if (generation.steps.length) goTo(state.step);
    else result.replaceChildren(element("p", { className: "note", textContent: translate("wroteNothing") }));
  };
  const samplingFields = element("fieldset", { disabled: !state.sample }, ...samplingSliders(app, store), labelledField(translate("seed"), seed));
  const rewrite = () => app.run(async () => {
    store({ step: 0 });
    await generate();
  });
  root.append(
    element("div", { className: "controls" }, slider(translate("steps"), { low: 1, high: 100, step: 1, value: state.steps }, (steps) => store({ steps })),
      checkbox(translate("sample"), state.sample, (sample) => {
        store({ sample });
        samplingFields.disabled = !sample;
      }), samplingFields),
    element("div", { className: "controls" }, button(translate("write"), rewrite, { id: "write" }), play,
      button(translate("back"), () => generation?.steps.length && goTo(state.step - 1)), button(translate("forward"), () => generation?.steps.length && goTo(state.step + 1))),
    result);
  return { update: (changes) => (Object.keys(changes).length ? undefined : generate()), data: () => generation };
}
