// Files of posts that are dropped or chosen: sent to the hub in one request, and imported there.

import { notice } from "./app.js";
import { get, headers } from "./http.js";
import { bytes, duration } from "./text.js";
import { chosenFiles } from "./uploads.js";

const UPLOAD = "/posts/import/upload";
const READABLE = /\.(zip|csv|jsonl?|js|txt)$/i;
const LISTS = /(^|\/)(account|note-tweet|tweets?|community-tweet|likes?|liked-tweets|bookmarks?)(-part\d+)?\.js$/i;

/** The upload under way, or that failed: it goes on while other pages are shown. */
let current = null;

/** Let files of posts be dropped on a page that includes posts/drop.html. Return what ends it. */
export function postDrop(root) {
  const panel = root.querySelector("[data-post-drop]");
  if (!panel) return () => {};
  const add = (files) => begin(panel, files.map(({ file }) => file).filter((file) => !file.name.startsWith(".")));
  const endFiles = chosenFiles(root, add, (path) => (path.endsWith(".js") ? LISTS.test(path) : READABLE.test(path)));
  const click = (event) => {
    if (event.target.closest("[data-post-cancel]")) current?.request?.abort();
    else if (event.target.closest("[data-post-again]") && current) begin(panel, current.files);
  };
  panel.addEventListener("click", click);
  if (current) current.panel = panel;
  render(panel);
  panel.dataset.ready = "";
  return () => {
    endFiles();
    panel.removeEventListener("click", click);
    if (current?.panel === panel) current.panel = null;
    if (current && !current.request) current = null;
  };
}

/** A page with nothing but that. */
export const mount = postDrop;

async function begin(panel, files) {
  const words = { ...panel.dataset };
  if (current?.request || current?.checking) return notice(words.busy, "error");
  const fit = files.filter((file) => READABLE.test(file.name));
  current = { panel, words, files: fit, size: fit.reduce((sum, file) => sum + file.size, 0), sent: 0, problem: "", request: null };
  if (!fit.length) return failed(current, words.none);
  if (!current.size) return failed(current, words.empty);
  const mine = current;
  mine.checking = true;
  render(panel);
  try {
    const { problem } = await get(`${UPLOAD}?size=${mine.size}`);
    mine.checking = false;
    if (problem) failed(mine, problem);
    else send(mine);
  } catch (error) {
    mine.checking = false;
    failed(mine, error.status ? error.message : words.lost);
  }
}

function failed(upload, problem) {
  upload.request = null;
  upload.problem = problem;
  removeEventListener("beforeunload", warn);
  if (upload.panel) render(upload.panel);
  else {
    current = null;
    if (problem) notice(problem, "error");
  }
}

const warn = (event) => event.preventDefault();

/** Send a line that names the files, and the files after it, as the hub reads them. */
function send(upload) {
  const request = new XMLHttpRequest();
  const head = `${JSON.stringify(upload.files.map((file) => [file.name, file.size]))}\n`;
  upload.request = request;
  upload.began = performance.now();
  request.open("POST", UPLOAD);
  const all = headers({ Accept: "application/json", "Content-Type": "application/octet-stream" });
  for (const [name, value] of Object.entries(all)) request.setRequestHeader(name, value);
  request.responseType = "json";
  request.upload.onprogress = (event) => {
    upload.sent = Math.min(upload.size, event.loaded);
    if (upload.panel) render(upload.panel);
  };
  request.onabort = () => { current = null; failed(upload, ""); };
  request.onerror = () => failed(upload, upload.words.lost);
  request.onload = () => {
    const answer = request.response;
    if (request.status === 401) document.dispatchEvent(new CustomEvent("tabane:signed-out", { detail: answer?.error }));
    if (request.status !== 200 || !answer) return failed(upload, answer?.error || upload.words.lost);
    current = null;
    removeEventListener("beforeunload", warn);
    if (upload.panel) document.dispatchEvent(new CustomEvent("tabane:go", { detail: answer.url }));
    else notice(upload.words.sent, "ok");
  };
  addEventListener("beforeunload", warn);
  if (upload.panel) render(upload.panel);
  request.send(new Blob([head, ...upload.files]));
}

/** Show the upload in the panel: the place for files, the progress, or why it failed. */
function render(panel) {
  const part = (name) => panel.querySelector(`[data-post-${name}]`);
  const shown = current?.panel === panel ? current : null;
  const sending = Boolean(shown?.request || shown?.checking);
  part("zone").hidden = sending;
  part("sending").hidden = !sending;
  part("failure").hidden = !shown?.problem;
  if (shown?.problem) part("problem").textContent = shown.problem;
  part("again").hidden = !shown?.files.length;
  if (!sending) return;
  const { words, files, sent, size } = shown;
  part("name").textContent = files.length > 1 ? words.several.replace("{count}", files.length) : files[0].name;
  part("bar").value = size ? sent / size : 0;
  const seconds = (performance.now() - shown.began) / 1000;
  const rate = seconds > 1 && sent ? sent / seconds : 0;
  const left = rate && sent < size ? ` · ${words.left.replace("{time}", duration((size - sent) / rate))}` : "";
  part("state").textContent = sent >= size ? words.storing : `${bytes(sent)} / ${bytes(size)}${rate ? ` · ${bytes(rate)}/s` : ""}${left}`;
}
