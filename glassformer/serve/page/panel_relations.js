// Which heads link related words: a table of relations, and the share of every head for the one that is chosen.

import { requestJson } from "./api.js";
import { button, dropdown, element, table, updateChildren } from "./dom.js";
import { HeatMap } from "./heat_map.js";
import { emptyPanel } from "./panel_widgets.js";
import { translate } from "./translations.js";

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(0)} %`);
const named = (relation) => (["pronoun", "subject", "object", "modifier", "auxiliary"].includes(relation)
  ? translate(`relation-${relation}`) : relation);

export function relationsPanel(app, root) {
  if (app.model.writes_beside) return emptyPanel(root, "noRelations");
  const bar = element("div", { className: "controls" });
  const [place, summary, grid] = [element("div", { className: "wide" }), element("p", { className: "status", role: "status" }), element("div")];
  root.append(element("p", { className: "note", textContent: translate("relationsNote") }), bar, place, summary, grid);
  let result = null, resultOf = "", heat = null;

  const rows = () => result.relations.map((each) => {
    const [layer, head, share] = each.best;
    const beats = share > each.position;
    return [button(named(each.relation), () => app.set({ relation: each.relation }), { "aria-pressed": String(each === chosen()) }),
      each.cases, `${percent(each.position)} (${each.offset > 0 ? "+" : ""}${each.offset})`,
      element("span", {}, button(translate("oneOf", layer, head), () => app.set({ layer, heads: [head], view: "heads" })),
        ` ${percent(share)}${beats ? "" : ` ${translate("notBeyond")}`}`),
      percent(each.held_out), percent(each.held_out_position)];
  });
  const chosen = () => result.relations.find((each) => each.relation === app.state.relation) ?? result.relations[0];

  const showHeads = () => {
    const { relation, position, heads } = chosen();
    const layers = [...new Set(heads.map(([layer]) => layer))];
    const columns = 1 + Math.max(...heads.map(([, head]) => head));
    const weights = new Float32Array(layers.length * columns).fill(NaN); // in the place of a head that was cut
    for (const [layer, head, share] of heads) weights[layers.indexOf(layer) * columns + head] = share;
    const beyond = heads.filter(([, , share]) => share > position).length;
    summary.textContent = translate("beyondPosition", named(relation), beyond, heads.length);
    heat ??= new HeatMap(grid);
    heat.show({ weights, rows: layers.length, columns, sums: false, name: translate("sharesOf", named(relation)),
      left: layers.map((layer) => translate("oneLayer", layer)), right: Array.from({ length: columns }, (_, head) => translate("head", head)) });
  };

  return {
    async update() {
      const { sentences, model } = app.state;
      updateChildren(bar, dropdown(translate("sentencesIn"), [["en", translate("english")], ["zh", translate("chinese")]], sentences,
        (value) => app.set({ sentences: value })));
      if (resultOf !== `${model}.${sentences}`) {
        [result, resultOf] = [null, ""];
        updateChildren(place);
        grid.hidden = true; // until there is something to show
        summary.textContent = "";
        result = await requestJson("relations", { model, language: sentences });
        resultOf = `${model}.${sentences}`;
      }
      grid.hidden = !result.relations.length;
      if (result.problem) return updateChildren(place, element("p", { className: "note", textContent: result.problem }));
      showHeads();
      const header = [translate("relation"), translate("cases"), translate("position-baseline"), translate("bestHead"), translate("heldOut"), translate("heldOutPosition")];
      return updateChildren(place, table(translate("relationsOver", result.sentences), header, rows()),
        result.left_out.length ? element("p", { className: "note", textContent: translate("leftOut", result.left_out.length, result.left_out[0]) }) : null);
    },
    data: () => result,
  };
}
