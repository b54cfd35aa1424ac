// Runs agents of OpenAI's Agents SDK whose model is an agent behind the server, with tools, with a transfer between
// agents of the SDK, with an approval of a call of the server's, with an answer of a type, and with a history
// that the server keeps. Input and output are those of agents_sdk.py.
import { readFileSync } from "node:fs";
import { Agent, OpenAIChatCompletionsModel, OpenAIConversationsSession, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const c = JSON.parse(readFileSync(0, "utf8"));
const [server, token, agent] = [c.base, "secret", c.model];
setTracingDisabled(true);
const client = new OpenAI({ baseURL: server, apiKey: token, maxRetries: 0 });
const model = new OpenAIResponsesModel(client, agent);
const out = { said: [], transferred: [], typed: [], approved: [], given: [], asked: [], items: [], kept: [] };
const show_map = tool({
  name: "show_map",
  description: "Shows a map",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => {
    out.given.push(city);
    return "a map of " + city;
  },
});

const arbor_approve = tool({
  name: "arbor_approve",
  description: "Decides whether the server may run a tool",
  parameters: z.object({ tool: z.string(), params: z.string() }),
  execute: (call) => {
    out.asked.push([call.tool, JSON.parse(call.params)]);
    return { approved: JSON.parse(call.params).amount < 10, reason: "too much" };
  },
});

async function ask(starting, says, stream, more) {
  const result = await run(starting, says, { stream, ...more });
  if (stream) {
    for await (const _ of result) continue;
    await result.completed;
  }
  return result;
}

for (const m of [model, new OpenAIChatCompletionsModel(client, agent)]) {
  for (const stream of [false, true]) {
    const guide = new Agent({ name: "Guide", model: m, tools: [show_map] });
    const first = await ask(guide, "Show me the place", stream);
    const second = await ask(guide, [...first.history, { role: "user", content: "Thank you" }], stream);
    const twice = await ask(guide, "Show me two maps", stream);
    out.said.push(first.finalOutput, second.finalOutput, twice.finalOutput);
    for (const other of [m, new m.constructor(client, agent + "/maps")]) {
      const desk = new Agent({ name: "Desk", model: other, tools: [show_map] });
      const moved = await ask(Agent.create({ name: "Triage", model: m, handoffs: [desk] }), "Call the desk", stream);
      out.transferred.push([moved.lastAgent.name, moved.finalOutput]);
    }
    const till = new Agent({ name: "Till", model: m, tools: [arbor_approve] });
    for (const says of ["Refund 7", "Refund 70"]) out.approved.push((await ask(till, says, stream)).finalOutput);
    const typed = await ask(new Agent({ name: "Reader", model: m, outputType: z.object({ city: z.string(), people: z.number() }) }), "Which city?", stream);
    out.typed.push(typed.finalOutput);
  }
}
for (const stream of [false, true]) {
  const guide = new Agent({ name: "Guide", model, tools: [show_map] });
  const conversationId = (await client.conversations.create()).id;
  let last;
  for (const says of ["Show me the place", "Thank you"]) {
    out.said.push((await ask(guide, says, stream, { conversationId })).finalOutput);
    last = await ask(guide, says, stream, { previousResponseId: last?.lastResponseId });
    out.said.push(last.finalOutput);
  }
  let items = 0;
  for await (const _ of client.conversations.items.list(conversationId, { limit: 2 })) items++;
  out.items.push(items);
  const session = new OpenAIConversationsSession({ client });
  for (const says of ["Show me the place", "Thank you"]) out.kept.push((await ask(guide, says, stream, { session })).finalOutput);
  const undone = [await session.popItem(), await session.popItem()];
  out.kept.push(undone.map((item) => item.role));
  out.kept.push((await ask(guide, "Thank you", stream, { session })).finalOutput);
  out.kept.push((await session.getItems()).map((item) => item.role ?? item.type.replace("_result", "_output")));
  await session.clearSession();
}
process.stdout.write(JSON.stringify(out));
