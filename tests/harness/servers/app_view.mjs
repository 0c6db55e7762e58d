// The page of an app on the official SDK: it shows what it is told, and calls a tool of its server by its own name.

import { App } from "@modelcontextprotocol/ext-apps";

const put = (id, value) => { document.getElementById(id).textContent = typeof value === "string" ? value : JSON.stringify(value); };
const said = (work, told) => work.then(told, (error) => `refused: ${error.message}`);

const app = new App({ name: "view", version: "1" }, {});
app.ontoolinput = ({ arguments: given }) => put("input", given);
app.ontoolresult = async ({ structuredContent }) => {
  put("result", structuredContent);
  put("refreshed", await said(app.callServerTool({ name: "refresh", arguments: {} }), (found) => found.content[0].text));
  put("resource", await said(app.readServerResource({ uri: "ui://shared/page.html" }), (found) => found.contents[0].uri));
};
await app.connect();
