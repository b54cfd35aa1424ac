// Clients of AG-UI in one process. Each line of the input is a command, {id, op, page, ...}; each line of the output
// says what became of one, {id, ...}, or what a page that follows was sent meanwhile, {id, event}.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";
import { HttpAgent as EarlierAgent } from "ag-ui-0"; // from before version 1.0 of the protocol, as CopilotKit has it

let warnings = [];
for (const level of ["warn", "error"]) {
  console[level] = (...args) => warnings.push(args.map(String).join(" "));
}

// Page is a client that can connect, which pages have to add: it is the same as a run, from another address.
class Page extends HttpAgent {
  connect(input) {
    this.connection = new HttpAgent({ url: this.url + "/connect" + (this.query ?? ""), headers: this.headers });
    return this.connection.run(input);
  }
}

const pages = new Map();

function pageOf(c) {
  let page = pages.get(c.page);
  if (!page) {
    page = new (c.earlier ? EarlierAgent : Page)({ url: c.url, threadId: c.thread, headers: c.headers ?? {} });
    pages.set(c.page, page);
  }
  return page;
}

const say = (reply) => process.stdout.write(JSON.stringify(reply) + "\n");

async function perform(c) {
  const page = pageOf(c);
  for (const message of c.say ?? []) page.messages.push(message);
  if (c.messages) page.messages = c.messages;
  if (c.state) page.state = c.state;
  if (c.forget) page.pendingInterrupts = []; // the client's own check of answers
  if (c.op === "leave") {
    page.abortRun();
    page.connection?.abortRun();
    return say({ id: c.id });
  }
  const events = [];
  const seen = { onEvent: ({ event }) => { events.push(event); if (c.live) say({ id: c.id, event }); } };
  const input = { runId: c.run, tools: c.tools, context: c.context, forwardedProps: c.forwardedProps, resume: c.resume };
  let error, status;
  try {
    page.query = c.query;
    if (c.op === "connect") await page.connectAgent(input, seen);
    else await page.runAgent(input, seen);
  } catch (e) {
    [error, status] = [String(e.message ?? e), e.status];
  }
  const warned = warnings;
  warnings = [];
  say({ id: c.id, done: true, events, error, status, warnings: warned, messages: page.messages, state: page.state, interrupts: page.pendingInterrupts });
}

for await (const line of createInterface({ input: process.stdin })) void perform(JSON.parse(line));
