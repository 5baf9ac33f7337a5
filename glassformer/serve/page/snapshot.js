// What a panel shows as SVG: every text where it stands, with the grounds, frames and pictures behind it.

import { markup } from "./build.js";
import { colour } from "./paint.js";

const LEFT_OUT = ".controls, .hint"; // what steers a view, and is no part of what it shows
const MARGIN = 12;

const dot = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Any colour that a style can hold, as SVG writes it; null for none.
function filled(style, name = "fill") {
  dot.clearRect(0, 0, 1, 1);
  dot.fillStyle = style;
  dot.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = dot.getImageData(0, 0, 1, 1).data;
  return a ? `${name}="rgb(${r},${g},${b})"${a < 255 ? ` ${name}-opacity="${(a / 255).toFixed(3)}"` : ""}` : null;
}

// The lines of a text as they are broken on the page: [text, box] each.
function linesOf(node) {
  const range = document.createRange();
  const lines = [];
  let at = 0;
  for (const letter of node.data) {
    range.setStart(node, at);
    range.setEnd(node, at += letter.length);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const line = lines.at(-1);
    if (line && Math.abs(line.top - box.top) < box.height / 2) {
      line.text += letter;
      line.left = Math.min(line.left, box.left);
      line.right = Math.max(line.right, box.right);
    } else lines.push({ text: letter, left: box.left, right: box.right, top: box.top, height: box.height });
  }
  return lines;
}

export function snapshot(root) {
  const origin = root.getBoundingClientRect();
  const parts = [];
  let [width, height] = [0, 0];
  const reach = (right, bottom) => {
    width = Math.max(width, right - origin.left + MARGIN);
    height = Math.max(height, bottom - origin.top + MARGIN);
  };
  const number = (value) => value.toFixed(1);
  const place = (left, top) => `x="${number(left - origin.left)}" y="${number(top - origin.top)}"`;

  const box = (node) => {
    const style = getComputedStyle(node), { left, top, right, bottom } = node.getBoundingClientRect();
    const size = `width="${number(right - left)}" height="${number(bottom - top)}"`;
    const framed = parseFloat(style.borderTopWidth) > 0 && parseFloat(style.borderLeftWidth) > 0;
    const ground = filled(style.backgroundColor) ?? 'fill="none"';
    const frame = framed ? ` ${filled(style.borderTopColor, "stroke") ?? ""}` : "";
    if (ground !== 'fill="none"' || frame) {
      parts.push(`<rect ${place(left, top)} ${size} rx="${parseFloat(style.borderRadius) || 0}" ${ground}${frame}/>`);
      reach(right, bottom);
    } else if (parseFloat(style.borderBottomWidth) > 0) {
      parts.push(`<rect ${place(left, bottom - 1)} width="${number(right - left)}" height="1" ${filled(style.borderBottomColor) ?? ""}/>`);
    }
    if (node instanceof HTMLCanvasElement && node.width > 1) {
      parts.push(`<image ${place(left, top)} ${size} href="${node.toDataURL()}"/>`);
      reach(right, bottom);
    }
  };

  const write = (node) => {
    const style = getComputedStyle(node.parentElement), size = parseFloat(style.fontSize);
    const bold = parseInt(style.fontWeight, 10) >= 600 ? ' font-weight="bold"' : "";
    for (const { text, left, right, top, height: high } of linesOf(node)) {
      parts.push(`<text ${place(left, top + high / 2)} dy="0.35em" font-size="${size}"${bold} ${filled(style.color) ?? ""} ` +
        `textLength="${number(right - left)}" xml:space="preserve">${markup(text)}</text>`);
      reach(right, top + high);
    }
  };

  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return write(node);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT) || !node.checkVisibility()) return undefined;
    box(node);
    return node.childNodes.forEach(walk);
  };
  root.childNodes.forEach(walk);
  return { width, height, svg:
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${number(width)} ${number(height)}" width="${number(width)}" ` +
    `height="${number(height)}" font-family="sans-serif"><rect width="100%" height="100%" fill="${colour("paper")}"/>${parts.join("")}</svg>` };
}

// The same as a picture of dots.
export async function painted({ svg, width, height }) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const ratio = Math.max(2, window.devicePixelRatio || 1);
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.ceil(width * ratio), Math.ceil(height * ratio)];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas;
  } finally {
    URL.revokeObjectURL(address);
  }
}
