// Official TypeScript clients that list what a hub has: node listing_clients.mjs URL TOKEN MODULES
// Prints one JSON line for each client and list: {client, list, count} or {client, list, error}.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, token, modules] = process.argv.slice(2);
const require = createRequire(pathToFileURL(modules + "/"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const pick = (module) => ({ ...module.default, ...module });

const v1 = pick(await load("@modelcontextprotocol/sdk/client/index.js"));
const http1 = pick(await load("@modelcontextprotocol/sdk/client/streamableHttp.js"));
const v2 = pick(await load("@modelcontextprotocol/client"));
const sent = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
const about = { name: "listing", version: "1" };

async function list(label, client) {
  const lists = {
    tools: () => client.listTools(),
    prompts: () => client.listPrompts(),
    resources: () => client.listResources(),
    resourceTemplates: () => client.listResourceTemplates(),
  };
  for (const [name, ask] of Object.entries(lists)) {
    try {
      const found = await ask();
      console.log(JSON.stringify({ client: label, list: name, count: found[name].length }));
    } catch (error) {
      console.log(JSON.stringify({ client: label, list: name, error: String(error).slice(0, 400) }));
    }
  }
  await client.close();
}

const first = new v1.Client(about);
await first.connect(new http1.StreamableHTTPClientTransport(new URL(url), sent));
await list("sdk 1", first);
for (const [label, options] of [["client 2, legacy", {}], ["client 2, modern", { versionNegotiation: { mode: { pin: "2026-07-28" } } }]]) {
  const client = new v2.Client(about, options);
  await client.connect(new v2.StreamableHTTPClientTransport(new URL(url), sent));
  await list(label, client);
}
process.exit(0);
