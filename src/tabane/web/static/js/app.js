// The frame of the page: sign-in, navigation, notices, dialogs, and what is live.

import * as drafts from "./drafts.js";
import { download, headers, keeper, send } from "./http.js";
import * as live from "./live.js";
import * as palette from "./palette.js";
import * as places from "./places.js";
import { reveal } from "./reveal.js";
import * as shortcuts from "./shortcuts.js";
import { showTimes } from "./text.js";

const SIGN_IN = "/sign-in";
const app = document.getElementById("app");
const main = () => document.getElementById("main");
let unmount = null;
let visit = 0;
let wanted = null;
let going = null;
let spoiled = false;

// -- content ------------------------------------------------------------------------------------

/**
 * Load a page into the frame. With `whole`, the navigation around it is loaded too. With `keep`, what is typed and
 * focused stays. With `hold`, nobody can use the page that is shown meanwhile: what they did would be lost. With
 * `place`, a page that was left is shown again where it was.
 */
async function show(url, options = {}) {
  const heard = live.record();
  try {
    if (await load(url, options)) heard.again();
  } finally {
    heard.end();
  }
}

/** Return whether the page is shown. */
async function load(url, { push = true, whole = false, keep = false, hold = false, place = null }) {
  const mine = ++visit;
  drafts.keep();
  wanted = null;
  if (hold && main()) main().inert = true;
  going = push ? url : null;
  const target = whole || !main() || main().classList.contains("sign-in") ? app : main();
  const more = target === app ? { "Tabane-Whole": "1" } : {};
  busy(true);
  let response;
  try {
    response = await fetch(url, { headers: headers({ "HX-Request": "true", Accept: "text/html", ...more }) });
  } catch {
    if (mine === visit) unreachable(url);
    return false;
  }
  if (mine !== visit) return false;
  if (response.status === 401) return signIn((await response.json()).error, url);
  if (response.status === 503) return unreachable(url);
  if (spoiled) return location.assign(url);
  let text;
  let module;
  try {
    // The script is there before the page is: whoever clicks at once is heard.
    [module, text] = await Promise.all([script(response.headers.get("tabane-module")), response.text()]);
  } catch {
    if (mine === visit) unreachable(url);
    return false;
  }
  if (mine !== visit) return false;
  live.after(response.headers.get("tabane-event"));
  const lost = keep ? places.here() : null;
  if (push && url !== location.pathname + location.search) {
    places.leave(url);
    history.pushState(places.entry(), "", url);
  }
  connection(true);
  await swap(target, text, keep, module);
  if (mine === visit) going = null;
  places.begin();
  // A page that is fetched again has only the first part of its list.
  if (!keep || lost.parts) places.restore(keep ? lost : place);
  if (push && !whole && !keep) main()?.focus({ preventScroll: true });
  if (target === app) live.start();
  return mine === visit;
}

/** Say that a page is on its way: after a moment, a bar at the top shows it. */
function busy(on) {
  app.setAttribute("aria-busy", String(on));
  document.getElementById("progress").hidden = !on;
}

/** Return the script of a page. A browser does not ask again for one that it failed to get before a new document. */
async function script(name) {
  if (!name) return null;
  try {
    return await import(`./${name}.js`);
  } catch (error) {
    spoiled = true;
    throw error;
  }
}

/**
 * Show the page that a form leads to, then what the hub says about it: whoever reads that a key was changed finds
 * the changed key. A form that leads to its own page leaves everything else there as it is.
 */
async function follow(place, said, ctx) {
  const keep = place === location.pathname + location.search;
  const form = keep ? unchanged(ctx) : null;
  const typed = new AbortController();
  form?.addEventListener("input", () => typed.abort(), { signal: typed.signal });
  try {
    await show(place, keep ? { keep } : { hold: true });
    // The saved form shows what the hub has now, unless somebody went on typing.
    if (form?.isConnected && !typed.signal.aborted) form.reset();
  } finally {
    typed.abort();
    if (said) notice(said);
  }
}

