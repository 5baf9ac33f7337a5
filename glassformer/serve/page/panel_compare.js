// Two texts in one model, or one text in two models: how alike the layers are, and which heads differ most.

import { askJson } from "./api.js";
import { button, choice, labelled, make, table } from "./build.js";
import { Heat } from "./heat.js";
import { say } from "./words.js";

export function comparePanel(app, root) {
  const input = make("input", { type: "text", dir: "auto", value: app.state.other || app.state.text, id: "other" });
  const others = app.about.models.map((model, i) => [i, model.name]);
  let chosen = app.about.models.length - 1 - app.state.model;
  const place = make("div");
  let [heat, found] = [null, null];
  const heatPlace = make("div");
  const run = async () => {
    const second = await askJson("read", { text: input.value, model: chosen });
    found = await askJson("compare", { first: app.reading.reading, second: second.reading });
    place.replaceChildren(heatPlace, ...differences(found));
    heatPlace.replaceChildren();
    heat = null;
    if (!found.cka) {
      heatPlace.append(make("p", { className: "note", textContent: say("ckaNeeds") }));
      return;
    }
    heatPlace.append(make("h2", { textContent: say("ckaNote") }));
    const [rows, columns] = [found.cka.length, found.cka[0].length];
    const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));
    heat = new Heat(heatPlace);
    heat.show({
      weights: Float32Array.from(found.cka.flat()), rows, columns, left: numbers(rows), right: numbers(columns), name: "CKA",
    });
  };
  const differences = ({ first, second }) => {
    const by = new Map(second.map((each) => [`${each.layer}.${each.head}`, each]));
    const pairs = first.filter((each) => by.has(`${each.layer}.${each.head}`)).map((each) => {
      const other = by.get(`${each.layer}.${each.head}`);
      return { each, other, by: Math.abs(each.measures.entropy - other.measures.entropy) };
    }).filter((each) => each.by > 0).sort((a, b) => b.by - a.by).slice(0, 10);
    if (!pairs.length) return [make("p", { className: "note", textContent: say("noDifference") })];
    return [table(say("differ"), ["", `${say("entropy")} 1`, `${say("entropy")} 2`, `${say("distance")} 1`, `${say("distance")} 2`],
      pairs.map(({ each, other }) => [`${each.layer}.${each.head}`, each.measures.entropy.toFixed(3), other.measures.entropy.toFixed(3),
        each.measures.distance.toFixed(3), other.measures.distance.toFixed(3)]))];
  };
  root.append(make("div", { className: "controls" }, labelled(say("otherText"), input),
    others.length > 1 ? choice(say("otherModel"), others, chosen, (value) => (chosen = Number(value))) : null,
    button(say("compare"), () => {
      app.state.other = input.value;
      app.set({ other: input.value });
    }, { id: "run-compare" })), place);
  return { update: run, canvas: () => heat?.base, svg: () => heat?.svg(), found: () => found };
}
