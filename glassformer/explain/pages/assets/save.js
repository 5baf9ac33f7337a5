// Files for the reader: what a view shows as PNG, SVG or JSON.

import { make } from "./build.js";

export function download(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function downloadPng(name, canvas, ground) {
  const whole = make("canvas", { width: canvas.width, height: canvas.height });
  const pen = whole.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, whole.width, whole.height);
  pen.drawImage(canvas, 0, 0);
  whole.toBlob((blob) => download(name, blob));
}
