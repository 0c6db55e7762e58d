// The events of the hub. One tab of a browser holds the stream; the others get the events from it.

import { headers, keeper } from "./http.js";

const CHANNEL = "tabane.events";
const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;

const listeners = new Map();
const channel = new BroadcastChannel(CHANNEL);
const recordings = new Set();
let last = "";
let connected = null;

/** Call `listener(data, topic)` for each event of a topic ("*" is every one). Return a function that ends it. */
export function on(topic, listener) {
  if (!listeners.has(topic)) listeners.set(topic, new Set());
  listeners.get(topic).add(listener);
  return () => listeners.get(topic).delete(listener);
}

/** Tell the listeners of this tab. */
function deliver(event) {
  if (event.id) last = event.id;
  if (event.id && event.topic !== "reset") for (const heard of recordings) heard.push(event);
  announce(event);
}

function announce({ topic, data }) {
  for (const name of [topic, "*"]) {
    for (const listener of listeners.get(name) || []) listener(data, topic);
  }
}

/**
 * Record the events from now on. A page that is on its way may have been made before them, and what it shows does not
 * listen yet: `again()` tells the listeners of them once more. `end()` ends the recording.
 */
export function record() {
  const heard = [];
  recordings.add(heard);
  return { again: () => heard.splice(0).forEach(announce), end: () => recordings.delete(heard) };
}

/** Begin after the event with that id, unless later ones are known: the page that is shown has all before it. */
export function after(id) {
  last ||= id || "";
}

function tell(message) {
  deliver(message);
  channel.postMessage(message);
}

function state(value) {
  if (connected === value) return;
  connected = value;
  tell({ topic: value ? "connected" : "disconnected", data: null });
}

channel.addEventListener("message", (event) => {
  if (event.data.topic === "connected") connected = true;
  if (event.data.topic === "disconnected") connected = false;
  deliver(event.data);
});

function parse(block) {
  const event = { topic: "message", data: "", id: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) event.data += line.slice(6);
    else if (line.startsWith("event: ")) event.topic = line.slice(7);
    else if (line.startsWith("id: ")) event.id = line.slice(4);
  }
  return event.data ? { ...event, data: JSON.parse(event.data) } : null;
}

async function read(signal) {
  const more = last ? { "Last-Event-ID": last } : {};
  const response = await fetch("/events", { headers: headers({ Accept: "text/event-stream", ...more }), signal, cache: "no-store" });
  if (response.status === 401) {
    document.dispatchEvent(new CustomEvent("tabane:signed-out", { detail: (await response.json()).error }));
    return false;
  }
  if (!response.ok) throw new Error(String(response.status));
  state(true);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) tell(event);
    }
  }
}

async function hold() {
  const controller = new AbortController();
  addEventListener("pagehide", () => controller.abort(), { once: true });
  let wait = FIRST_WAIT;
  while (keeper.page && !controller.signal.aborted) {
    try {
      const began = Date.now();
      if (!(await read(controller.signal))) return;
      if (Date.now() - began > LONGEST_WAIT) wait = FIRST_WAIT;
    } catch {
      if (controller.signal.aborted) return;
    }
    state(false);
    await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

let started = false;

/** Follow the hub, in this tab or through another one. */
export function start() {
  if (started) return;
  started = true;
  // The lock is free again when the tab that holds it is closed: then another one goes on from its last event.
  const held = navigator.locks ? navigator.locks.request(CHANNEL, hold) : hold();
  held.finally(() => { started = false; });
}
