// Downloads: what a view shows as PNG, SVG or JSON.

import { element } from "./dom.js";

export function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function downloadPng(name, canvas, background) {
  const opaque = element("canvas", { width: canvas.width, height: canvas.height });
  const ctx = opaque.getContext("2d");
  ctx.fillStyle = background;
  ctx.fillRect(0, 0, opaque.width, opaque.height);
  ctx.drawImage(canvas, 0, 0);
  opaque.toBlob((blob) => download(name, blob));
}
