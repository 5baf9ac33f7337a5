// What the model is made of: its modules as a tree, with shapes, counts and the statistics of their weights.

import { askJson } from "./api.js";
import { make, table } from "./build.js";
import { share } from "./panels_answers.js";
import { say } from "./words.js";

// A part that only holds one other is named together with it: encoder.layer.
function joined(node) {
  const [child, ...more] = node.children;
  return child && !more.length && !node.weights.length ? joined({ ...child, name: `${node.name}.${child.name}` }) : node;
}

function branch(given, depth, whole) {
  const node = joined(given);
  const shapes = node.weights.map(({ shape }) => shape.join(" × "));
  const title = make("summary", {}, make("span", { className: "part" }, make("b", { textContent: node.name }),
    node.kind === node.name ? null : make("small", { textContent: node.kind })),
    make("span", { className: "shape", textContent: shapes.slice(0, 2).join(", ") + (shapes.length > 2 ? ", …" : "") }), make("span", { className: "count", textContent: node.parameters.toLocaleString() }),
    make("span", { className: "room" }, node.parameters ? share(node.parameters, whole) : null));
  title.style.setProperty("--depth", depth);
  const box = make("details", { open: node.children.length > 0 && (depth < 2 || node.kind === "ModuleList"), className: node.weights.length || node.children.length ? "" : "leaf" }, title);
  let filled = false;
  const fill = () => { // a part is drawn when it is opened
    if (filled || !box.open) return;
    filled = true;
    if (node.weights.length) box.append(make("div", { className: "wide" }, table("", ["", say("shape"), say("mean"), say("deviation"), say("lowest"), say("highest"), ""],
      node.weights.map((each) => [each.name, each.shape.join(" × "), each.mean.toExponential(2), each.deviation.toExponential(2),
        each.lowest.toExponential(2), each.highest.toExponential(2), each.shared ? say("shared") : each.dtype]))));
    box.append(...node.children.map((child) => branch(child, depth + 1, whole)));
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

export function anatomyPanel(app, root) {
  let tree = null;
  return {
    async update() {
      if (tree) return;
      tree = await askJson("anatomy", { model: app.state.model });
      root.append(make("p", { className: "note", textContent: say("anatomyNote") }), make("div", { className: "anatomy" }, branch(tree, 0, tree.parameters)));
    },
    found: () => tree,
  };
}