/** Return the form of a request if it is as it was sent, or null. */
function unchanged({ sourceElement, request }) {
  const form = sourceElement.closest?.("form");
  if (!form || !(request.body instanceof URLSearchParams)) return null;
  return String(new URLSearchParams(new FormData(form))) === String(request.body) ? form : null;
}

async function swap(target, text, keep, module) {
  leave();
  await htmx.swap({ sourceElement: app, target, text, swap: keep ? "innerMorph" : "innerHTML" });
  busy(false);
  if (main()) main().inert = false;
  if (keep) renew();
  else if (target === app) drafts.begin();
  mark();
  const restored = keep ? [] : drafts.restore();
  const content = document.querySelector("#main [data-module]");
  if (content) unmount = module?.mount?.(content) ?? null;
  drafts.announce(restored);
}

/**
 * Fetch the parts again that a page loads after itself. What comes after the page, [data-later], is not in the page
 * that was fetched, so it stays until its own request is answered.
 */
function renew() {
  for (const part of document.querySelectorAll("#main [data-later][hx-trigger^=load]")) htmx.process(part, true);
}

/** Mark the current page in the navigation. */
function mark() {
  const path = location.pathname;
  for (const link of document.querySelectorAll("[data-nav]")) {
    const own = link.dataset.nav;
    const here = own === "/" ? path === "/" : path === own || path.startsWith(`${own}/`);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  menu(false);
  showTimes(document);
}

function leave() {
  const end = unmount;
  unmount = null;
  end?.();
}

/** Show the current page again. With `whole` false, what is typed and focused stays. */
export function reload(whole = false) {
  if (wanted) return show(wanted, { whole: !main() });
  // A page that is on its way is newer than what a reload would show.
  return going ? null : show(location.pathname + location.search, { push: false, whole, keep: !whole });
}

/** Show a page when the hub is back. Until then, the page that is shown stays. */
function unreachable(url) {
  connection(false);
  if (main()) main().inert = false;
  if (main()) document.getElementById("progress").hidden = true;
  going = null;
  wanted = url;
  setTimeout(() => { if (wanted === url) show(url, { push: true, whole: !main() }); }, 1500);
}

function connection(there) {
  document.getElementById("connection").hidden = there;
}

// -- sign-in ------------------------------------------------------------------------------------

/** Where a link may lead after the sign-in: to a path of this hub. */
function within(path) {
  return path && /^\/(?![/\\])/.test(path) && !path.startsWith(SIGN_IN) ? path : "/";
}

let asking = null;

/**
 * Ask for a sign-in. Several requests may learn at once that the session has ended: one of them asks. It leads to the
 * page that is on its way, if there is one, whichever request learns it first.
 */
function signIn(reason = "", next = going ?? wanted ?? location.pathname + location.search) {
  asking ??= ask(reason, next).finally(() => { asking = null; });
  return asking;
}

async function ask(reason, next) {
  // A late answer of the ended session must not replace the form, nor the reason that it shows.
  if (reason && !keeper.page && document.getElementById("sign-in-form")) return;
  visit += 1;
  going = wanted = null;
  drafts.keep();
  const response = await fetch(SIGN_IN, { headers: headers({ "HX-Request": "true" }) });
  const text = await response.text();
  // Nobody is to lose sight of a text that is not saved.
  if (main() && drafts.unsaved()) over(text);
  else {
    leave();
    await htmx.swap({ sourceElement: app, target: app, text, swap: "innerHTML" });
  }
  busy(false);
  const place = document.getElementById("sign-in-reason");
  if (reason && keeper.page) {
    place.textContent = reason;
    place.hidden = false;
  }
  keeper.page = "";
  document.getElementById("sign-in-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = new FormData(event.target).get("key") || "";
    attempt({ key }, within(next));
  });
  document.querySelector("#sign-in-form input")?.focus();
}

