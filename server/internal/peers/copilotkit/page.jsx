// A page built with CopilotKit's hooks for React: a field for the user's words, the messages, the state that the page
// shares with the agents, and a tool of the page.
import { useAgent, useCopilotKit, useFrontendTool } from "@copilotkit/react-core/v2/headless";
import { CopilotKitContext, CopilotKitCoreReact, EMPTY_SET } from "@copilotkit/react-core/v2/context";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";

function Desk({ state }) {
  const [words, setWords] = useState("");
  const [maps, setMaps] = useState([]);
  useFrontendTool({
    name: "show_map",
    description: "Shows a map of a city",
    parameters: z.object({ city: z.string() }),
    handler: async (args) => {
      setMaps((shown) => [...shown, args]);
      return "a map";
    },
  });
  const { copilotkit } = useCopilotKit();
  const { agent } = useAgent({ agentId: "desk" });
  const send = async (submitted) => {
    submitted.preventDefault();
    setWords("");
    if (agent.messages.length === 0) agent.setState(state);
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: words });
    await copilotkit.runAgent({ agent });
  };
  const { arbor, ...shared } = agent.state ?? {};
  return (
    <form onSubmit={send}>
      <ol>
        {agent.messages.filter((m) => typeof m.content === "string" && m.content && m.role !== "tool").map((m) => (
          <li key={m.id} data-role={m.role}>{m.content}</li>
        ))}
      </ol>
      <input aria-label="Your message" value={words} onChange={(e) => setWords(e.target.value)} disabled={agent.isRunning} />
      <output>{JSON.stringify({ given: maps, agent: arbor?.activeAgent, state: shared })}</output>
    </form>
  );
}

window.show = (state) => {
  window.errors = [];
  const copilotkit = new CopilotKitCoreReact({ runtimeUrl: "/api/copilotkit" });
  copilotkit.subscribe({ onError: ({ code, error }) => window.errors.push(`${code}: ${error}`) });
  createRoot(document.body.appendChild(document.createElement("main"))).render(
    <CopilotKitContext.Provider value={{ copilotkit, executingToolCallIds: EMPTY_SET }}>
      <Desk state={state} />
    </CopilotKitContext.Provider>,
  );
};
