// Making elements: text is only ever set as text, so that no token can become code.

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.startsWith("aria")) node[name] = value;
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Characters that steer a page's text, such as those that turn its direction, are spelt out.
const STEERING = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function harmless(text) {
  return text.replace(/\n/g, "⏎").replace(STEERING, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function visible(token) {
  return harmless(token).replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length)) || "∅";
}

// Text as markup may hold it.
export function markup(text) {
  return text.replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

const REACHED = "button, select, input, textarea, canvas, summary";

// Put other children into a place; what had the focus has it again, if it is still there.
export function refill(place, ...children) {
  const at = [...place.querySelectorAll(REACHED)].indexOf(document.activeElement);
  place.replaceChildren(...children.filter((child) => child !== null));
  if (at >= 0) place.querySelectorAll(REACHED)[at]?.focus();
}

// Many buttons as one stop of the Tab key: arrow keys lead from one to the next.
export function rove(place) {
  place.addEventListener("keydown", (event) => {
    const all = [...place.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    all[to]?.focus();
  });
}

export function labelled(label, input) {
  input.setAttribute("aria-label", label);
  return make("label", { className: "field" }, make("span", { textContent: label }), input);
}

export function choice(label, options, chosen, changed) {
  const select = make("select", { onchange: () => changed(select.value) });
  for (const [value, name] of options) {
    select.append(make("option", { value: String(value), textContent: name, selected: String(value) === String(chosen) }));
  }
  return labelled(label, select);
}

export function tick(label, checked, changed) {
  const box = make("input", { type: "checkbox", checked, onchange: () => changed(box.checked) });
  return make("label", { className: "field tick" }, box, make("span", { textContent: label }));
}

export function slider(label, { low, high, step, value, shown = String }, changed) {
  const told = make("output", { textContent: shown(value) });
  const input = make("input", {
    type: "range", "aria-label": label, min: String(low), max: String(high), step: String(step), value: String(value),
    oninput: () => {
      told.textContent = shown(Number(input.value));
      changed(Number(input.value));
    },
  });
  return make("label", { className: "field" }, make("span", { textContent: label }), input, told);
}

export function button(label, pressed, properties = {}) {
  return make("button", { type: "button", textContent: label, onclick: pressed, ...properties });
}

// A table; cells are texts, numbers or elements.
export function table(caption, header, rows) {
  const cell = (tag, value, scope) => {
    const node = make(tag, scope ? { scope } : {});
    node.append(value instanceof Node ? value : String(value));
    return node;
  };
  return make(
    "table", {},
    make("caption", { textContent: caption }),
    make("thead", {}, make("tr", {}, ...header.map((name) => cell("th", name, "col")))),
    make("tbody", {}, ...rows.map(([first, ...rest]) =>
      make("tr", {}, cell("th", first, "row"), ...rest.map((value) => cell("td", value))))),
  );
}

// A number as exactly as a single-precision weight is worth showing.
export function exact(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e5 ? value.toExponential(4) : value.toPrecision(6);
}
