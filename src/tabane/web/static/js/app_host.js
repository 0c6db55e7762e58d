// The host of MCP Apps (SEP-1865): shows the page of a tool in its frame, and answers what it asks for.

import { confirm } from "./app.js";
import { send } from "./http.js";

const VERSIONS = ["2026-01-26", "2025-11-21"];
const RATE = 40;
const BURST = 400;
const MOST_REQUESTS = 16;
const LONGEST = 1 << 20;
const HEIGHTS = [80, 1600];
const STARTS = 20000;
const ENDS = 500;

const REFUSED = -32000;
const UNKNOWN = -32601;
const INVALID = -32602;

/** Return the apps of a tool's page, or null if it has none. */
export function apps(root) {
  const card = root.querySelector("[data-app]");
  if (!card) return null;
  let shown = null;
  card.querySelector("[data-app-close]").addEventListener("click", () => close());

  async function show(given, result) {
    close();
    if (!result) return;
    const mine = shown = new AppView(card);
    try {
      await mine.open(JSON.parse(given.trim() || "{}"), JSON.parse(result));
    } catch (error) {
      if (shown === mine) mine.fail(error.message);
    }
  }

  function close() {
    shown?.close();
    shown = null;
    card.hidden = true;
  }

  return { show, close };
}

/** One app. It is a frame in a frame: messages come from the outer one, whatever the inner one shows. */
class AppView {
  constructor(card) {
    this.card = card;
    this.url = card.dataset.app;
    this.place = card.querySelector("[data-app-frame]");
    this.ended = new AbortController();
    this.frame = null;
    this.state = "opening";
    this.running = 0;
    this.asking = false;
    this.tokens = BURST;
    this.filled = performance.now();
  }

  async open(given, result) {
    this.given = given;
    this.result = result;
    this.error("");
    this.place.replaceChildren();
    this.note("[data-app-domains]", "");
    this.note("[data-app-refused]", "");
    this.card.hidden = false;
    this.page = await send("POST", this.url, {}, { signal: this.ended.signal });
    if (this.ended.signal.aborted) return;
    this.note("[data-app-domains]", this.page.domains.join(" "));
    this.note("[data-app-refused]", this.page.refused.join(" "));
    addEventListener("message", (event) => this.heard(event), { signal: this.ended.signal });
    const themes = () => this.tell("ui/notifications/host-context-changed", themed());
    document.addEventListener("tabane:theme", themes, { signal: this.ended.signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themes, { signal: this.ended.signal });
    this.frame = document.createElement("iframe");
    this.frame.className = this.page.border ? "app-frame bordered" : "app-frame";
    this.frame.height = 240;
    this.frame.title = this.card.querySelector("h2").textContent;
    this.frame.setAttribute("sandbox", "allow-scripts allow-forms");
    this.frame.src = this.page.frame;
    this.place.append(this.frame);
    setTimeout(() => this.state !== "ready" && this.frame && this.error(this.text("[data-app-silent]")), STARTS);
  }

  /** End the app: it is asked to save what it has, and is gone soon, whatever it answers. */
  close() {
    const { frame } = this;
    if (frame && this.state === "ready") {
      this.post({ jsonrpc: "2.0", id: "teardown", method: "ui/resource-teardown", params: {} });
      setTimeout(() => frame.remove(), ENDS);
      frame.hidden = true;
    } else frame?.remove();
    this.frame = null;
    this.state = "closed";
    this.ended.abort();
  }

  fail(text) {
    this.frame?.remove();
    this.frame = null;
    this.state = "closed";
    this.ended.abort();
    this.error(text);
  }

  error(text) {
    const place = this.card.querySelector("[data-app-error]");
    place.textContent = text;
    place.hidden = !text;
  }

  note(selector, text) {
    const place = this.card.querySelector(selector);
    place.querySelector("code").textContent = text;
    place.hidden = !text;
  }

  text(selector) {
    return this.card.querySelector(`template${selector}`).content.textContent;
  }

  // -- messages ---------------------------------------------------------------------------------

  heard(event) {
    // The origin of both frames is opaque. Any message with such an origin counts: it may come from the inner frame.
    if (!this.frame || event.origin !== "null") return;
    if (!this.spend()) {
      this.fail(this.text("[data-app-flood]"));
      return;
    }
    if (event.source !== this.frame.contentWindow) return;
    const message = event.data;
    if (message === null || typeof message !== "object" || message.jsonrpc !== "2.0" || typeof message.method !== "string") return;
    const { id, method } = message;
    const params = message.params !== null && typeof message.params === "object" ? message.params : {};
    if (typeof id === "string" || typeof id === "number") this.answer(id, method, params);
    else this.noted(method, params);
  }

  /** Take one message from the budget; false if it is used up. */
  spend() {
    const now = performance.now();
    this.tokens = Math.min(BURST, this.tokens + (RATE * (now - this.filled)) / 1000);
    this.filled = now;
    this.tokens -= 1;
    return this.tokens >= 0;
  }

  post(message) {
    this.frame?.contentWindow?.postMessage(message, "*");
  }

  tell(method, params) {
    if (this.state === "ready") this.post({ jsonrpc: "2.0", method, params });
  }

  noted(method, params) {
    if (method === "ui/notifications/sandbox-proxy-ready" && this.state === "opening") {
      this.state = "starting";
      this.post({ jsonrpc: "2.0", method: "ui/notifications/sandbox-resource-ready", params: { html: this.page.html, csp: this.page.csp } });
    } else if (method === "ui/notifications/initialized" && this.state === "starting") {
      this.state = "ready";
      this.error("");
      this.tell("ui/notifications/tool-input", { arguments: this.given });
      this.tell("ui/notifications/tool-result", this.result);
    } else if (method === "ui/notifications/size-changed" && Number.isFinite(params.height)) {
      const height = Math.min(Math.max(params.height, HEIGHTS[0]), HEIGHTS[1]);
      this.frame.height = Math.ceil(height) + (this.page.border ? 2 : 0);
    } else if (method === "ui/notifications/request-teardown") {
      this.card.querySelector("[data-app-close]").click();
    }
  }

  async answer(id, method, params) {
    try {
      this.post({ jsonrpc: "2.0", id, result: await this.asked(method, params) });
    } catch (error) {
      if (error.name === "AbortError") return;
      this.post({ jsonrpc: "2.0", id, error: { code: error.code || REFUSED, message: String(error.message) } });
    }
  }

  asked(method, params) {
    switch (method) {
      case "ui/initialize": return this.introduced(params);
      case "ping": return {};
      case "tools/call": return this.forward("call", { tool: String(params.name), arguments: params.arguments ?? {} });
      case "resources/read": return this.forward("read", { uri: String(params.uri) });
      case "ui/open-link": return this.link(params);
      case "ui/request-display-mode": return { mode: "inline" };
      default: throw refusal(UNKNOWN, `Method not found: ${method.slice(0, 100)}`);
    }
  }

  introduced(params) {
    return {
      protocolVersion: VERSIONS.includes(params.protocolVersion) ? params.protocolVersion : VERSIONS[0],
      hostInfo: { name: "tabane", title: "Tabane", version: "1" },
      hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, sandbox: { csp: this.page.csp, permissions: {} } },
      hostContext: {
        ...themed(),
        toolInfo: { tool: this.page.tool },
        displayMode: "inline",
        availableDisplayModes: ["inline"],
        containerDimensions: { width: this.place.clientWidth, maxHeight: HEIGHTS[1] },
        locale: document.documentElement.lang || navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        userAgent: "tabane",
        platform: "web",
        deviceCapabilities: { touch: navigator.maxTouchPoints > 0, hover: matchMedia("(hover: hover)").matches },
      },
    };
  }

