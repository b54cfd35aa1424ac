// Has a conversation by the Conversations API through the client that OpenAI wrote. The input is {base, model}; the
// output has what it listed, and the status of what must fail.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const c = JSON.parse(readFileSync(0, "utf8"));
const [server, token] = [c.base, "secret"];
const client = new OpenAI({ baseURL: server, apiKey: token, maxRetries: 0 });
const line = (item) => `${item.role}: ${item.content[0].text}`;
const failed = async (call) => {
  try {
    await call();
  } catch (e) {
    return e.status;
  }
};
const all = async (pages) => {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
};

const made = await client.conversations.create({ metadata: { topic: "money" } });
const conversation = made.id;
const first = await client.responses.create({ model: c.model, conversation, input: "one" });
const second = await client.responses.create({ model: c.model, conversation: { id: conversation }, input: "two" });
const items = await all(client.conversations.items.list(conversation, { order: "asc", limit: 3 }));
const one = await client.conversations.items.retrieve(items[1].id, { conversation_id: conversation });
if (line(one) !== line(items[1])) throw new Error("the item is another");
const input = await all(client.responses.inputItems.list(second.id));
const history = [...items.slice(0, 2).map((i) => ({ type: "item_reference", id: i.id })), { role: "user", content: "two" }, { type: "item_reference", id: items[3].id }];
const again = await client.responses.create({ model: c.model, input: [...history, { role: "user", content: "three" }] });
await client.responses.delete(first.id);
const gone = [await failed(() => client.responses.retrieve(first.id))];
const grows = await failed(() => client.conversations.items.delete(items[0].id, { conversation_id: conversation }));
const unknown = await failed(() => client.responses.create({ model: c.model, input: [{ type: "item_reference", id: "msg_1" }] }));
await client.conversations.delete(conversation);
gone.push(await failed(() => client.conversations.retrieve(conversation)));
process.stdout.write(JSON.stringify({ metadata: made.metadata, items: items.map(line), input: input.map(line), again: again.output_text, gone, grows, unknown }));
