// What is shown, kept in the page's address: a link holds all of it.

export const START = {
  text: "", pair: "", model: 0, view: "heads", language: navigator.language?.startsWith("zh") ? "zh" : "en", theme: "auto",
  part: "", layer: 0, heads: [0], position: null, query: null, mask: null, // what is looked at
  sort: "layer", lowest: false, // all heads
  relation: "", sentences: "en", // related words
  threshold: 0.02, hideSpecial: false, filter: "all", lock: [], // lines; the locked side (0 or 1) and place
  what: "head", log: false, cell: [], // the heat-map
  temperature: 1, topK: 0, topP: 1, // predictions and generation
  steps: 20, sample: false, seed: 0, step: 0,
  factor: 0, kept: {}, skip: [], source: "", behind: 0, there: null, here: null, // what if
  method: "integrated-gradients", target: null,
  other: "", beside: null, // comparing
};

// What belongs to one text, or to one model: in another it would mean something else.
const OF_TEXT = ["mask", "target", "lock", "cell", "step"];
const OF_MODEL = [...OF_TEXT, "position", "query", "kept", "skip", "behind", "here", "there"];

const fresh = (names) => structuredClone(Object.fromEntries(names.map((name) => [name, START[name]])));
export const forText = () => fresh(OF_TEXT);
export const forModel = () => fresh(OF_MODEL);

const isNumbers = (value) => Array.isArray(value) && value.every(Number.isInteger);

// Whether a value of a link can stand where `like` stands; null stands for a whole number that is not given.
function fits(value, like) {
  if (like === null) return Number.isInteger(value);
  if (Array.isArray(like)) return isNumbers(value);
  return typeof value === typeof like && value !== null && !Array.isArray(value);
}

export function readState() {
  const state = structuredClone(START);
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    try {
      const value = JSON.parse(text);
      if (name in START && fits(value, START[name])) state[name] = value;
    } catch {
      // a part of the link that cannot be read stays as it was at the start
    }
  }
  return state;
}

export function writeState(state) {
  const parts = new URLSearchParams();
  for (const name of Object.keys(START)) {
    if (JSON.stringify(state[name]) !== JSON.stringify(START[name])) parts.set(name, JSON.stringify(state[name]));
  }
  history.replaceState(null, "", `#${parts}`);
}