  /** Ask the hub for the app: it reaches only the app's own server, as whoever is signed in. */
  async forward(what, body) {
    if (this.state !== "ready") throw refusal(REFUSED, "the app has not finished its initialization");
    if (this.running >= MOST_REQUESTS) throw refusal(REFUSED, `an app may wait for ${MOST_REQUESTS} answers at once`);
    const text = JSON.stringify(body);
    if (text.length > LONGEST) throw refusal(INVALID, "the request is too long");
    this.running += 1;
    try {
      return await send("POST", `${this.url}/${what}`, new Blob([text]), { type: "application/json", signal: this.ended.signal });
    } finally {
      this.running -= 1;
    }
  }

  async link({ url }) {
    let wanted = null;
    try {
      wanted = new URL(url);
    } catch {
      // It is refused below.
    }
    if (!wanted || !/^https?:$/.test(wanted.protocol) || wanted.href.length > 2000) throw refusal(INVALID, "Invalid URL");
    if (this.asking) throw refusal(REFUSED, "the person is being asked about another link");
    this.asking = true;
    try {
      if (!(await confirm(`${this.text("[data-app-link]")} ${wanted.href}`))) throw refusal(REFUSED, "Link opening denied by user");
    } finally {
      this.asking = false;
    }
    open(wanted.href, "_blank", "noopener,noreferrer");
    return {};
  }
}

function refusal(code, message) {
  return Object.assign(new Error(message), { code });
}

/** The theme, with the colors of this page under the names of the specification. */
function themed() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    theme: style.colorScheme.includes("dark") ? "dark" : "light",
    styles: {
      variables: {
        "--color-background-primary": of("--surface"),
        "--color-background-secondary": of("--bg"),
        "--color-background-tertiary": of("--sunken"),
        "--color-text-primary": of("--text"),
        "--color-text-secondary": of("--muted"),
        "--color-text-info": of("--accent"),
        "--color-text-danger": of("--bad"),
        "--color-text-success": of("--ok"),
        "--color-text-warning": of("--warn"),
        "--color-border-primary": of("--line"),
        "--color-border-secondary": of("--line-strong"),
        "--color-ring-primary": of("--focus"),
        "--font-sans": of("--font"),
        "--font-mono": of("--mono"),
        "--border-radius-md": of("--radius"),
        "--border-radius-lg": of("--radius-large"),
      },
    },
  };
}
