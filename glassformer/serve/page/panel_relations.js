// Which heads link related words: a table of relations, and the share of every head for the one that is chosen.

import { askJson } from "./api.js";
import { button, choice, make, refill, table } from "./build.js";
import { Heat } from "./heat.js";
import { emptyPanel } from "./panels_answers.js";
import { say } from "./words.js";

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(0)} %`);
const named = (relation) => (["pronoun", "subject", "object", "modifier", "auxiliary"].includes(relation)
  ? say(`relation-${relation}`) : relation);

export function relationsPanel(app, root) {
  if (app.model.writes_beside) return emptyPanel(root, "noRelations");
  const bar = make("div", { className: "controls" });
  const [place, summary, grid] = [make("div", { className: "wide" }), make("p", { className: "told", role: "status" }), make("div")];
  root.append(make("p", { className: "note", textContent: say("relationsNote") }), bar, place, summary, grid);
  let found = null, of = "", heat = null;

  const rows = () => found.relations.map((each) => {
    const [layer, head, share] = each.best;
    const beats = share > each.position;
    return [button(named(each.relation), () => app.set({ relation: each.relation }), { "aria-pressed": String(each === chosen()) }),
      each.cases, `${percent(each.position)} (${each.offset > 0 ? "+" : ""}${each.offset})`,
      make("span", {}, button(say("oneOf", layer, head), () => app.set({ layer, heads: [head], view: "heads" })),
        ` ${percent(share)}${beats ? "" : ` ${say("notBeyond")}`}`),
      percent(each.held_out), percent(each.held_out_position)];
  });
  const chosen = () => found.relations.find((each) => each.relation === app.state.relation) ?? found.relations[0];

  const showHeads = () => {
    const { relation, position, heads } = chosen();
    const layers = [...new Set(heads.map(([layer]) => layer))];
    const columns = 1 + Math.max(...heads.map(([, head]) => head));
    const weights = new Float32Array(layers.length * columns).fill(NaN); // in the place of a head that was cut
    for (const [layer, head, share] of heads) weights[layers.indexOf(layer) * columns + head] = share;
    const beyond = heads.filter(([, , share]) => share > position).length;
    summary.textContent = say("beyondPosition", named(relation), beyond, heads.length);
    heat ??= new Heat(grid);
    heat.show({ weights, rows: layers.length, columns, sums: false, name: say("sharesOf", named(relation)),
      left: layers.map((layer) => say("oneLayer", layer)), right: Array.from({ length: columns }, (_, head) => say("head", head)) });
  };

  return {
    async update() {
      const { sentences, model } = app.state;
      refill(bar, choice(say("sentencesIn"), [["en", say("english")], ["zh", say("chinese")]], sentences,
        (value) => app.set({ sentences: value })));
      if (of !== `${model}.${sentences}`) {
        [found, of] = [null, ""];
        refill(place);
        grid.hidden = true; // until there is something to show
        summary.textContent = "";
        found = await askJson("relations", { model, language: sentences });
        of = `${model}.${sentences}`;
      }
      grid.hidden = !found.relations.length;
      if (found.problem) return refill(place, make("p", { className: "note", textContent: found.problem }));
      showHeads();
      const header = [say("relation"), say("cases"), say("position-baseline"), say("bestHead"), say("heldOut"), say("heldOutPosition")];
      return refill(place, table(say("relationsOver", found.sentences), header, rows()),
        found.left_out.length ? make("p", { className: "note", textContent: say("leftOut", found.left_out.length, found.left_out[0]) }) : null);
    },
    found: () => found,
  };
}
