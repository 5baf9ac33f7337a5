// What the model is made of: its modules as a tree, with shapes, counts and the statistics of their weights.

import { askJson } from "./api.js";
import { make, table } from "./build.js";
import { share } from "./panels_answers.js";
import { say } from "./words.js";

function branch(node, depth, whole = node.parameters) {
  const title = make("summary", {}, `${node.name} `, make("small", { textContent: `${node.kind}, ${node.parameters.toLocaleString()} ` }), share(node.parameters, whole));
  const box = make("details", { open: depth < 2 }, title);
  let filled = false;
  const fill = () => { // a part is drawn when it is opened
    if (filled || !box.open) return;
    filled = true;
    if (node.weights.length) box.append(table("", ["", say("shape"), say("mean"), say("deviation"), say("lowest"), say("highest"), ""],
      node.weights.map((each) => [each.name, each.shape.join(" × "), each.mean.toExponential(2), each.deviation.toExponential(2),
        each.lowest.toExponential(2), each.highest.toExponential(2), each.shared ? say("shared") : ""])));
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
      tree ??= await askJson("anatomy", { model: app.state.model });
      if (!root.hasChildNodes()) root.append(branch(tree, 0));
    },
    found: () => tree,
  };
}
