// A model of aimock's behind the Responses API of OpenAI: it thinks, calls a tool, and
// answers. What it was asked is there to look at.

import { LLMock } from "@copilotkit/aimock";
import { ready } from "./serving.mjs";

const mock = new LLMock({ port: 0 });
mock.onToolResult("call_look_1", { content: "There are two charges." });
mock.onMessage("charged", { content: "One moment.", toolCalls: [{ name: "look", arguments: '{"id":1}', id: "call_look_1" }], reasoning: "The user was charged." });
mock.onMessage("busy", { error: { message: "too many", type: "rate_limit_error", code: "rate_limit_exceeded" }, status: 429 });
mock.onMessage("hello", { content: "Hello to you." });
ready({ url: await mock.start() });