/** Show the form in a dialog over the page. */
function over(text) {
  document.getElementById("sign-in-over")?.remove();
  const dialog = document.createElement("dialog");
  dialog.className = "sign-in-over";
  dialog.id = "sign-in-over";
  dialog.append(...new DOMParser().parseFromString(text, "text/html").querySelector(".card").childNodes);
  dialog.setAttribute("aria-label", dialog.querySelector("h1").textContent.trim());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

async function attempt(shown, next) {
  const response = await fetch(SIGN_IN, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(shown),
  });
  const answer = await response.json().catch(() => ({ error: String(response.status) }));
  if (response.ok) {
    keeper.page = answer.page;
    history.replaceState(history.state ?? places.entry(), "", next);
    await show(next, { push: false, whole: true });
    document.getElementById("sign-in-over")?.close();
    return;
  }
  if (!document.getElementById("sign-in-form")) await signIn("", next);
  const place = document.getElementById("sign-in-reason");
  place.textContent = answer.error;
  place.hidden = false;
}

async function signOut() {
  await send("POST", "/sign-out").catch(() => null);
  drafts.forget();
  palette.forget();
  keeper.page = "";
  location.assign("/");
}

document.addEventListener("tabane:signed-out", (event) => {
  if (!document.getElementById("sign-in-form")) signIn(event.detail);
});

// -- notices and dialogs --------------------------------------------------------------------------

/** Show a short message over the page: an error stays until it is closed. */
export function notice(text, kind = "ok") {
  const made = document.getElementById("failed-template").content.cloneNode(true).firstElementChild;
  made.classList.replace("bad", kind === "ok" ? "ok" : "bad");
  made.dataset.notice = kind;
  made.querySelector("[data-text]").textContent = text;
  document.getElementById("notices").append(made);
}

new MutationObserver((changes) => {
  for (const change of changes) {
    for (const added of change.addedNodes) {
      if (added.dataset?.notice && added.dataset.notice !== "error") setTimeout(() => added.remove(), 6000);
    }
  }
}).observe(document.getElementById("notices"), { childList: true });

/** Ask a person. Resolves to whether they agree. `action` is the word of the button that agrees. */
export function confirm(text, action = "") {
  const made = document.getElementById("confirm-template").content.cloneNode(true).firstElementChild;
  made.querySelector("p").textContent = text;
  if (action) made.querySelector("[value=yes]").textContent = action;
  document.body.append(made);
  return new Promise((done) => {
    made.addEventListener("close", () => {
      done(made.returnValue === "yes");
      made.remove();
    });
    made.showModal();
  });
}

// -- htmx ---------------------------------------------------------------------------------------

document.addEventListener("htmx:config:request", (event) => {
  Object.assign(event.detail.ctx.request.headers, headers({ "Tabane-Part": "1" }));
});

document.addEventListener("htmx:confirm", (event) => {
  const question = event.detail.ctx?.confirm;
  if (!question || question === "null") return;
  event.preventDefault();
  const source = event.detail.ctx.sourceElement;
  confirm(question, source?.matches?.("button.danger") ? source.textContent.trim() : "").then((agreed) => {
    if (agreed) event.detail.issueRequest(true);
    else event.detail.dropRequest?.();
  });
});

document.addEventListener("htmx:before:response", (event) => {
  const { response } = event.detail.ctx;
  if (response.status !== 401 && response.status !== 503) return;
  event.preventDefault();
  if (response.status === 401) response.raw.json().then((answer) => signIn(answer.error));
  else unreachable(location.pathname + location.search);
});

document.addEventListener("htmx:after:request", (event) => {
  const found = event.detail.ctx?.response?.headers;
  const said = decodeURIComponent(found?.get?.("tabane-notice") ?? "");
  const place = found?.get?.("tabane-location");
  if (place) follow(place, said, event.detail.ctx);
  else if (said) notice(said);
  if (found) connection(true);
});

