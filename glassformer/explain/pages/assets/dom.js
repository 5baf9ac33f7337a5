// Creating elements: text is only ever set as text, so that no token can become code.

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && !name.startsWith("aria")) node[name] = value;
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Control characters, such as those that change the direction of text, are shown as escapes.
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function escapeControls(text) {
  return text.replace(/\n/g, "⏎").replace(CONTROL_CHARACTERS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function displayToken(token) {
  return escapeControls(token).replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length)) || "∅";
}

// Text that is safe inside markup.
export function escapeMarkup(text) {
  return text.replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

const FOCUSABLE = "button, select, input, textarea, canvas, summary";

// Replace the children of an element; the control that had the focus keeps it, if it still exists.
export function updateChildren(parent, ...children) {
  const focused = [...parent.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  parent.replaceChildren(...children.filter((child) => child !== null));
  if (focused >= 0) parent.querySelectorAll(FOCUSABLE)[focused]?.focus();
}

// Make the buttons of a group one stop of the Tab key: arrow keys move between them.
export function rovingFocus(group) {
  group.addEventListener("keydown", (event) => {
    const buttons = [...group.querySelectorAll("button")];
    const current = buttons.indexOf(document.activeElement);
    const next = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (current < 0 || next === undefined) return;
    event.preventDefault();
    buttons[next]?.focus();
  });
}

export function labelledField(label, input) {
  input.setAttribute("aria-label", label);
  return element("label", { className: "field" }, element("span", { textContent: label }), input);
}

export function dropdown(label, options, selected, onChange) {
  const select = element("select", { onchange: () => onChange(select.value) });
  for (const [value, name] of options) {
    select.append(element("option", { value: String(value), textContent: name, selected: String(value) === String(selected) }));
  }
  return labelledField(label, select);
}

export function checkbox(label, checked, onChange) {
  const box = element("input", { type: "checkbox", checked, onchange: () => onChange(box.checked) });
  return element("label", { className: "field checkbox" }, box, element("span", { textContent: label }));
}

export function slider(label, { low, high, step, value, format = String }, onChange) {
  const output = element("output", { textContent: format(value) });
  const input = element("input", {
    type: "range", "aria-label": label, min: String(low), max: String(high), step: String(step), value: String(value),
    oninput: () => {
      output.textContent = format(Number(input.value));
      onChange(Number(input.value));
    },
  });
  return element("label", { className: "field" }, element("span", { textContent: label }), input, output);
}

export function button(label, onClick, properties = {}) {
  return element("button", { type: "button", textContent: label, onclick: onClick, ...properties });
}

// A table; its cells are strings, numbers or elements.
export function table(caption, header, rows) {
  const cell = (tag, value, scope) => {
    const node = element(tag, scope ? { scope } : {});
    node.append(value instanceof Node ? value : String(value));
    return node;
  };
  return element(
    "table", {},
    element("caption", { textContent: caption }),
    element("thead", {}, element("tr", {}, ...header.map((name) => cell("th", name, "col")))),
    element("tbody", {}, ...rows.map(([first, ...rest]) =>
      element("tr", {}, cell("th", first, "row"), ...rest.map((value) => cell("td", value))))),
  );
}

// A number with as many digits as single precision has.
export function formatExact(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e5 ? value.toExponential(4) : value.toPrecision(6);
}
