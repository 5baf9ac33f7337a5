// The head of the page: which model, in which language and colours, and what can be saved.

import { askBytes } from "./api.js";
import { button, choice, make } from "./build.js";
import { colour } from "./paint.js";
import { download, downloadPng } from "./save.js";
import { painted, snapshot } from "./snapshot.js";
import { forModel } from "./state.js";
import { say } from "./words.js";

export function header(app) {
  const { state, about } = app;
  const redo = (name) => (value) => {
    app.note({ [name]: value });
    app.build();
  };
  const { name, parameters, heads } = app.model;
  const told = [`${name} (${app.model.class})`, ...(heads.length ? [say("layers", heads.length)] : []),
    say("parameters", parameters.toLocaleString())];
  return make("header", {},
    make("h1", { textContent: say("title") }),
    make("div", { className: "controls" },
      about.models.length > 1 ? choice(say("model"), about.models.map((model, i) => [i, model.name]), state.model, async (value) => {
        Object.assign(state, forModel(), { model: Number(value) });
        app.reading = app.said = null; // those of the other model
        app.build();
        await app.read();
      }) : null,
      choice(say("language"), [["en", "English"], ["zh", "中文"]], state.language, redo("language")),
      choice(say("theme"), [["auto", say("auto")], ["light", say("light")], ["dark", say("dark")]], state.theme, redo("theme")),
      exports(app)),
    make("p", { className: "model", textContent: told.join(say("comma")) }));
}

function exports(app) {
  const copy = button(say("copyLink"), () => app.safely(async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = say("copied");
  }));
  const give = (label, work, title) => button(label, () => app.reading && app.safely(work), title ? { title } : {});
  return make("div", { className: "exports", role: "group", "aria-label": say("export") }, copy,
    give("HTML", async () => {
      const { layer, heads, language } = app.state;
      const question = { reading: app.reading.reading, part: app.partName, layer, heads, language };
      download("attention.html", new Blob([await askBytes("page", question)]));
    }, say("page")),
    give("PNG", async () => downloadPng(`${app.state.view}.png`, app.shown.canvas?.() ?? await painted(snapshot(app.inner)), colour("paper"))),
    give("SVG", async () => download(`${app.state.view}.svg`, app.shown.svg?.() ?? snapshot(app.inner).svg, "image/svg+xml")),
    give("JSON", async () => {
      const { layer, heads } = app.state;
      const values = [];
      for (const head of heads) values.push({ head, weights: Array.from(await app.head(layer, head)) });
      const { tokens, ids } = app.reading;
      const found = app.shown.found?.() ?? null;
      download(`${app.state.view}.json`, JSON.stringify({ ...app.state, tokens, ids, values, found }), "application/json");
    }));
}
