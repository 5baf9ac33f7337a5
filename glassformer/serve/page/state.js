// What is shown, kept in the page's address: a link holds all of it.

export const START = {
  text: "", pair: "", view: "heads", part: "", layer: 0, heads: [0], sort: "layer", threshold: 0.02, special: false, filter: "all",
  what: "head", log: false, position: null, mask: null, target: null, model: 0, method: "integrated-gradients", other: "", theme: "auto",
  language: navigator.language?.startsWith("zh") ? "zh" : "en",
};

export function readState() {
  const state = { ...START };
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in START)) continue;
    try {
      const value = JSON.parse(text);
      const like = START[name];
      if (like === null ? Number.isInteger(value) : Array.isArray(like) ? Array.isArray(value) && value.every(Number.isInteger) : typeof value === typeof like) {
        state[name] = value;
      }
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
