// A page of CopilotKit with a tool and a state, which talks to a served tree through CopilotKit's runtime. The input is
// {server, token, state, says}. The output is what the tool was given, each last message, the state, and all errors.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client";
import { CopilotKitCore } from "@copilotkit/core";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { z } from "zod";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
console.log = console.error; // only the result goes to the output
// The part of CopilotKit for pages talks to its runtime only where it finds a window.
globalThis.window = { location: { href: "http://localhost/", origin: "http://localhost" }, addEventListener() {}, removeEventListener() {} };

const { server, token, state, says } = JSON.parse(readFileSync(0, "utf8"));
const headers = { Authorization: `Bearer ${token}` };
const runtime = new CopilotRuntime({ agents: { desk: new HttpAgent({ url: `${server}/agui`, headers }) } });
const at = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((listening) => at.listen(0, "127.0.0.1", listening));

const given = [];
const showMap = {
  name: "show_map",
  description: "Shows a map of a city",
  parameters: z.object({ city: z.string() }),
  handler: async (args) => {
    given.push(args);
    return "a map";
  },
};
const errors = [];
const page = new CopilotKitCore({ runtimeUrl: `http://127.0.0.1:${at.address().port}/api/copilotkit`, tools: [showMap] });
page.subscribe({ onError: ({ code, error }) => errors.push(`${code}: ${error}`) });
page.connect();
while (page.runtimeConnectionStatus !== "connected") await new Promise((later) => setTimeout(later, 20));
const agent = page.getAgent("desk");
agent.state = state;
const said = [];
for (const words of says) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: words });
  await page.runAgent({ agent });
  said.push(agent.messages.at(-1).content);
}
const { arbor, ...shared } = agent.state;
process.stdout.write(JSON.stringify({ given, said, agent: arbor?.activeAgent, state: shared, errors }), () => process.exit(0));
