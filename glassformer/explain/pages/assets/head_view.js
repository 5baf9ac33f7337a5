// The head view: the tokens on both sides, and lines between them whose strength is the weight.

import { checkbox, displayToken, dropdown, element, formatExact, slider } from "./dom.js";
import { cssColour, headColour, onThemeChange, prepareCanvas, truncateText } from "./canvas.js";
import { SvgContext, SvgPath } from "./svg_context.js";
import { translate } from "./translations.js";

const LEVELS = 12; // of opacity: lines of one level are drawn together
const OPACITY = 0.9; // of the lines when no token is selected
const DIMMED = 0.25; // of the other lines when one is, as in style.css

export class HeadView {
  // onLock(locked) is called when a token is locked or unlocked
  constructor(root, onLock = () => {}) {
    this.onLock = onLock;
    this.base = element("canvas", { "aria-hidden": "true" });
    this.labels = element("canvas", { "aria-hidden": "true" });
    this.top = element("canvas", { tabIndex: 0, role: "application" });
    this.status = element("p", { className: "status last", role: "status", "aria-live": "polite" });
    root.append(element("div", { className: "layers" }, this.base, this.labels, this.top), this.status,
      element("p", { className: "hint", textContent: translate("keysHelp") }));
    this.root = root;
    this.heads = [];
    this.threshold = 0.02;
    this.hideSpecial = false;
    this.filter = "all";
    this.locked = null;
    this.cursor = null;
    this.top.addEventListener("mousemove", (event) => this.hover(this.tokenAt(event)));
    this.top.addEventListener("mouseleave", () => this.hover(null));
    this.top.addEventListener("click", (event) => this.lock(this.tokenAt(event)));
    this.top.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    onThemeChange(root, () => this.draw());
  }

  // sides: {left, right} tokens; special: {left, right} booleans; second: where the second sentence starts, or null
  show({ left, right, special, second = null, heads }) {
    const resized = this.left && this.left.length !== left.length; // not if a link locked it before anything was shown
    Object.assign(this, { left, right, special, second, heads });
    if (resized) this.locked = this.cursor = null;
    if (this.locked && !(this.locked.position < this[this.locked.side]?.length)) this.locked = null;
    this.top.setAttribute("aria-label", `${translate("arcsOf")}. ${translate("keysHelp")}`);
    this.draw();
  }

  isShown(side, position) {
    if (this.hideSpecial && this.special[side][position]) return false;
    if (this.second === null || this.filter === "all") return true;
    return (position < this.second ? "a" : "b") === this.filter[side === "left" ? 0 : 1];
  }

  measure() {
    const most = Math.max(this.left.length, this.right.length);
    this.row = most > 256 ? 11 : most > 96 ? 14 : 20;
    this.width = Math.min(820, Math.max(260, this.root.clientWidth || 600));
    this.height = most * this.row + 8;
    this.column = Math.min(170, this.width * 0.3);
  }

  draw() {
    if (!this.left || !this.root.isConnected) return;
    this.measure();
    this.drawLines(prepareCanvas(this.base, this.width, this.height), null, OPACITY);
    this.drawTokens(prepareCanvas(this.labels, this.width, this.height));
    this.drawSelection();
  }

