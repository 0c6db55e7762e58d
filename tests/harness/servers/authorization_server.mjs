// An authorization server on a free port of this machine: npm's oidc-provider. Its first line is its URL.
// Usage: node authorization_server.mjs PATH_OF_OIDC_PROVIDER
//
// Whoever comes is signed in as "alice" and consents to everything. Clients with "opaque" in their id get
// opaque tokens, all others JWTs. Under /control the tests change what the server does:
//   POST /control/keys      sign with a new key; the old one is published no more
//   POST /control/delay?ms  answer everything else that much later
//   GET  /control/counts    how often each path was asked

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const { Provider } = await import(pathToFileURL(process.argv[2]));
const { generateKeyPair, exportJWK } = await import(
  pathToFileURL(process.argv[2].replace("oidc-provider/lib/index.js", "jose/dist/webapi/index.js"))
);

const SCOPES = "tabane:read tabane:* tabane:admin tabane:tool:up__* other";
const counts = {};
let delay = 0;
let provider;

async function newKey(alg) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: randomUUID(), alg, use: "sig" };
}

const machine = (id) => ({
  client_id: id,
  client_secret: `secret of ${id} & +`,
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
});

async function start(issuer) {
  provider = new Provider(issuer, {
    clients: [
      ...["machine", "stranger", "opaque", "hub"].map(machine),
      {
        client_id: "browser",
        token_endpoint_auth_method: "none",
        application_type: "native",
        redirect_uris: ["http://127.0.0.1/callback"],
        grant_types: ["authorization_code", "refresh_token"],
      },
    ],
    jwks: { keys: [await newKey("RS256"), await newKey("ES256")] },
    cookies: { keys: ["of tests"] },
    scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
    claims: { openid: ["sub"] },
    pkce: { required: () => true },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => [],
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: SCOPES,
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: client.clientId.includes("opaque") ? "opaque" : "jwt",
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  provider.on("server_error", (_, error) => console.error(error));
}

async function consent(request, response) {
  const { params, prompt, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "alice" } });
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope ?? "openid");
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, SCOPES);
  return provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

async function control(request, response, url) {
  if (url.pathname === "/control/keys") await start(issuer);
  if (url.pathname === "/control/delay") delay = Number(url.search.slice(1));
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(counts));
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://127.0.0.1");
  try {
    if (url.pathname.startsWith("/control/")) return await control(request, response, url);
    counts[url.pathname] = (counts[url.pathname] ?? 0) + 1;
    if (delay) await new Promise((done) => setTimeout(done, delay));
    if (url.pathname.startsWith("/interaction/")) return await consent(request, response);
    return provider.callback()(request, response);
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});

await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
await start(issuer);
console.log(issuer);
process.stdin.resume();
process.stdin.on("end", () => process.exit());
