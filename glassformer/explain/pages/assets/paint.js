// Canvases that are sharp on every screen, and the colours of the page's theme.

const MOST_PIXELS = 16e6; // what every browser still draws well

export function paper(canvas, width, height) {
  const wanted = window.devicePixelRatio || 1;
  const ratio = Math.min(wanted, Math.sqrt(MOST_PIXELS / Math.max(1, width * height)));
  const [wide, high] = [width, height].map((size) => Math.max(1, Math.round(size * ratio)));
  if (canvas.width === wide && canvas.height === high) { // clearing is much quicker than making anew
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, width, height);
    return pen;
  }
  canvas.width = wide;
  canvas.height = high;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  return context;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}

export function triple(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// Twelve colours that can be told apart on the page's ground.
export function headName(number) {
  return `head-${number % 12}`;
}

export function headColour(number) {
  return colour(headName(number));
}

// The weight that is painted with the strongest colour: in a long text all weights are small. The server's small pictures follow it too.
export function fullest(columns) {
  return Math.min(1, 24 / columns);
}

export const SOFTER = 0.7; // the power that lets small weights be seen

// Numbers 0 to 1 as colours from the page's ground to its accent, 256 of them.
export function ramp() {
  const [low, high] = [triple(colour("ground")), triple(colour("strong"))];
  const colours = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const mixed = low.map((from, channel) => Math.round(from + (high[channel] - from) * (i / 255) ** SOFTER));
    colours[i] = (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
  }
  return colours;
}

// A picture of bytes, one pixel each.
export function picture(bytes, rows, columns, colours) {
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colours[bytes[i]];
  small.getContext("2d").putImageData(image, 0, 0);
  return small;
}

export function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(letters.join("") + "…").width > width) letters.pop();
  return letters.join("") + "…";
}

// --- light and dark ---------------------------------------------------------------------------------------------------

const system = matchMedia("(prefers-color-scheme: dark)");
let wanted = "auto";

// Dress the page "light" or "dark", or, for "auto", as the system is; whatever paints is told.
export function dress(theme) {
  wanted = theme;
  document.documentElement.dataset.theme = theme !== "auto" ? theme : system.matches ? "dark" : "light";
  for (const node of document.querySelectorAll("[data-paints]")) node.dispatchEvent(new Event("dressed"));
}

system.addEventListener("change", () => dress(wanted));

// Paint anew when the page is dressed otherwise, as long as the element is there.
export function onTheme(node, paint) {
  node.dataset.paints = "";
  node.addEventListener("dressed", paint);
}
