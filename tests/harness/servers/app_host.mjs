// A small host of MCP Apps on the official SDKs, bundled for a browser: an MCP client of a hub, and an AppBridge.

import { AppBridge, getToolUiResourceUri, isToolVisibilityAppOnly, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const UI = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } };

/** Connect to the hub, and return the tools that a model is shown, and those with a page. */
globalThis.connect = async (url, token) => {
  const client = new Client({ name: "small-host", version: "1" }, { capabilities: UI });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { tools } = await client.listTools();
  globalThis.hub = { client, tools };
  return {
    model: tools.filter((tool) => !isToolVisibilityAppOnly(tool)).map((tool) => tool.name),
    pages: Object.fromEntries(tools.map((tool) => [tool.name, getToolUiResourceUri(tool)]).filter(([, uri]) => uri)),
  };
};

/** Call a tool, and show its page as a host does: by the address in the tool's definition. */
globalThis.show = async (name, args) => {
  const { client, tools } = globalThis.hub;
  const uri = getToolUiResourceUri(tools.find((tool) => tool.name === name));
  const { contents } = await client.readResource({ uri });
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.dataset.app = name;
  document.body.append(frame);
  const bridge = new AppBridge(client, { name: "small-host", version: "1" }, { serverTools: {}, serverResources: {} });
  const result = await client.callTool({ name, arguments: args });
  const ready = new Promise((done) => { bridge.oninitialized = done; });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = contents[0].text;
  await ready;
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(result);
  return contents[0].uri;
};
