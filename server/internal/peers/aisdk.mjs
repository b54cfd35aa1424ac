// Uses a served agent as a model of the AI SDK: two turns of a conversation, a tool, and an object of a schema, streamed
// and not. The input is {base, model}; the output has what the tool was given and what was said.
import { readFileSync } from "node:fs";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";

const c = JSON.parse(readFileSync(0, "utf8"));
const [server, token, agent] = [c.base, "secret", c.model];
const provider = createOpenAICompatible({ name: "arbor", baseURL: server, apiKey: token, supportsStructuredOutputs: true });
const model = provider.chatModel(agent);
const out = { said: [], typed: [], given: [] };
const tools = {
  show_map: tool({
    description: "Shows a map",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      out.given.push(city);
      return "a map of " + city;
    },
  }),
};
const schema = z.object({ city: z.string(), people: z.number() });

for (const stream of [false, true]) {
  const messages = [];
  for (const content of ["Show me the place", "Thank you"]) {
    messages.push({ role: "user", content });
    const ask = { model, messages, tools, stopWhen: stepCountIs(3), maxRetries: 0 };
    const result = stream ? streamText(ask) : await generateText(ask);
    if (stream) for await (const _ of result.textStream) continue;
    out.said.push(await result.text);
    messages.push(...(await result.response).messages);
  }
  const want = { model, schema, prompt: "Which city?", maxRetries: 0 };
  const typed = stream ? streamObject(want) : await generateObject(want);
  if (stream) for await (const _ of typed.partialObjectStream) continue;
  out.typed.push(await typed.object);
}
process.stdout.write(JSON.stringify(out));
