import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { load } from "./bundle.mjs";
import { turns } from "./time.mjs";

const { OpenSession, go, told, tokens, Log } = await load("state/open.ts", "state/route.ts", "state/app.ts", "state/session.ts", "state/log.ts");
globalThis.document ??= { hidden: true };
globalThis.requestAnimationFrame ??= (f) => setTimeout(f);
const later = globalThis.setTimeout;

/** A server of one session, of which each answer can be held back or made to fail. */
class Server {
  events = [];
  streams = new Set();
  fail = new Map();
  held = new Map();
  asked = [];

  async fetch(url, init = {}) {
    const at = new URL(url, "http://x");
    const name = at.pathname.split("/").slice(5).join("/") || "session";
    const stream = init.headers?.Accept === "text/event-stream";
    const what = stream ? "stream" : at.searchParams.has("after") && name === "events" ? "older" : at.searchParams.get("before") === "end" ? "newest" : at.searchParams.has("before") ? "back" : name;
    this.asked.push(what);
    await this.held.get(what);
    const status = this.fail.get(what);
    if (status !== undefined) return Response.json({ detail: `No ${what}.`, code: "no" }, { status });
    if (stream) return this.stream(Number(init.headers["Last-Event-ID"] ?? 0), init.signal);
    if (what === "newest") return Response.json({ events: this.events.slice(this.from ?? -60) });
    if (what === "back") {
      const before = Number(at.searchParams.get("before"));
      return Response.json({ events: this.events.slice(Math.max(0, before - 1 - 2000), before - 1) });
    }
    if (what === "older") {
      const after = Number(at.searchParams.get("after"));
      return Response.json({ events: this.events.slice(after, after + 100) });
    }
    if (name === "family") return Response.json({ sessions: [] });
    if (name === "checkpoints") return Response.json({ checkpoints: [{ seq: 1 }, { seq: 2 }] });
    return Response.json({ id: "s1", title: "x", state: "done", seq: this.events.length });
  }

