// The header of the page: model, language, theme and exports.

import { requestBytes } from "./api.js";
import { button, dropdown, element } from "./dom.js";
import { cssColour } from "./canvas.js";
import { download, downloadPng } from "./download.js";
import { rasterise, snapshot } from "./snapshot.js";
import { modelDefaults } from "./state.js";
import { translate } from "./translations.js";

export function header(app) {
  const { state, about } = app;
  const rebuild = (name) => (value) => {
    app.store({ [name]: value });
    app.build();
  };
  const { name, parameters, heads } = app.model;
  const description = [`${name} (${app.model.class})`, ...(heads.length ? [translate("layers", heads.length)] : []),
    translate("parameters", parameters.toLocaleString())];
  return element("header", {},
    element("h1", { textContent: translate("title") }),
    element("div", { className: "controls" },
      about.models.length > 1 ? dropdown(translate("model"), about.models.map((model, i) => [i, model.name]), state.model, async (value) => {
        Object.assign(state, modelDefaults(), { model: Number(value) });
        app.reading = app.previousProbabilities = null; // of the previous model
        app.build();
        await app.read();
      }) : null,
      dropdown(translate("language"), [["en", "English"], ["zh", "中文"]], state.language, rebuild("language")),
      dropdown(translate("theme"), [["auto", translate("auto")], ["light", translate("light")], ["dark", translate("dark")]], state.theme, rebuild("theme")),
      exports(app)),
    element("p", { className: "model", textContent: description.join(translate("comma")) }));
}

function exports(app) {
  const copy = button(translate("copyLink"), () => app.run(async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = translate("copied");
  }));
  const exportButton = (label, save, title) => button(label, () => app.reading && app.run(save), title ? { title } : {});
  return element("div", { className: "exports", role: "group", "aria-label": translate("export") }, copy,
    exportButton("HTML", async () => {
      const { layer, heads, language } = app.state;
      const request = { reading: app.reading.reading, part: app.partName, layer, heads, language };
      download("attention.html", new Blob([await requestBytes("page", request)]));
    }, translate("page")),
    exportButton("PNG", async () => downloadPng(`${app.state.view}.png`, app.activePanel.canvas?.() ?? await rasterise(snapshot(app.inner)), cssColour("paper"))),
    exportButton("SVG", async () => download(`${app.state.view}.svg`, app.activePanel.svg?.() ?? snapshot(app.inner).svg, "image/svg+xml")),
    exportButton("JSON", async () => {
      const { layer, heads } = app.state;
      const values = [];
      for (const head of heads) values.push({ head, weights: Array.from(await app.fetchHead(layer, head)) });
      const { tokens, ids } = app.reading;
      const found = app.activePanel.data?.() ?? null;
      download(`${app.state.view}.json`, JSON.stringify({ ...app.state, tokens, ids, values, found }), "application/json");
    }));
}
