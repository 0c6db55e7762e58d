// Drafts: what is typed into a form[data-draft] stays in this browser until it is saved or discarded.
//
// A draft belongs to the person who typed it, and has no secrets: neither fields for passwords, nor a text that repeats
// one. It ends after a week, and with the sign-out.

const KEY = "tabane.draft:";
const PAUSE = 300;
const LONGEST = 256 << 10;
const MOST = 20;
const OLDEST = 7 * 24 * 3600 * 1000;
const SKIPPED = "[type=password], [type=file], [type=hidden], [type=submit], [type=button]";

/** Forms whose text is saved as it is. */
const saved = new WeakSet();
let holder = "";
let timer = 0;

const forms = () => [...document.querySelectorAll("#main form[data-draft]")];
const keyOf = (form) => `${KEY}${holder}\n${form.dataset.draft || location.pathname}`;

function fieldsOf(form) {
  const secrets = [...form.querySelectorAll("[type=password]")].map((one) => one.value).filter((value) => value.length > 3);
  return [...form.elements].filter((one) => one.name && one.matches("input, textarea, select") && !one.matches(SKIPPED))
    .filter((one) => !secrets.some((secret) => one.value.includes(secret)));
}

function isChanged(field) {
  if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
  if (field.matches("select")) {
    const first = [...field.options].some((one) => one.defaultSelected) ? null : field.options[0];
    return [...field.options].some((one) => one.selected !== (one.defaultSelected || one === first));
  }
  return field.value !== field.defaultValue;
}

/** Return what is typed into a form and not saved: [name, place among those of that name, value]. */
function typedInto(form) {
  if (saved.has(form)) return [];
  const seen = new Map();
  const typed = [];
  for (const field of fieldsOf(form)) {
    const at = seen.get(field.name) ?? 0;
    seen.set(field.name, at + 1);
    if (isChanged(field)) typed.push([field.name, at, field.matches("[type=checkbox], [type=radio]") ? field.checked : field.value]);
  }
  return typed;
}

/** Return whether there is a text that is not saved. */
export function unsaved() {
  return forms().some((form) => typedInto(form).length);
}

/** Keep what is typed into the forms of the page. */
export function keep() {
  clearTimeout(timer);
  if (!holder) return;
  for (const form of forms()) {
    const fields = typedInto(form);
    const text = JSON.stringify({ at: Date.now(), fields });
    if (fields.length && text.length <= LONGEST) put(keyOf(form), text);
    else if (!fields.length) localStorage.removeItem(keyOf(form));
  }
}

function put(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch { /* the storage is full: the text is only in the page */ }
}

/** The person who is signed in, from the frame of the page. Drafts that are too old or too many end. */
export function begin() {
  holder = document.getElementById("sidebar")?.dataset.holder ?? "";
  const kept = Object.keys(localStorage).filter((key) => key.startsWith(KEY))
    .map((key) => [key, read(key)?.at ?? 0]).sort((a, b) => b[1] - a[1]);
  kept.forEach(([key, at], index) => {
    if (index >= MOST || at < Date.now() - OLDEST) localStorage.removeItem(key);
  });
}

/** Forget the drafts of the person. */
export function forget() {
  for (const key of Object.keys(localStorage)) if (key.startsWith(`${KEY}${holder}\n`)) localStorage.removeItem(key);
}

function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key));
  } catch {
    return null;
  }
}

/** Put the drafts into the forms of a page that was just shown, before its script reads them. Return those forms. */
export function restore() {
  return forms().filter((form) => {
    const fields = read(keyOf(form))?.fields ?? [];
    const changed = fields.filter(([name, at, value]) => fill(form, name, at, value));
    if (changed.length) tell(form);
    return changed.length;
  });
}

/** Return whether a field has another value now. */
function fill(form, name, at, value) {
  const field = fieldsOf(form).filter((one) => one.name === name)[at];
  if (!field) return false;
  const member = typeof value === "boolean" ? "checked" : "value";
  if (field[member] === value) return false;
  field[member] = value;
  return true;
}

/** Tell the scripts of a page that its forms have other values than before. */
export function announce(restored) {
  for (const form of restored) {
    for (const field of fieldsOf(form).filter(isChanged)) field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

function tell(form) {
  const line = document.getElementById("draft-template").content.cloneNode(true).firstElementChild;
  line.querySelector("button").addEventListener("click", () => {
    line.remove();
    localStorage.removeItem(keyOf(form));
    const fields = fieldsOf(form).filter(isChanged);
    form.reset();
    for (const field of fields) field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  form.prepend(line);
}

function end(form) {
  saved.add(form);
  form.querySelector(":scope > .draft-line")?.remove();
  localStorage.removeItem(keyOf(form));
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-draft]");
  if (!form) return;
  saved.delete(form);
  clearTimeout(timer);
  timer = setTimeout(keep, PAUSE);
});

document.addEventListener("htmx:after:request", (event) => {
  const { sourceElement, response } = event.detail.ctx ?? {};
  const form = sourceElement?.matches?.("form[data-draft]") ? sourceElement : null;
  if (form && response?.status < 400) end(form);
});

/** For scripts that send a form by themselves. */
document.addEventListener("tabane:saved", (event) => {
  const form = event.target.closest?.("form[data-draft]");
  if (form) end(form);
});

addEventListener("pagehide", keep);
