// The wire between the test and a client: the test writes calls on standard input, a
// line of JSON each, {id, op, to, params}, and reads lines {id, result}, {id, event},
// {id, done} and {id, error}. Calls run side by side. "abort" ends the call that it
// names, as a user does who walks away.

import readline from "node:readline";

export function serveCalls(ops) {
  console.log = console.debug = console.info = console.error; // the SDK logs to the wire otherwise
  const running = new Map();
  const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");
  const run = async ({ id, op, to, params }) => {
    const abort = new AbortController();
    running.set(id, abort);
    try {
      if (!ops[op]) throw new Error(`no such op: ${op}`);
      const result = await ops[op](to, params, abort.signal);
      if (typeof result?.[Symbol.asyncIterator] === "function") {
        for await (const event of result) write({ id, event });
        write({ id, done: true });
      } else {
        write({ id, result: result ?? null });
      }
    } catch (e) {
      // An error that is an event of a stream comes wrapped in one without a name.
      const told = e.message?.startsWith("SSE event contained an error") && e.cause ? e.cause : e;
      const { name, message, reason, statusCode, envelopeCode, code } = told;
      write({ id, error: { name, message, reason, code: String(statusCode ?? envelopeCode ?? code ?? "") } });
    } finally {
      running.delete(id);
    }
  };
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const call = JSON.parse(line);
    if (call.op === "abort") running.get(call.params)?.abort();
    else run(call);
  }).on("close", () => process.exit(0));
}

// once keeps what make returns for each value of its argument.
export function once(make) {
  const made = new Map();
  return (arg) => {
    const key = JSON.stringify(arg);
    if (!made.has(key)) made.set(key, make(arg));
    return made.get(key);
  };
}

// plainFetch sends a request as it was written by hand.
export async function plainFetch(_, { url, method, headers, body }, signal) {
  const res = await fetch(url, { method, headers, body, signal, redirect: "manual" });
  return { status: res.status, headers: Object.fromEntries(res.headers), body: await res.text() };
}
