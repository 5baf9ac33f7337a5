// What the model is made of: its modules as a tree, with shapes, counts and the statistics of their weights.

import { askJson } from "./api.js";
import { make, table } from "./build.js";
import { say } from "./words.js";

function branch(node, depth) {
  const title = make("summary", {}, `${node.name} `, make("small", { textContent: `${node.kind}, ${node.parameters.toLocaleString()}` }));
  const box = make("details", { open: depth < 2 }, title);
  let filled = false;
  const fill = () => { // a part is drawn when it is opened
    if (filled || !box.open) return;
    filled = true;
    if (node.weights.length) box.append(table("", ["", say("shape"), say("mean"), say("deviation"), say("lowest"), say("highest"), ""],
      node.weights.map((each) => [each.name, each.shape.join(" × "), each.mean.toExponential(2), each.deviation.toExponential(2),
        each.lowest.toExponential(2), each.highest.toExponential(2), each.shared ? say("shared") : ""])));
    box.append(...node.children.map((child) => branch(child, depth + 1)));
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}

export function anatomyPanel(app, root) {
  return {
    async update(changes) {
      if (!Object.keys(changes).length) root.replaceChildren(branch(await askJson("anatomy", { model: app.state.model }), 0));
    },
  };
}
