// A pen that writes SVG where the pen of a canvas paints: what the views draw is drawn once, and saved as it is seen.

import { markup } from "./build.js";
import { colour } from "./paint.js";

const short = (...numbers) => numbers.map((value) => Number(value.toFixed(2))).join(" ");

export class SvgPath {
  constructor() {
    this.d = "";
  }

  moveTo(x, y) {
    this.d += `M${short(x, y)}`;
  }

  lineTo(x, y) {
    this.d += `L${short(x, y)}`;
  }
}

export class SvgPen {
  constructor(width, height) {
    this.parts = [];
    this.size = [width, height];
    this.turned = [];
    this.ruler = document.createElement("canvas").getContext("2d");
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif", textAlign: "left" });
  }

  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  save() {}

  restore() {
    this.turned = [];
  }

  translate(x, y) {
    this.turned.push(`translate(${short(x, y)})`);
  }

  rotate(angle) {
    this.turned.push(`rotate(${short((angle * 180) / Math.PI)})`);
  }

  fillRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="${this.fillStyle}" fill-opacity="${short(this.globalAlpha)}"`);
  }

  strokeRect(x, y, width, height) {
    this.box(x, y, width, height, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"`);
  }

  box(x, y, width, height, style) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" ${style}/>`);
  }

  stroke({ d }) {
    this.parts.push(`<path d="${d}" fill="none" stroke="${this.strokeStyle}" stroke-opacity="${short(this.globalAlpha)}" ` +
      `stroke-width="${short(this.lineWidth)}"/>`);
  }

  drawImage(canvas, x, y, width, height) {
    this.parts.push(`<image x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" ` +
      `preserveAspectRatio="none" image-rendering="pixelated" href="${canvas.toDataURL()}"/>`);
  }

  // The texts of the views stand with their middle at y.
  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const turned = this.turned.length ? ` transform="${this.turned.join(" ")}"` : "";
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" dy="0.35em" text-anchor="${anchor}" fill="${this.fillStyle}" ` +
      `font-size="${parseFloat(this.font)}"${turned}>${markup(text)}</text>`);
  }

  svg() {
    const [width, height] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${short(width, height)}" font-family="sans-serif">` +
      `<rect width="100%" height="100%" fill="${colour("paper")}"/>${this.parts.join("")}</svg>`;
  }
}
