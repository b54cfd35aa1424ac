// The agent of server.mjs on the last release of the JavaScript SDK that spoke
// nothing but A2A 0.3, over JSON-RPC and HTTP+JSON.

import express from "express";
import { DefaultRequestHandler, InMemoryTaskStore } from "a2a-js-0.3/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "a2a-js-0.3/server/express";
import { answer, seen, wake } from "./words.mjs";
import { control, listen, ready } from "./serving.mjs";

const part = (p) => {
  if (p.text !== undefined) return { kind: "text", text: p.text };
  if (p.data !== undefined) return { kind: "data", data: p.data };
  return { kind: "file", file: { name: p.filename, mimeType: p.mediaType, ...(p.url ? { uri: p.url } : { bytes: p.raw }) } };
};
const message = (m) => ({ ...m, kind: "message", role: m.role === "ROLE_USER" ? "user" : "agent", parts: m.parts.map(part) });
const state = (s) => s.replace("TASK_STATE_", "").toLowerCase().replace("_", "-");
const status = (s) => ({ ...s, state: state(s.state), ...(s.message && { message: message(s.message) }) });
const artifact = (a) => ({ ...a, parts: a.parts.map(part) });

const over = ["completed", "failed", "canceled", "rejected", "input-required", "auth-required"];

// old translates an event of 1.0 into one of 0.3.
function old(event) {
  if (event.message) return message(event.message);
  if (event.artifactUpdate) return { ...event.artifactUpdate, kind: "artifact-update", artifact: artifact(event.artifactUpdate.artifact) };
  if (event.statusUpdate) {
    const s = status(event.statusUpdate.status);
    return { ...event.statusUpdate, kind: "status-update", status: s, final: over.includes(s.state) };
  }
  const t = event.task;
  if (t.kind === "task") return { ...t, status: status(t.status) }; // as it came from the SDK
  return { ...t, kind: "task", status: status(t.status), history: t.history.map((m) => message(m)), artifacts: t.artifacts?.map(artifact) };
}

// keep puts into the task what the SDK does not listen to any more.
async function keep(e) {
  const task = await store.load(e.taskId);
  if (e.kind === "artifact-update") task.artifacts = [...(task.artifacts ?? []), e.artifact];
  else task.status = e.status;
  await store.save(task);
}

const store = new InMemoryTaskStore();

const executor = {
  async execute(context, bus) {
    const m = context.userMessage;
    seen.messages.push(m);
    const parts = m.parts.map((p) => ({ text: p.text }));
    const task = { id: context.taskId, contextId: context.contextId, message: { ...m, role: "ROLE_USER", parts }, resumed: context.task };
    let heard = true;
    for await (const event of answer(task)) {
      const e = old(event);
      if (heard) bus.publish(e);
      else await keep(e);
      if (e.final) heard = false; // the SDK listens no longer
      await new Promise(setImmediate);
    }
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    seen.canceled.push(taskId);
    if (!wake(taskId, "canceled")) {
      bus.publish({ kind: "status-update", taskId, contextId: "", final: true, status: { state: "canceled" } });
      bus.finished();
    }
  },
};

const app = express();
control(app);
const url = await listen(app);
for (const [name, preferredTransport, handler] of [
  ["jsonrpc03", "JSONRPC", jsonRpcHandler],
  ["http03", "HTTP+JSON", restHandler],
]) {
  for (const streaming of [true, false]) {
    const path = `/${name}/${streaming ? "stream" : "unary"}`;
    const card = {
      name: "Billing",
      description: "Answers questions about charges.",
      version: "1.0.0",
      protocolVersion: "0.3.0",
      url: `${url}${path}`,
      preferredTransport,
      capabilities: { streaming, pushNotifications: false },
      defaultInputModes: ["text"],
      defaultOutputModes: ["text"],
      skills: [{ id: "charges", name: "Charges", description: "Explains charges.", tags: ["billing"] }],
    };
    const requestHandler = new DefaultRequestHandler(card, store, executor);
    app.use(`${path}/.well-known/agent-card.json`, agentCardHandler({ agentCardProvider: requestHandler }));
    app.use(path, handler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
  }
}
ready({ url });
