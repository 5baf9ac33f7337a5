// The head view: every token on both sides, and lines as strong as the weights between them.

import { choice, exact, make, slider, tick, visible } from "./build.js";
import { clipped, colour, headColour, onTheme, paper } from "./paint.js";
import { SvgPath, SvgPen } from "./svg.js";
import { say } from "./words.js";

const LEVELS = 12; // of opacity: lines of one level are drawn together
const STRENGTH = 0.9; // of the lines when no token is chosen
const DIMMED = 0.25; // what is left of the others when one is, as the style has it

export class Arcs {
  // kept(locked) is called when a token is locked or freed
  constructor(root, kept = () => {}) {
    this.kept = kept;
    this.base = make("canvas", { "aria-hidden": "true" });
    this.labels = make("canvas", { "aria-hidden": "true" });
    this.top = make("canvas", { tabIndex: 0, role: "application" });
    this.told = make("p", { className: "told last", role: "status", "aria-live": "polite" });
    root.append(make("div", { className: "layers" }, this.base, this.labels, this.top), this.told,
      make("p", { className: "hint", textContent: say("keysHelp") }));
    this.root = root;
    this.heads = [];
    this.threshold = 0.02;
    this.hideSpecial = false;
    this.filter = "all";
    this.locked = null;
    this.cursor = null;
    this.top.addEventListener("mousemove", (event) => this.hover(this.find(event)));
    this.top.addEventListener("mouseleave", () => this.hover(null));
    this.top.addEventListener("click", (event) => this.lock(this.find(event)));
    this.top.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    onTheme(root, () => this.draw());
  }

  // sides: {left, right} tokens; special: {left, right} booleans; second: where the second sentence starts, or null
  show({ left, right, special, second = null, heads }) {
    const moved = this.left && this.left.length !== left.length; // not if a link locked it before anything was shown
    Object.assign(this, { left, right, special, second, heads });
    if (moved) this.locked = this.cursor = null;
    if (this.locked && !(this.locked.place < this[this.locked.side]?.length)) this.locked = null;
    this.top.setAttribute("aria-label", `${say("arcsOf")}. ${say("keysHelp")}`);
    this.draw();
  }

  seen(side, place) {
    if (this.hideSpecial && this.special[side][place]) return false;
    if (this.second === null || this.filter === "all") return true;
    return (place < this.second ? "a" : "b") === this.filter[side === "left" ? 0 : 1];
  }

  size() {
    const most = Math.max(this.left.length, this.right.length);
    this.row = most > 256 ? 11 : most > 96 ? 14 : 20;
    this.width = Math.min(820, Math.max(260, this.root.clientWidth || 600));
    this.height = most * this.row + 8;
    this.column = Math.min(170, this.width * 0.3);
  }

  draw() {
    if (!this.left || !this.root.isConnected) return;
    this.size();
    this.lines(paper(this.base, this.width, this.height), null, STRENGTH);
    this.names(paper(this.labels, this.width, this.height));
    this.over();
  }

