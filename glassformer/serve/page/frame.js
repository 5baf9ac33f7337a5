// The head of the page: which model, in which language and colours, and what can be saved.

import { askBytes } from "./api.js";
import { button, choice, make } from "./build.js";
import { colour } from "./paint.js";
import { download, downloadPng } from "./save.js";
import { writeState } from "./state.js";
import { say } from "./words.js";

export function header(app) {
  const { state, about } = app;
  const redo = (name) => (value) => {
    state[name] = value;
    writeState(state);
    app.build();
  };
  const { name, parameters, heads } = app.model;
  return make("header", {},
    make("div", {}, make("h1", { textContent: say("title") }),
      make("span", { className: "model", textContent:
        `${name} (${app.model.class}), ${heads.length} ${say("layers")}, ${parameters.toLocaleString()} ${say("parameters")}` })),
    make("div", { className: "controls" },
      about.models.length > 1 ? choice(say("model"), about.models.map((model, i) => [i, model.name]), state.model, async (value) => {
        state.model = Number(value);
        app.reading = null; // that of the other model
        app.build();
        await app.read();
      }) : null,
      choice(say("language"), [["en", "English"], ["zh", "中文"]], state.language, redo("language")),
      choice(say("theme"), [["auto", say("auto")], ["light", say("light")], ["dark", say("dark")]], state.theme, redo("theme")),
      exports(app)));
}

function exports(app) {
  const copy = button(say("copyLink"), () => app.safely(async () => {
    await navigator.clipboard.writeText(location.href);
    copy.textContent = say("copied");
  }));
  return make("div", { className: "exports", role: "group", "aria-label": say("export") }, copy,
    button("HTML", () => app.safely(async () => {
      const { layer, heads, language } = app.state;
      download("attention.html", new Blob([await askBytes("page", { reading: app.reading.reading, layer, heads, language })]));
    }), { title: say("page") }),
    button("PNG", () => drawn(app, "canvas", (canvas) => downloadPng("view.png", canvas, colour("paper")))),
    button("SVG", () => drawn(app, "svg", (svg) => download("view.svg", svg, "image/svg+xml"))),
    button("JSON", () => app.safely(async () => {
      const { layer, heads } = app.state;
      const values = [];
      for (const head of heads) values.push({ head, weights: Array.from(await app.head(layer, head)) });
      const { tokens, ids } = app.reading;
      download("view.json", JSON.stringify({ ...app.state, tokens, ids, values, found: app.shown?.found?.() }), "application/json");
    })));
}

// Give away the drawing of the view that is open, as far as it has one of that kind.
function drawn(app, kind, give) {
  const drawing = app.shown?.[kind]?.();
  if (drawing) give(drawing);
  else app.tell(say("noDrawing"));
}