document.addEventListener("htmx:error", (event) => {
  const { error, ctx } = event.detail;
  if (error?.name === "AbortError") return;
  if (error instanceof TypeError && ctx && !ctx.response) connection(false);
  else if (error) console.error(error);
});

document.addEventListener("tabane:part", () => showTimes(document));
document.addEventListener("htmx:after:swap", (event) => {
  showTimes(document);
  reveal(event.detail.ctx);
});

// -- the person ---------------------------------------------------------------------------------

function menu(open) {
  document.body.classList.toggle("menu-open", open);
  document.querySelector("[data-menu]")?.setAttribute("aria-expanded", String(open));
}

function isOwn(link) {
  return link.origin === location.origin && !link.target && !link.hasAttribute("download") && !link.pathname.startsWith("/static/");
}

document.addEventListener("click", (event) => {
  const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  const link = event.target.closest("a[href]");
  if (link && plain && !event.defaultPrevented && isOwn(link)) {
    if (link.getAttribute("href").startsWith("#")) {
      if (link.classList.contains("skip")) { event.preventDefault(); main()?.focus(); }
      return;
    }
    event.preventDefault();
    show(link.pathname + link.search);
    return;
  }
  const button = event.target.closest("button, [data-open]");
  if (!button) {
    if (document.body.classList.contains("menu-open") && !event.target.closest(".sidebar")) menu(false);
    return;
  }
  if (button.matches("[data-menu]")) menu(!document.body.classList.contains("menu-open"));
  else if (button.matches("[data-dismiss]")) button.closest(".notice").remove();
  else if (button.matches("[data-reload]")) reload(true);
  else if (button.matches("[data-sign-out]")) signOut();
  else if (button.matches("[data-open]")) document.querySelector(button.dataset.open)?.showModal();
  else if (button.matches("[data-close]")) button.closest("dialog")?.close();
  else if (button.matches("[data-download]")) download(button.dataset.download).then((said) => said && notice(said)).catch((error) => notice(error.message, "error"));
  else if (button.matches("[data-copy]")) copy(button);
});

async function copy(button) {
  const source = button.dataset.copy ? document.querySelector(button.dataset.copy) : button.parentElement.querySelector("code, pre");
  await navigator.clipboard.writeText(button.dataset.text ?? source.value ?? source.textContent);
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("menu-open")) menu(false);
});

document.addEventListener("tabane:go", (event) => show(event.detail));
document.addEventListener("htmx:before:history:restore", (event) => {
  event.preventDefault();
  places.leave();
  show(event.detail.path, { push: false, place: places.remembered() });
});
setInterval(() => showTimes(document), 20000);

// -- live ---------------------------------------------------------------------------------------

let wasLost = false;

live.on("*", (data, topic) => {
  if (topic === "connected") {
    connection(true);
    // A page that is on its way is not given up for the one that is shown.
    if (wasLost && app.getAttribute("aria-busy") !== "true") reload();
    wasLost = false;
  } else if (topic === "disconnected") {
    wasLost = true;
    connection(false);
  } else if (topic === "reset") {
    reload();
  } else {
    document.body.dispatchEvent(new CustomEvent(topic, { detail: data }));
    // What an empty page waits for: [data-reload-on~=servers].
    if (main()?.querySelector(`[data-reload-on~="${CSS.escape(topic)}"]`)) reload();
  }
});

// -- start --------------------------------------------------------------------------------------

palette.start({ confirm, signOut });
shortcuts.start();
const code = location.pathname === SIGN_IN ? location.hash.slice(1) : "";
const next = within(new URLSearchParams(location.search).get("to"));
if (code) {
  history.replaceState(null, "", SIGN_IN);
  attempt({ code }, next);
} else if (location.pathname === SIGN_IN) {
  keeper.page ? show("/", { whole: true }) : signIn("", "/");
} else {
  show(location.pathname + location.search, { push: false, whole: true, place: places.remembered() });
}
