// A desk that knows Standard Webhooks and nothing of Arbor. It verifies what is posted to it,
// answers a request with the place in its queue, and answers each message with the same words in
// capitals, posted to the address that its first argument is. Its secret is the second.
import http from "node:http";
import { Webhook } from "standardwebhooks";

const [back, secret] = process.argv.slice(2);
const webhook = new Webhook(secret);

async function say(id, data) {
  const body = JSON.stringify({ type: "handoff.event", timestamp: new Date(), data });
  const at = new Date();
  const answer = await fetch(back, {
    method: "POST",
    body,
    headers: {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": Math.floor(at / 1000).toString(),
      "webhook-signature": webhook.sign(id, at, body),
    },
  });
  return answer.status;
}

const server = http.createServer(async (req, res) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  let heard;
  try {
    heard = webhook.verify(Buffer.concat(chunks).toString(), req.headers);
  } catch (e) {
    res.writeHead(401).end(String(e));
    return;
  }
  const { handoffId, session, message } = heard.data;
  let answer = "";
  if (heard.type === "handoff.requested") {
    answer = JSON.stringify({ status: "queued", queuePosition: 3, estimatedWaitTime: 90 });
  } else if (heard.type === "handoff.message") {
    const id = "re-" + message.id;
    const status = await say(id, { id, handoffId, session, status: "connected", text: message.text.toUpperCase() });
    if (status !== 204) {
      res.writeHead(400).end();
      return;
    }
  }
  res.writeHead(200).end(answer);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
process.stdin.on("end", () => process.exit(0)).resume();
