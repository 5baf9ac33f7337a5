// The anatomy panel: the modules of the model as a tree, with shapes, counts and the statistics of their weights.

import { requestJson } from "./api.js";
import { element, table } from "./dom.js";
import { shareBar } from "./panel_widgets.js";
import { translate } from "./translations.js";

// Merge a module that only holds one other with it, as in encoder.layer.
function mergeSingle(node) {
  const [child, ...more] = node.children;
  return child && !more.length && !node.weights.length ? mergeSingle({ ...child, name: `${node.name}.${child.name}` }) : node;
}

function moduleTree(given, depth, total) {
  const node = mergeSingle(given);
  const shapes = node.weights.map(({ shape }) => shape.join(" × "));
  const title = element("summary", {}, element("span", { className: "part" }, element("b", { textContent: node.name }),
    node.kind === node.name ? null : element("small", { textContent: node.kind })),
    element("span", { className: "shape", textContent: shapes.slice(0, 2).join(", ") + (shapes.length > 2 ? ", …" : "") }), element("span", { className: "count", textContent: node.parameters.toLocaleString() }),
    element("span", { className: "share" }, node.parameters ? shareBar(node.parameters, total) : null));
  title.style.setProperty("--depth", depth);
  const box = element("details", { open: node.children.length > 0 && (depth < 2 || node.kind === "ModuleList"), className: node.weights.length || node.children.length ? "" : "leaf" }, title);
  let filled = false;
  const fill = () => { // a module is drawn when it is opened
    if (filled || !box.open) return;
    filled = true;
    if (node.weights.length) box.append(element("div", { className: "wide" }, table("", ["", translate("shape"), translate("mean"), translate("deviation"), translate("lowest"), translate("highest"), ""],
      node.weights.map((each) => [each.name, each.shape.join(" × "), each.mean.toExponential(2), each.deviation.toExponential(2),
        each.lowest.toExponential(2), each.highest.toExponential(2), each.shared ? translate("shared") : each.dtype]))));
    box.append(...node.children.map((child) => moduleTree(child, depth + 1, total)));
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
      tree = await requestJson("anatomy", { model: app.state.model });
      root.append(element("p", { className: "note", textContent: translate("anatomyNote") }), element("div", { className: "anatomy" }, moduleTree(tree, 0, tree.parameters)));
    },
    data: () => tree,
  };
}