  drawTokens(ctx) {
    ctx.font = `${Math.min(14, this.row - 2)}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    for (const [side, tokens, x, align] of [
      ["left", this.left, this.column - 6, "right"], ["right", this.right, this.width - this.column + 6, "left"],
    ]) {
      ctx.textAlign = align;
      tokens.forEach((token, position) => {
        ctx.fillStyle = cssColour(!this.isShown(side, position) ? "line" : this.special[side][position] ? "soft" : "ink");
        ctx.fillText(truncateText(ctx, displayToken(token), this.column - 12), x, this.y(position));
      });
    }
  }

  y(position) {
    return position * this.row + this.row / 2 + 4;
  }

  // Draw the lines of one token, {side, position}, or of all.
  drawLines(ctx, only, opacity) {
    const [from, to] = [this.column, this.width - this.column];
    for (const { head, weights, columns } of this.heads) {
      const Path = ctx instanceof SvgContext ? SvgPath : Path2D;
      const paths = Array.from({ length: LEVELS + 1 }, () => new Path());
      const used = new Set();
      for (let i = 0; i < this.left.length; i++) {
        if (!this.isShown("left", i) || (only?.side === "left" && only.position !== i)) continue;
        for (let j = 0; j < this.right.length; j++) {
          const weight = weights[i * columns + j];
          if (weight < this.threshold || !this.isShown("right", j) || (only?.side === "right" && only.position !== j)) continue;
          const level = Math.ceil(Math.min(1, weight) * LEVELS);
          paths[level].moveTo(from, this.y(i));
          paths[level].lineTo(to, this.y(j));
          used.add(level);
        }
      }
      ctx.strokeStyle = headColour(head);
      for (const level of used) {
        ctx.globalAlpha = opacity * (level / LEVELS) ** 0.75;
        ctx.lineWidth = 0.6 + 1.9 * (level / LEVELS);
        ctx.stroke(paths[level]);
      }
    }
    ctx.globalAlpha = 1;
  }

  drawSelection() {
    if (!this.left) return;
    const ctx = prepareCanvas(this.top, this.width, this.height);
    const selected = this.locked ?? this.cursor;
    this.base.classList.toggle("dimmed", selected !== null);
    if (!selected) {
      this.status.textContent = "";
      return;
    }
    this.drawSelectedToken(ctx, selected);
    this.status.textContent = this.description(selected);
  }

  // A frame around a token, and its own lines.
  drawSelectedToken(ctx, selected) {
    ctx.strokeStyle = cssColour("mark-strong");
    ctx.lineWidth = 1.5;
    const x = selected.side === "left" ? 1 : this.width - this.column + 1;
    ctx.strokeRect(x, this.y(selected.position) - this.row / 2, this.column - 2, this.row);
    this.drawLines(ctx, selected, 1);
  }

  // The largest weights from or to a token, without tokens that are hidden.
  description({ side, position }) {
    const opposite = side === "left" ? "right" : "left";
    const others = this[opposite];
    const name = `${position} ${displayToken(this[side][position])}`;
    return this.heads.map(({ layer, head, weights, columns }) => {
      const values = others.map((_, other) => [weights[side === "left" ? position * columns + other : other * columns + position], other]);
      const best = values.filter(([, other]) => this.isShown(opposite, other)).sort((a, b) => b[0] - a[0]).slice(0, 5);
      const list = best.map(([value, other]) => `${displayToken(others[other])} ${formatExact(value)}`).join(", ");
      return `${layer}.${head}: ${name} ${side === "left" ? "→" : "←"} ${list}`;
    }).join(" · ");
  }

  tokenAt(event) {
    if (!this.left) return null;
    const box = this.top.getBoundingClientRect();
    const x = (event.clientX - box.left) * (this.width / box.width);
    const y = (event.clientY - box.top) * (this.height / box.height);
    const position = Math.floor((y - 4) / this.row);
    const side = x < this.column ? "left" : x > this.width - this.column ? "right" : null;
    const tokens = side && this[side];
    return tokens && position >= 0 && position < tokens.length ? { side, position } : null;
  }

  hover(token) {
    if (token?.side === this.cursor?.side && token?.position === this.cursor?.position) return;
    this.cursor = token;
    if (!this.locked) this.drawSelection();
  }

  lock(token) {
    const same = this.locked && token?.side === this.locked.side && token?.position === this.locked.position;
    this.locked = same ? null : token;
    this.onLock(this.locked);
    this.drawSelection();
  }

  key(event) {
    if (!this.left) return;
    const current = this.locked ?? this.cursor ?? { side: "left", position: -1 };
    const moves = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: ["left", 0], ArrowRight: ["right", 0] };
    if (event.key in moves) {
      const [to, step] = moves[event.key];
      const side = to || current.side;
      const position = Math.max(0, Math.min(this[side].length - 1, current.position + step));
      this.cursor = { side, position };
      if (this.locked) this.locked = this.cursor;
    } else if (event.key === "Enter" || event.key === " ") this.locked = this.locked ? null : this.cursor;
    else if (event.key === "Escape") this.locked = this.cursor = null;
    else return;
    event.preventDefault();
    this.onLock(this.locked);
    this.drawSelection();
  }

  // Lines and tokens in one canvas, with the locked token marked.
  toCanvas() {
    const canvas = element("canvas", { width: this.base.width, height: this.base.height });
    const ctx = canvas.getContext("2d");
    ctx.globalAlpha = this.locked ? DIMMED : 1;
    ctx.drawImage(this.base, 0, 0);
    ctx.globalAlpha = 1;
    ctx.drawImage(this.labels, 0, 0);
    if (this.locked) ctx.drawImage(this.top, 0, 0);
    return canvas;
  }

  svg() {
    const ctx = new SvgContext(this.width, this.height);
    this.drawLines(ctx, null, OPACITY * (this.locked ? DIMMED : 1));
    this.drawTokens(ctx);
    if (this.locked) this.drawSelectedToken(ctx, this.locked);
    return ctx.svg();
  }
}

// Controls of the lines: settings are {threshold, hideSpecial, filter}; the filter is for pairs of sentences.
export function headViewControls(settings, isPair, onChange) {
  const [a, b] = [translate("sentenceA"), translate("sentenceB")];
  const filters = [["all", translate("all")], ["aa", `${a} → ${a}`], ["ab", `${a} → ${b}`], ["ba", `${b} → ${a}`], ["bb", `${b} → ${b}`]];
  return [
    slider(translate("threshold"), { low: 0, high: 0.5, step: 0.01, value: settings.threshold, format: (v) => v.toFixed(2) },
      (threshold) => onChange({ threshold })),
    checkbox(translate("hideSpecial"), settings.hideSpecial, (hideSpecial) => onChange({ hideSpecial })),
    isPair ? dropdown(translate("show"), filters, settings.filter, (filter) => onChange({ filter })) : null,
  ];
}
