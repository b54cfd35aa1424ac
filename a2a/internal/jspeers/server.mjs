// An agent of A2A 1.0, served by the JavaScript SDK: over JSON-RPC, HTTP+JSON and
// gRPC, and over JSON-RPC of 0.3 by the SDK's own compatibility. Every binding has a
// card of its own that names it alone, /{binding}/{stream|unary}/…, so that a test
// chooses the binding by the card.

import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { AgentCard, Message, StreamResponse, Task } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";
import { A2AService, grpcService } from "@a2a-js/sdk/server/grpc";
import { answer, seen, wake } from "./words.mjs";
import { control, listen, ready } from "./serving.mjs";

const noUser = UserBuilder.noAuthentication;

const executor = {
  async execute(context, bus) {
    const message = Message.toJSON(context.userMessage);
    seen.messages.push(message);
    seen.extensions.push(context.context.requestedExtensions ?? []);
    const task = { id: context.taskId, contextId: context.contextId, message, resumed: context.task && Task.toJSON(context.task) };
    for await (const event of answer(task)) {
      const { payload } = StreamResponse.fromJSON(event);
      bus.publish(AgentEvent[payload.$case](payload.value));
      await new Promise(setImmediate); // else everything goes out at once
    }
  },
  async cancelTask(taskId, bus) {
    seen.canceled.push(taskId);
    if (!wake(taskId, "canceled")) {
      bus.publish(AgentEvent.statusUpdate(StreamResponse.fromJSON({ statusUpdate: { taskId, status: { state: "TASK_STATE_CANCELED" } } }).payload.value));
      bus.finished();
    }
  },
};

const app = express();
control(app);
const url = await listen(app);
const store = new InMemoryTaskStore();

const bindings = [
  ["jsonrpc", "JSONRPC", "1.0"],
  ["http", "HTTP+JSON", "1.0"],
  ["grpc", "GRPC", "1.0"],
  ["compat", "JSONRPC", "0.3"],
  ["guarded", "JSONRPC", "1.0"],
];
const grpc = {};
for (const streaming of [true, false]) {
  const kind = streaming ? "stream" : "unary";
  for (const [name, protocolBinding, protocolVersion] of bindings) {
    const path = `/${name}/${kind}`;
    const handler = () => new DefaultRequestHandler(card, store, executor);
    const card = AgentCard.fromJSON({
      name: "Billing",
      description: "Answers questions about charges.",
      version: "1.0.0",
      capabilities: { streaming, pushNotifications: false, extendedAgentCard: false },
      defaultInputModes: ["text/plain"],
      defaultOutputModes: ["text/plain"],
      skills: [{ id: "charges", name: "Charges", description: "Explains charges.", tags: ["billing"] }],
      supportedInterfaces: [],
    });
    const legacyCompat = { enabled: protocolVersion === "0.3" };
    let at = `${url}${path}`;
    if (name === "grpc") {
      const g = new Server();
      g.addService(A2AService, grpcService({ requestHandler: handler(), userBuilder: noUser }));
      const port = await new Promise((resolve, reject) =>
        g.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (err, port) => (err ? reject(err) : resolve(port))),
      );
      at = grpc[kind] = `127.0.0.1:${port}`;
    }
    card.supportedInterfaces.push({ url: at, protocolBinding, protocolVersion, tenant: "" });
    if (name === "guarded") { // its card is for everybody
      app.post(path, (req, res, next) => (req.headers.authorization === "Bearer open-sesame" ? next() : res.sendStatus(401)));
    }
    app.use(`${path}/.well-known/agent-card.json`, agentCardHandler({ agentCardProvider: async () => card, legacyCompat }));
    if (protocolBinding === "JSONRPC") {
      app.use(path, jsonRpcHandler({ requestHandler: handler(), userBuilder: noUser, legacyCompat }));
    } else if (protocolBinding === "HTTP+JSON") {
      app.use(path, restHandler({ requestHandler: handler(), userBuilder: noUser }));
    }
  }
}
ready({ url });
