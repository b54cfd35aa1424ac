// Has conversations by the Responses API through the client that OpenAI wrote. Reads a JSON list of
// conversations {base, model, stream, says}, and writes what came of each turn. What is said is a text, or
// {approve} for what the response before asks, or {text, background, cancel}. Each stream is read again from
// each of its events.
import OpenAI from "openai";
import { text } from "node:stream/consumers";

// put together what a client has that was sent these events.
function assemble(events) {
  const items = new Map();
  let final;
  for (const e of events) {
    if (e.type === "response.output_text.delta") items.set(e.item_id, (items.get(e.item_id) ?? "") + e.delta);
    if (e.type === "response.output_item.done" && e.item.status === "incomplete") items.delete(e.item.id);
    if (e.type === "error") throw new Error(e.message);
    if (e.response) final = e.response;
  }
  return { final, texts: Object.fromEntries(items) };
}

function told(response, more) {
  const { id, status, output, usage, error, incomplete_details, previous_response_id, metadata, arbor } = response;
  const items = output.map((i) => ({ type: i.type, status: i.status, agent: i.agent, name: i.name, arguments: i.arguments, text: i.content?.map((c) => c.text).join("") }));
  return { id, status, items, usage: usage?.total_tokens, code: error?.code, reason: incomplete_details?.reason, previous: previous_response_id, metadata, arbor, ...more };
}

async function streamed(client, body) {
  const stream = client.responses.stream(body);
  const events = [];
  let snapshots = 0;
  stream.on("response.output_text.delta", () => snapshots++);
  for await (const event of stream) events.push(event);
  const { final, texts } = assemble(events);
  const words = (r) => JSON.stringify(r.output.map((i) => i.content?.map((p) => p.text)));
  if (final.status === "completed" && words(await stream.finalResponse()) !== words(final)) throw new Error("the final response has other words");
  for (let i = 0; i < events.length; i++) {
    const after = events[i].sequence_number;
    const rest = [];
    for await (const event of await client.responses.retrieve(final.id, { stream: true, starting_after: after })) rest.push(event);
    const again = assemble([...events.slice(0, i + 1), ...rest]);
    if (JSON.stringify(again) !== JSON.stringify({ final, texts })) throw new Error(`after ${after}: ${JSON.stringify(again)} is not ${JSON.stringify({ final, texts })}`);
  }
  const again = client.responses.stream({ response_id: final.id, starting_after: events[1].sequence_number });
  const plain = (output) => JSON.stringify(output, (key, value) => (key === "parsed" ? undefined : value)); // which the helper adds
  if (final.status === "completed" && plain((await again.finalResponse()).output) !== plain(final.output)) throw new Error("the helper has read something else");
  return told(final, { texts, snapshots, numbers: events.map((e) => e.sequence_number) });
}

async function turn(client, c, said, before) {
  const body = { model: c.model, previous_response_id: before?.id, metadata: { from: "a test" } };
  if (typeof said === "string") body.input = said;
  else if ("approve" in said) {
    const asked = (await client.responses.retrieve(before.id)).output.filter((i) => i.type === "mcp_approval_request");
    body.input = asked.map((i) => ({ type: "mcp_approval_response", approval_request_id: i.id, approve: said.approve, reason: said.reason }));
  } else {
    let response = await client.responses.create({ ...body, input: said.text, background: true });
    if (said.cancel) return told(await client.responses.cancel(response.id), { began: response.status });
    while (response.status === "in_progress" || response.status === "queued") response = await client.responses.retrieve(response.id);
    return told(response);
  }
  if (c.stream) return streamed(client, body);
  const response = await client.responses.create(body);
  const again = await client.responses.retrieve(response.id);
  if (JSON.stringify(again.output) !== JSON.stringify(response.output)) throw new Error("the response has changed");
  return told(response);
}

async function conversation(c) {
  const client = new OpenAI({ apiKey: "secret", baseURL: c.base, maxRetries: 0 });
  const turns = [];
  let before;
  for (const said of c.says) {
    try {
      turns.push((before = await turn(client, c, said, before)));
    } catch (e) {
      turns.push({ error: { status: e.status ?? 0, code: e.code ?? "", message: String(e.message) } });
    }
  }
  return turns;
}

const conversations = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(await Promise.all(conversations.map(conversation))));
