// The official TypeScript client: asks a served tree, over HTTP or with a command.
// node ask.mjs URL TOKEN, or node ask.mjs - COMMAND ARG...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [where, ...rest] = process.argv.slice(2);
const transport = where === "-"
  ? new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env, stderr: "inherit" })
  : new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
const client = new Client({ name: "peer", version: "1" }, { capabilities: { elicitation: { form: {} } } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { approved: true } };
});
await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const ask = async (message) => {
  const result = await client.callTool({ name: "ask", arguments: { message } }, undefined, { onprogress: (p) => progress.push(p.message) });
  return { text: result.content[0].text, isError: result.isError ?? false, session: result.structuredContent?.session };
};
const answers = [];
for (const message of ["hello", "what did I say?", "refund"]) answers.push(await ask(message));
console.log(JSON.stringify({ tools: tools.map((t) => t.name), answers, asked, progress }));
await client.close();
