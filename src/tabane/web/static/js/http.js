// Requests to the hub with the headers that identify this page.

export const keeper = {
  get page() { return localStorage.getItem("tabane.page") || ""; },
  set page(value) { value ? localStorage.setItem("tabane.page", value) : localStorage.removeItem("tabane.page"); },
};

/** Headers of each request: the page's secret, and the language if the person chose one. */
export function headers(more = {}) {
  const all = { "Tabane-Page": keeper.page, ...more };
  const lang = localStorage.getItem("tabane.lang");
  if (lang) all["Tabane-Lang"] = lang;
  return all;
}

export class HttpError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function answered(response) {
  const type = response.headers.get("content-type") || "";
  const body = type.startsWith("application/json") ? await response.json() : await response.text();
  if (response.status === 401) document.dispatchEvent(new CustomEvent("tabane:signed-out", { detail: body.error }));
  if (!response.ok) throw new HttpError(response.status, body.error || String(response.status));
  return body;
}

/** GET a URL: JSON as a value, anything else as text. Throws HttpError. */
export async function get(url, { signal } = {}) {
  return answered(await fetch(url, { headers: headers({ Accept: "application/json" }), signal }));
}

/** Send a body: a FormData or URLSearchParams, a Blob, or a value as JSON. Throws HttpError. */
export async function send(method, url, body, { signal, type } = {}) {
  const more = { Accept: "application/json" };
  let data = body;
  if (body instanceof FormData) data = new URLSearchParams(body);
  else if (type) more["Content-Type"] = type;
  else if (body !== undefined && !(body instanceof Blob) && !(body instanceof URLSearchParams)) {
    data = JSON.stringify(body);
    more["Content-Type"] = "application/json";
  }
  return answered(await fetch(url, { method, headers: headers(more), body: data, signal }));
}

/** Load a URL as a file to save, under the name that the hub gives it. Returns what the hub says about it. */
export async function download(url) {
  const response = await fetch(url, { headers: headers({ Accept: "application/json" }) });
  if (!response.ok) return answered(response);
  const name = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") || "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name ? decodeURIComponent(name[1]) : "download";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  return decodeURIComponent(response.headers.get("tabane-notice") || "");
}
