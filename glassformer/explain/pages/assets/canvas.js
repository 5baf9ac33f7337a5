// Canvases that are sharp on every screen, and the colours of the page's theme.

const MAX_PIXELS = 16e6; // what every browser still draws well

// Size a canvas, cleared, and return its 2D context.
export function prepareCanvas(canvas, width, height) {
  const deviceRatio = window.devicePixelRatio || 1;
  const ratio = Math.min(deviceRatio, Math.sqrt(MAX_PIXELS / Math.max(1, width * height)));
  const [pixelWidth, pixelHeight] = [width, height].map((size) => Math.max(1, Math.round(size * ratio)));
  const ctx = canvas.getContext("2d");
  if (canvas.width === pixelWidth && canvas.height === pixelHeight) { // clearing is much faster than resizing
    ctx.clearRect(0, 0, width, height);
    return ctx;
  }
  canvas.width = pixelWidth;
  canvas.height = pixelHeight;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  ctx.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  return ctx;
}

export function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

function parseRgb(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// Twelve colours that can be distinguished on the page's background.
export function headColourName(head) {
  return `head-${head % 12}`;
}

export function headColour(head) {
  return cssColour(headColourName(head));
}

// The weight from which the colour is strongest: in a long text all weights are small. The server's thumbnails follow it too.
export function saturation(columns) {
  return Math.min(1, 24 / columns);
}

export const GAMMA = 0.7; // makes small weights visible

// 256 colours from the page's background to its accent.
export function colourScale() {
  const [low, high] = [parseRgb(cssColour("ground")), parseRgb(cssColour("strong"))];
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const mixed = low.map((from, channel) => Math.round(from + (high[channel] - from) * (i / 255) ** GAMMA));
    colours[i] = (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
  }
  return colours;
}

// Bytes as a canvas, one pixel each.
export function bitmap(bytes, rows, columns, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colours[bytes[i]];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export function truncateText(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && ctx.measureText(letters.join("") + "…").width > width) letters.pop();
  return letters.join("") + "…";
}

// --- light and dark ---------------------------------------------------------------------------------------------------

const systemDark = matchMedia("(prefers-color-scheme: dark)");
let currentTheme = "auto";

// Set the theme to "light", "dark", or "auto", which follows the system, and notify the views.
export function setTheme(theme) {
  currentTheme = theme;
  document.documentElement.dataset.theme = theme !== "auto" ? theme : systemDark.matches ? "dark" : "light";
  for (const node of document.querySelectorAll("[data-themed]")) node.dispatchEvent(new Event("themechange"));
}

systemDark.addEventListener("change", () => setTheme(currentTheme));

// Repaint when the theme changes, as long as the element is in the page.
export function onThemeChange(node, paint) {
  node.dataset.themed = "";
  node.addEventListener("themechange", paint);
}
