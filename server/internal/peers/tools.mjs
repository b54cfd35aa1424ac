// Runs functions of its own for a model, by the loop of the client that OpenAI wrote, not streamed and streamed. The
// input is {base, model, says}; the output says what the functions were given and what was said at the end.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const c = JSON.parse(readFileSync(0, "utf8"));
const client = new OpenAI({ baseURL: c.base, apiKey: "secret", maxRetries: 0 });
const given = [];
const said = [];
for (const stream of [false, true]) {
  const runner = client.chat.completions.runTools({
    model: c.model,
    stream,
    messages: [{ role: "user", content: c.says }],
    tools: [
      {
        type: "function",
        function: {
          name: "show_map",
          description: "Shows a map",
          parse: JSON.parse,
          parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false },
          strict: true,
          function: (args) => {
            given.push(args);
            return "a map of " + args.city;
          },
        },
      },
    ],
  });
  said.push(await runner.finalContent());

  // The same by the Responses API, with the items in the input.
  const input = [{ role: "user", content: c.says }];
  const tools = [{ type: "function", name: "show_map", description: "Shows a map", strict: true,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false } }];
  let response;
  for (let i = 0; i < 3; i++) {
    response = stream
      ? await client.responses.stream({ model: c.model, input, tools, store: false }).finalResponse()
      : await client.responses.create({ model: c.model, input, tools, store: false });
    const calls = response.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) break;
    input.push(...response.output);
    for (const call of calls) {
      const args = JSON.parse(call.arguments);
      given.push(args);
      input.push({ type: "function_call_output", call_id: call.call_id, output: "a map of " + args.city });
    }
  }
  said.push(response.output.at(-1).content[0].text); // a stream has no output_text
}
process.stdout.write(JSON.stringify({ given, said }));
