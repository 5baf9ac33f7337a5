// The explorer of models that see pictures: a file is chosen or dropped, and the model's attention is drawn over it.

import { requestBytes, requestJson } from "./api.js";
import { button, dropdown, element } from "./dom.js";
import { download } from "./download.js";
import { PageData } from "./page_data.js";
import { PicturePage } from "./picture_page.js";
import { setTheme } from "./canvas.js";
import { setLanguage, translate } from "./translations.js";
import "./explorer_translations.js";

class PictureExplorer {
  constructor(root) {
    this.root = root;
    this.language = navigator.language?.startsWith("zh") ? "zh" : "en";
    this.shown = null; // what the server sent of the picture
  }

  async start() {
    this.about = await requestJson("model");
    setTheme("auto");
    this.build();
    if (this.about.has_picture) await this.see(null);
    document.documentElement.dataset.ready = "yes";
  }

  build() {
    setLanguage(this.language);
    document.title = translate("title");
    this.error = element("p", { className: "error", role: "alert" });
    this.page = element("div");
    const choose = element("input", { type: "file", accept: "image/*", "aria-label": translate("choosePicture"), onchange: () => this.read(choose.files[0]) });
    const { name, parameters } = this.about;
    this.root.replaceChildren(
      element("header", {}, element("h1", { textContent: translate("title") }),
        element("div", { className: "controls" },
          dropdown(translate("language"), [["en", "English"], ["zh", "中文"]], this.language, (language) => this.speak(language)),
          button("HTML", () => this.run(async () => download("attention.html", new Blob([await requestBytes("page", { language: this.language })]))), { title: translate("page") })),
        element("p", { className: "model", textContent: `${name} (${this.about.class}), ${translate("parameters", parameters.toLocaleString())}` })),
      element("label", { className: "field" }, element("span", { textContent: translate("choosePicture") }), choose),
      this.error, this.page);
    this.root.ondragover = (event) => event.preventDefault();
    this.root.ondrop = (event) => {
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    };
    if (this.shown) this.show();
  }

  speak(language) {
    this.language = language;
    this.build();
  }

  async run(work) {
    this.root.setAttribute("aria-busy", "true");
    this.error.textContent = "";
    await work().catch((error) => (this.error.textContent = error.message));
    this.root.setAttribute("aria-busy", "false");
  }

  async read(file) {
    if (!file) return;
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    await this.see(btoa(text));
  }

  // Let the model see a picture; null is the one that it has seen already.
  see(picture) {
    return this.run(async () => {
      const { about, numbers } = await requestJson("picture", picture === null ? {} : { picture });
      this.shown = new PageData(about, Uint8Array.from(atob(numbers), (c) => c.charCodeAt(0)).buffer);
      this.show();
    });
  }

  show() {
    new PicturePage(this.shown, this.page).build();
  }
}

new PictureExplorer(document.getElementById("explorer")).start();