  names(pen) {
    pen.font = `${Math.min(14, this.row - 2)}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    for (const [side, tokens, x, align] of [
      ["left", this.left, this.column - 6, "right"], ["right", this.right, this.width - this.column + 6, "left"],
    ]) {
      pen.textAlign = align;
      tokens.forEach((token, place) => {
        pen.fillStyle = colour(!this.seen(side, place) ? "line" : this.special[side][place] ? "soft" : "ink");
        pen.fillText(clipped(pen, visible(token), this.column - 12), x, this.y(place));
      });
    }
  }

  y(place) {
    return place * this.row + this.row / 2 + 4;
  }

  // Draw the lines of one place of one side, or of all.
  lines(pen, only, strength) {
    const [from, to] = [this.column, this.width - this.column];
    for (const { head, weights, columns } of this.heads) {
      const Path = pen instanceof SvgPen ? SvgPath : Path2D;
      const paths = Array.from({ length: LEVELS + 1 }, () => new Path());
      const used = new Set();
      for (let i = 0; i < this.left.length; i++) {
        if (!this.seen("left", i) || (only?.side === "left" && only.place !== i)) continue;
        for (let j = 0; j < this.right.length; j++) {
          const weight = weights[i * columns + j];
          if (weight < this.threshold || !this.seen("right", j) || (only?.side === "right" && only.place !== j)) continue;
          const level = Math.ceil(Math.min(1, weight) * LEVELS);
          paths[level].moveTo(from, this.y(i));
          paths[level].lineTo(to, this.y(j));
          used.add(level);
        }
      }
      pen.strokeStyle = headColour(head);
      for (const level of used) {
        pen.globalAlpha = strength * (level / LEVELS) ** 0.75;
        pen.lineWidth = 0.6 + 1.9 * (level / LEVELS);
        pen.stroke(paths[level]);
      }
    }
    pen.globalAlpha = 1;
  }

  over() {
    if (!this.left) return;
    const pen = paper(this.top, this.width, this.height);
    const chosen = this.locked ?? this.cursor;
    this.base.classList.toggle("dimmed", chosen !== null);
    if (!chosen) {
      this.told.textContent = "";
      return;
    }
    this.mark(pen, chosen);
    this.told.textContent = this.sentence(chosen);
  }

  // A token in a frame, and its own lines.
  mark(pen, chosen) {
    pen.strokeStyle = colour("mark-strong");
    pen.lineWidth = 1.5;
    const x = chosen.side === "left" ? 1 : this.width - this.column + 1;
    pen.strokeRect(x, this.y(chosen.place) - this.row / 2, this.column - 2, this.row);
    this.lines(pen, chosen, 1);
  }

  // What a token looks at, or is looked at by, the largest weights first; tokens that are hidden stay untold.
  sentence({ side, place }) {
    const opposite = side === "left" ? "right" : "left";
    const others = this[opposite];
    const name = `${place} ${visible(this[side][place])}`;
    return this.heads.map(({ layer, head, weights, columns }) => {
      const values = others.map((_, other) => [weights[side === "left" ? place * columns + other : other * columns + place], other]);
      const best = values.filter(([, other]) => this.seen(opposite, other)).sort((a, b) => b[0] - a[0]).slice(0, 5);
      const list = best.map(([value, other]) => `${visible(others[other])} ${exact(value)}`).join(", ");
      return `${layer}.${head}: ${name} ${side === "left" ? "→" : "←"} ${list}`;
    }).join(" · ");
  }

  find(event) {
    if (!this.left) return null;
    const box = this.top.getBoundingClientRect();
    const x = (event.clientX - box.left) * (this.width / box.width);
    const y = (event.clientY - box.top) * (this.height / box.height);
    const place = Math.floor((y - 4) / this.row);
    const side = x < this.column ? "left" : x > this.width - this.column ? "right" : null;
    const tokens = side && this[side];
    return tokens && place >= 0 && place < tokens.length ? { side, place } : null;
  }

  hover(found) {
    if (found?.side === this.cursor?.side && found?.place === this.cursor?.place) return;
    this.cursor = found;
    if (!this.locked) this.over();
  }

  lock(found) {
    const same = this.locked && found?.side === this.locked.side && found?.place === this.locked.place;
    this.locked = same ? null : found;
    this.kept(this.locked);
    this.over();
  }

  key(event) {
    if (!this.left) return;
    const at = this.locked ?? this.cursor ?? { side: "left", place: -1 };
    const moves = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: ["left", 0], ArrowRight: ["right", 0] };
    if (event.key in moves) {
      const [to, step] = moves[event.key];
      const side = to || at.side;
      const place = Math.max(0, Math.min(this[side].length - 1, at.place + step));
      this.cursor = { side, place };
      if (this.locked) this.locked = this.cursor;
    } else if (event.key === "Enter" || event.key === " ") this.locked = this.locked ? null : this.cursor;
    else if (event.key === "Escape") this.locked = this.cursor = null;
    else return;
    event.preventDefault();
    this.kept(this.locked);
    this.over();
  }

  // Lines and names in one picture, with the token that is locked.
  picture() {
    const whole = make("canvas", { width: this.base.width, height: this.base.height });
    const pen = whole.getContext("2d");
    pen.globalAlpha = this.locked ? DIMMED : 1;
    pen.drawImage(this.base, 0, 0);
    pen.globalAlpha = 1;
    pen.drawImage(this.labels, 0, 0);
    if (this.locked) pen.drawImage(this.top, 0, 0);
    return whole;
  }

  svg() {
    const pen = new SvgPen(this.width, this.height);
    this.lines(pen, null, STRENGTH * (this.locked ? DIMMED : 1));
    this.names(pen);
    if (this.locked) this.mark(pen, this.locked);
    return pen.svg();
  }
}

// What steers the lines: settings are {threshold, hideSpecial, filter}; the filter is for pairs of sentences.
export function arcsControls(settings, isPair, changed) {
  const [a, b] = [say("sentenceA"), say("sentenceB")];
  const ways = [["all", say("all")], ["aa", `${a} → ${a}`], ["ab", `${a} → ${b}`], ["ba", `${b} → ${a}`], ["bb", `${b} → ${b}`]];
  return [
    slider(say("threshold"), { low: 0, high: 0.5, step: 0.01, value: settings.threshold, shown: (v) => v.toFixed(2) },
      (threshold) => changed({ threshold })),
    tick(say("hideSpecial"), settings.hideSpecial, (hideSpecial) => changed({ hideSpecial })),
    isPair ? choice(say("show"), ways, settings.filter, (filter) => changed({ filter })) : null,
  ];
}