  stream(after, signal) {
    const server = this;
    let out;
    const body = new ReadableStream({
      start(c) {
        out = { send: (text) => c.enqueue(new TextEncoder().encode(text)), cut: () => c.error(new Error("cut")) };
        server.streams.add(out);
        for (const e of server.events.slice(after)) out.send(`id: ${e.seq}\ndata: ${JSON.stringify(e)}\n\n`);
        signal?.addEventListener("abort", () => {
          server.streams.delete(out);
          try {
            c.error(new Error("aborted"));
          } catch {}
        });
      },
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  say(text) {
    for (const s of this.streams) s.send(text);
  }

  happen(...events) {
    this.events.push(...events);
    for (const e of events) this.say(`id: ${e.seq}\ndata: ${JSON.stringify(e)}\n\n`);
  }

  hold(what) {
    let go;
    this.held.set(what, new Promise((f) => (go = f)));
    return () => {
      this.held.delete(what);
      go();
    };
  }
}

/** Waits until something holds, without looking at a clock. */
async function until(holds, what) {
  for (let n = 0; n < 5000; n++) {
    if (holds()) return;
    await new Promise((f) => setImmediate(f));
  }
  assert.fail(`never: ${what}`);
}

let server, session;
const all = turns(700);
beforeEach(() => {
  server = new Server();
  server.events = all.slice(0, 500);
  globalThis.fetch = (url, init) => server.fetch(url, init);
  globalThis.setTimeout = (f, ms, ...more) => later(f, ms >= 200 && ms <= 30_000 ? 0 : ms, ...more);
  told.value = [];
  go({ screen: "session", id: "s1", middle: "talk" });
});
afterEach(() => {
  session?.close();
  globalThis.setTimeout = later;
});

const wholeLog = (n) => {
  const log = new Log();
  log.add(all.slice(0, n));
  return log;
};

test("the end is shown first, and the whole log takes its place while events go on to come", async () => {
  const goOn = server.hold("older");
  session = new OpenSession({ id: "s1" });
  await until(() => session.phase.value === "live" && server.streams.size === 1, "live");
  assert.equal(session.log.value.from, 441);
  assert.equal(session.loadingOlder.value, true);
  server.happen(...all.slice(500, 510));
  await until(() => session.log.value.end.seq === 510, "new events");
  goOn();
  for (let i = 510; i < 560; i++) {
    server.happen(all[i]);
    await new Promise((f) => setImmediate(f));
  }
  await until(() => session.log.value.whole && session.log.value.end.seq === 560, "whole");
  assert.deepEqual(session.log.value.end.facts, wholeLog(560).end.facts);
  assert.equal(JSON.stringify(session.log.value.end.graph), JSON.stringify(wholeLog(560).end.graph));
  assert.ok(tokens(session.moment.value.facts).all > 0);
  assert.equal(session.loadingOlder.value, false);
});

test("words that are streamed while the whole log takes its place stay", async () => {
  const goOn = server.hold("older");
  session = new OpenSession({ id: "s1" });
  await until(() => server.streams.size === 1, "live");
  const text = all.slice(500).find((e) => e.type === "text");
  server.happen(...all.slice(500, text.seq - 1));
  const { seq: _, time: __, ...rest } = text;
  server.say(`id: ${text.seq - 1}-1\ndata: ${JSON.stringify({ ...rest, content: "half", partial: true })}\n\n`);
  await until(() => session.log.value.end.graph.node(text.id)?.content === "half", "the words");
  goOn();
  await until(() => session.log.value.whole, "whole");
  assert.equal(session.log.value.end.graph.node(text.id)?.content, "half");
});

test("what fails in the background is told, and the live part goes on", async () => {
  server.fail.set("older", 500);
  server.fail.set("family", 500);
  session = new OpenSession({ id: "s1" });
  await until(() => told.value.length === 2, "two sentences");
  assert.match(told.value.map((t) => t.text).join(" "), /The events before 441 could not be loaded/);
  await until(() => server.streams.size === 1, "the stream");
  server.happen(all[500]);
  await until(() => session.log.value.end.seq === 501, "a new event");
  assert.equal(session.phase.value, "live");
  // Going there tries again.
  server.fail.clear();
  go({ screen: "session", id: "s1", middle: "talk", at: 7 });
  await until(() => session.moment.value.seq === 7, "position 7");
  assert.deepEqual(session.moment.value.facts, wholeLog(500).at(7).facts);
});

test("a position beyond the end shows the end and says so", async () => {
  go({ screen: "session", id: "s1", middle: "talk", at: 900 });
  session = new OpenSession({ id: "s1" });
  await until(() => session.log.value.whole && session.log.value.end.seq === 500, "whole");
  assert.equal(session.beyond.value, true);
  assert.equal(session.inPast.value, false);
  assert.equal(session.moment.value.seq, 500);
});

test("a lost connection is said, and the stream goes on behind the last event", async () => {
  session = new OpenSession({ id: "s1" });
  await until(() => server.streams.size === 1 && session.log.value.whole, "live");
  server.fail.set("stream", 503);
  const [stream] = server.streams;
  server.streams.clear();
  stream.cut();
  await until(() => session.phase.value === "lost", "lost");
  assert.ok(session.lostSince.value instanceof Date);
  server.events.push(...all.slice(500, 520));
  server.fail.clear();
  await until(() => session.phase.value === "live" && session.log.value.end.seq === 520, "live again");
  assert.equal(session.lostSince.value, undefined);
  assert.equal(session.log.value.events.length, 520);
});

for (const [reason, status] of [["deleted", 404], ["revoked", 401]]) {
  test(`a stream that ends as ${reason} ends the session with one sentence`, async () => {
    session = new OpenSession({ id: "s1" });
    await until(() => server.streams.size === 1, "live");
    server.say(`event: end\ndata: {"reason":"${reason}"}\n\n`);
    await until(() => session.phase.value === "failed", "failed");
    assert.equal(session.error.value.status, status);
    await until(() => server.streams.size === 0, "the connection is given back");
  });
}

test("a session that is not there fails with what the server says", async () => {
  server.fail.set("session", 404);
  session = new OpenSession({ id: "s1" });
  await until(() => session.phase.value === "failed", "failed");
  assert.equal(session.error.value.message, "No session.");
});

test("a stopping server ends nothing, and a new tree is counted", async () => {
  session = new OpenSession({ id: "s1" });
  await until(() => server.streams.size === 1, "live");
  server.say(`event: tree\ndata: {"revision":"r2"}\n\nevent: end\ndata: {"reason":"stopping"}\n\n`);
  await until(() => session.trees.value === 1, "the tree");
  assert.notEqual(session.phase.value, "failed");
});

test("a hidden page gives its connection back, and goes on where it was", async () => {
  session = new OpenSession({ id: "s1" });
  await until(() => server.streams.size === 1 && session.log.value.whole, "live");
  session.seen(false);
  await until(() => server.streams.size === 0, "disconnected");
  server.events.push(...all.slice(500, 530));
  session.seen(true);
  await until(() => session.log.value.end.seq === 530, "what was missed");
});

test("of a long log only what is needed is loaded", async () => {
  const long = all.map((e) => ({ ...e, seq: e.seq + 60_000 }));
  const first = Array.from({ length: 60_000 }, (_, i) => ({ type: i % 10 === 0 ? "user" : "text", id: `l${i}`, runId: `lr${i}`, turnId: "t", agent: "a", content: "x", time: "2026-01-01T00:00:00Z", seq: i + 1 }));
  server.events = [...first, ...long];
  session = new OpenSession({ id: "s1" });
  await until(() => session.checkpoints.value.length === 2 && session.phase.value === "live", "live");
  assert.ok(!server.asked.includes("older"));
  go({ screen: "session", id: "s1", middle: "talk", at: 58_000 });
  await until(() => session.moment.value.seq === 58_000, "there");
  const { from } = session.log.value;
  assert.ok(from <= 58_000 && from > 50_000, `from ${from}`);
});
