// A panel as SVG: every text at its position, with backgrounds, borders and canvases.

import { escapeMarkup } from "./dom.js";
import { cssColour } from "./canvas.js";

const OMITTED = ".controls, .hint"; // not part of what a view shows
const MARGIN = 12;

const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

// Any CSS colour as an SVG attribute; null if it is transparent.
function paintAttribute(style, name = "fill") {
  probe.clearRect(0, 0, 1, 1);
  probe.fillStyle = style;
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
  return a ? `${name}="rgb(${r},${g},${b})"${a < 255 ? ` ${name}-opacity="${(a / 255).toFixed(3)}"` : ""}` : null;
}

// The lines of a text as they are wrapped on the page, each with its box.
function linesOf(node) {
  const range = document.createRange();
  const lines = [];
  let offset = 0;
  for (const letter of node.data) {
    range.setStart(node, offset);
    range.setEnd(node, offset += letter.length);
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
  const extend = (right, bottom) => {
    width = Math.max(width, right - origin.left + MARGIN);
    height = Math.max(height, bottom - origin.top + MARGIN);
  };
  const number = (value) => value.toFixed(1);
  const at = (left, top) => `x="${number(left - origin.left)}" y="${number(top - origin.top)}"`;

  const addBox = (node) => {
    const style = getComputedStyle(node), { left, top, right, bottom } = node.getBoundingClientRect();
    const size = `width="${number(right - left)}" height="${number(bottom - top)}"`;
    const hasBorder = parseFloat(style.borderTopWidth) > 0 && parseFloat(style.borderLeftWidth) > 0;
    const background = paintAttribute(style.backgroundColor) ?? 'fill="none"';
    const border = hasBorder ? ` ${paintAttribute(style.borderTopColor, "stroke") ?? ""}` : "";
    if (background !== 'fill="none"' || border) {
      parts.push(`<rect ${at(left, top)} ${size} rx="${parseFloat(style.borderRadius) || 0}" ${background}${border}/>`);
      extend(right, bottom);
    } else if (parseFloat(style.borderBottomWidth) > 0) {
      parts.push(`<rect ${at(left, bottom - 1)} width="${number(right - left)}" height="1" ${paintAttribute(style.borderBottomColor) ?? ""}/>`);
    }
    if (node instanceof HTMLCanvasElement && node.width > 1) {
      parts.push(`<image ${at(left, top)} ${size} href="${node.toDataURL()}"/>`);
      extend(right, bottom);
    }
  };

  const addText = (node) => {
    const style = getComputedStyle(node.parentElement), size = parseFloat(style.fontSize);
    const bold = parseInt(style.fontWeight, 10) >= 600 ? ' font-weight="bold"' : "";
    for (const { text, left, right, top, height: lineHeight } of linesOf(node)) {
      parts.push(`<text ${at(left, top + lineHeight / 2)} dy="0.35em" font-size="${size}"${bold} ${paintAttribute(style.color) ?? ""} ` +
        `textLength="${number(right - left)}" xml:space="preserve">${escapeMarkup(text)}</text>`);
      extend(right, top + lineHeight);
    }
  };

  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return addText(node);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches(OMITTED) || !node.checkVisibility()) return undefined;
    addBox(node);
    return node.childNodes.forEach(walk);
  };
  root.childNodes.forEach(walk);
  return { width, height, svg:
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${number(width)} ${number(height)}" width="${number(width)}" ` +
    `height="${number(height)}" font-family="sans-serif"><rect width="100%" height="100%" fill="${cssColour("paper")}"/>${parts.join("")}</svg>` };
}

// The same as a canvas.
export async function rasterise({ svg, width, height }) {
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
