// The state of the page, kept in its address: a link restores all of it.

const DEFAULTS = {
  text: "", pair: "", model: 0, view: "heads", language: navigator.language?.startsWith("zh") ? "zh" : "en", theme: "auto",
  part: "", layer: 0, heads: [0], position: null, query: null, mask: null, // what is shown
  sort: "layer", lowest: false, // all heads
  relation: "", sentences: "en", // related words
  threshold: 0.02, hideSpecial: false, filter: "all", lock: [], // lines; the locked side (0 or 1) and position
  what: "head", log: false, cell: [], // the heat-map
  temperature: 1, topK: 0, topP: 1, // predictions and generation
  steps: 20, sample: false, seed: 0, step: 0,
  factor: 0, kept: {}, skip: [], source: "", behind: 0, there: null, here: null, // what if
  method: "integrated-gradients", target: null,
  other: "", beside: null, // comparing
};

// Fields that belong to one text, or to one model: for another they would mean something else.
const OF_TEXT = ["mask", "target", "lock", "cell", "step"];
const OF_MODEL = [...OF_TEXT, "position", "query", "kept", "skip", "behind", "here", "there"];

const defaultsOf = (names) => structuredClone(Object.fromEntries(names.map((name) => [name, DEFAULTS[name]])));
export const textDefaults = () => defaultsOf(OF_TEXT);
export const modelDefaults = () => defaultsOf(OF_MODEL);

const isNumbers = (value) => Array.isArray(value) && value.every(Number.isInteger);

// Whether a value of a link has the type of the default; null is the default of an optional integer.
function hasTypeOf(value, fallback) {
  if (fallback === null) return Number.isInteger(value);
  if (Array.isArray(fallback)) return isNumbers(value);
  return typeof value === typeof fallback && value !== null && !Array.isArray(value);
}

export function readState() {
  const state = structuredClone(DEFAULTS);
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    try {
      const value = JSON.parse(text);
      if (name in DEFAULTS && hasTypeOf(value, DEFAULTS[name])) state[name] = value;
    } catch {
      // a part of the link that cannot be parsed keeps its default
    }
  }
  return state;
}

export function writeState(state) {
  const parts = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS)) {
    if (JSON.stringify(state[name]) !== JSON.stringify(DEFAULTS[name])) parts.set(name, JSON.stringify(state[name]));
  }
  history.replaceState(null, "", `#${parts}`);
}
