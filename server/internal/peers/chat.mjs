// Has conversations by chat completions through the client that OpenAI wrote. Reads a JSON list of
// conversations {base, model, stream, says: [text], headers}, which send their whole history each time
// as chat windows do, and writes what came of each turn.
import OpenAI from "openai";
import { text } from "node:stream/consumers";

async function turn(client, c, messages, headers) {
  const body = { model: c.model, messages };
  if (!c.stream) {
    const { data, response } = await client.chat.completions.create(body, { headers }).withResponse();
    const choice = data.choices[0];
    return { content: choice.message.content, finish: choice.finish_reason, usage: data.usage.total_tokens, arbor: data.arbor, session: response.headers.get("arbor-session") };
  }
  const { data, response } = await client.chat.completions
    .create({ ...body, stream: true, stream_options: { include_usage: true } }, { headers }).withResponse();
  const out = { content: "", chunks: 0, session: response.headers.get("arbor-session") };
  try {
    for await (const chunk of data) {
      const choice = chunk.choices[0];
      if (choice?.delta.content) {
        out.content += choice.delta.content;
        out.chunks++;
      }
      if (choice?.finish_reason) {
        out.finish = choice.finish_reason;
        out.arbor = chunk.arbor;
      }
      if (chunk.usage) out.usage = chunk.usage.total_tokens;
    }
  } catch (e) {
    out.error = { status: 0, code: e.code, type: e.type, message: e.message };
  }
  return out;
}

async function conversation(c) {
  const client = new OpenAI({ apiKey: "secret", baseURL: c.base, maxRetries: c.retries ?? 0 });
  const messages = [{ role: "system", content: "Be a chat window." }];
  const turns = [];
  for (const said of c.says) {
    messages.push({ role: "user", content: said });
    let out;
    try {
      out = await turn(client, c, messages, c.headers);
    } catch (e) {
      out = { error: { status: e.status, code: e.code, type: e.type, message: e.message } };
    }
    if (out.content) messages.push({ role: "assistant", content: out.content });
    turns.push(out);
  }
  return turns;
}

const conversations = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(await Promise.all(conversations.map(conversation))));
