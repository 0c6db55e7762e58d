// Files that are dropped on a page or chosen: sent one by one, with their progress.

import { headers } from "./http.js";
import { bytes, el } from "./text.js";

const MOST = 500;
const AT_ONCE = 2;

/** Let files be dropped anywhere on the page. `done()` is called when all of them are sent. Return what ends it. */
export function uploads(root, done) {
  const panel = root.querySelector("[data-uploads]");
  if (!panel || !panel.dataset.allowed) return () => {};
  const list = panel.querySelector("[data-upload-list]");
  const status = panel.querySelector("[data-upload-status]");
  const words = panel.dataset;
  const waiting = [];
  const open = new Set();
  let working = 0;
  let count = 0;
  let finished = 0;

  function row(name) {
    const state = el("span", { class: "upload-state muted" }, words.waiting);
    const bar = el("progress", { max: 100, value: 0, "aria-label": name });
    const item = el("li", {}, el("span", { class: "upload-name", title: name }, name), bar, state);
    list.append(item);
    return { item, state, bar };
  }

  function failed({ item, state, bar }, text) {
    bar.remove();
    state.textContent = words.failed;
    state.classList.replace("muted", "field-error");
    item.append(el("p", { class: "field-error", role: "alert" }, text));
  }

  function add(files) {
    panel.hidden = false;
    status.textContent = "";
    if (files.length > MOST) list.append(el("li", { class: "field-error" }, words.tooMany));
    for (const { file, path } of files.slice(0, MOST)) {
      const shown = row(path);
      count += 1;
      if (file.size > Number(words.largest)) {
        finished += 1;
        failed(shown, words.tooLarge);
      } else waiting.push({ file, path, shown });
    }
    total();
    next();
  }

  function total() {
    panel.querySelector("[data-upload-count]").textContent = `${finished} / ${count}`;
  }

  function next() {
    while (working < AT_ONCE && waiting.length) send(waiting.shift());
    if (!working && !waiting.length && count) {
      status.textContent = words.done ?? status.dataset.done;
      done();
    }
  }

  function send({ file, path, shown }) {
    working += 1;
    const request = new XMLHttpRequest();
    open.add(request);
    request.open("POST", `/documents/-/upload?path=${encodeURIComponent(words.prefix + path)}`);
    const all = headers({ Accept: "application/json", "Content-Type": "application/octet-stream" });
    for (const [name, value] of Object.entries(all)) request.setRequestHeader(name, value);
    request.responseType = "json";
    shown.state.textContent = words.sending;
    request.upload.onprogress = (event) => {
      shown.bar.value = event.total ? (100 * event.loaded) / event.total : 0;
      shown.state.textContent = `${bytes(event.loaded)}`;
    };
    request.upload.onload = () => { shown.bar.removeAttribute("value"); shown.state.textContent = words.reading; };
    request.onloadend = () => {
      open.delete(request);
      working -= 1;
      finished += 1;
      const answer = request.response;
      if (request.status === 401) document.dispatchEvent(new CustomEvent("tabane:signed-out", { detail: answer?.error }));
      if (request.status === 200 && answer) {
        shown.bar.remove();
        shown.item.querySelector(".upload-name").replaceChildren(el("a", { href: answer.url }, path));
        shown.state.textContent = words[answer.state] || answer.state;
      } else failed(shown, answer?.error || words.failed);
      total();
      next();
    };
    request.send(file);
  }

  const click = (event) => {
    if (!event.target.closest("[data-upload-close]")) return;
    panel.hidden = true;
    if (!working) { list.replaceChildren(); count = finished = 0; }
  };
  root.addEventListener("click", click);
  const endFiles = chosenFiles(root, add);
  return () => {
    endFiles();
    root.removeEventListener("click", click);
    waiting.length = 0;
    for (const request of open) request.abort();
  };
}

/**
 * Call `add` with files that are dropped anywhere on the page, or chosen: each with its path. Of folders, those that
 * are `wanted` by their paths. Return what ends it.
 */
export function chosenFiles(root, add, wanted = () => true) {
  const hint = root.querySelector("[data-drop-hint]");
  const input = root.querySelector("[data-files]");
  let depth = 0;
  const hovering = (more) => {
    depth = Math.max(0, more);
    if (hint) hint.hidden = !depth;
  };
  const hasFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  const enter = (event) => { if (hasFiles(event)) { event.preventDefault(); hovering(depth + 1); } };
  const over = (event) => { if (hasFiles(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } };
  const leave = (event) => { if (hasFiles(event)) hovering(depth - 1); };
  const drop = async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hovering(0);
    add(await dropped(event.dataTransfer, wanted));
  };
  const chosen = () => {
    add([...input.files].map((file) => ({ file, path: file.name })));
    input.value = "";
  };
  const click = (event) => { if (event.target.closest("[data-choose]")) input.click(); };
  const listened = [[document, "dragenter", enter], [document, "dragover", over], [document, "dragleave", leave], [document, "drop", drop], [input, "change", chosen], [root, "click", click]];
  for (const [target, name, listener] of listened) target.addEventListener(name, listener);
  return () => { for (const [target, name, listener] of listened) target.removeEventListener(name, listener); };
}

/** Return the files that were dropped, also those in folders, each with its path. */
async function dropped(transfer, wanted) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files].map((file) => ({ file, path: file.name }));
  const found = [];
  for (const entry of entries) await collect(entry, found, wanted);
  return found;
}

async function collect(entry, found, wanted) {
  if (found.length > MOST || entry.name.startsWith(".")) return;
  if (entry.isFile) {
    if (!wanted(entry.fullPath)) return;
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    if (file) found.push({ file, path: entry.fullPath.replace(/^\//, "") });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return;
    for (const inner of some) await collect(inner, found, wanted);
  }
}
