// A page of CopilotKit with a tool and a state, through CopilotKit's runtime, against a served tree. Nothing in CI runs
// it, because its packages have 282 MB (353 packages). By hand:
//
//   npm --prefix server/internal/peers/copilotkit install --ignore-scripts
//   arbor serve TREE --no-token --page-state city
//   node server/internal/peers/copilotkit/page.mjs http://127.0.0.1:8420 none
//
// With the offline model it prints, where TREE has one agent, desk:
//
//   tool {"city":"Show a map of a city"}
//   desk: show_map returned "a map".
//   state {"city":"Oslo"}
import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client";
import { CopilotKitCore } from "@copilotkit/core";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { z } from "zod";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
// The part of CopilotKit for pages talks to its runtime only where it finds a window.
globalThis.window = { location: { href: "http://localhost/", origin: "http://localhost" }, addEventListener() {}, removeEventListener() {} };

const [server, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const runtime = new CopilotRuntime({ agents: { desk: new HttpAgent({ url: `${server}/agui`, headers }) } });
const at = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((listening) => at.listen(0, "127.0.0.1", listening));

const showMap = {
  name: "show_map",
  description: "Shows a map of a city",
  parameters: z.object({ city: z.string() }),
  handler: async (args) => {
    console.log("tool", JSON.stringify(args));
    return "a map";
  },
};
const page = new CopilotKitCore({ runtimeUrl: `http://127.0.0.1:${at.address().port}/api/copilotkit`, tools: [showMap] });
page.subscribe({ onError: ({ code, error }) => console.log("error", code, String(error)) });
page.connect();
while (page.runtimeConnectionStatus !== "connected") await new Promise((later) => setTimeout(later, 20));
const agent = page.getAgent("desk");
agent.state = { city: "Oslo" };
agent.messages = [{ id: "m1", role: "user", content: "Show a map of a city" }];
await page.runAgent({ agent });
const { arbor, ...state } = agent.state;
console.log(`${arbor.activeAgent}: ${agent.messages.at(-1).content}`);
console.log("state", JSON.stringify(state));
process.exit(0);
