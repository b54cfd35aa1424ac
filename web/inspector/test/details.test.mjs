// What the tabs of a session and the comparison of sessions are computed from.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load, random } from "./bundle.mjs";

const { Log, storyOf, committed, compare, clauses, alike, noteOf, sharedWords, offers, items, align, routeOf, Totals, line } = await load(
  "state/log.ts",
  "state/story.ts",
  "state/compare.ts",
  "state/align.ts",
  "ui/line.ts",
  "state/totals.ts",
);

/** Events with positions and times that are 1.5 ms apart. */
function logOf(...events) {
  const log = new Log();
  log.add(
    events.map((e, i) => ({
      id: `e${i + 1}`,
      turnId: "t1",
      ...e,
      seq: i + 1,
      time: new Date(1e12).toISOString().replace("000Z", `${String(i * 1500).padStart(6, "0")}Z`),
    })),
  );
  return log;
}

const a = { runId: "a", agent: "support" };
const b = { runId: "b", agent: "billing" };
const use = { type: "usage", inputTokens: 9, outputTokens: 1, model: "m" };
const call = (id, name = "transfer_to_agent") => ({ type: "tool_call", id, name, input: {} });
const transfer = (to, outcome = "committed", toolCallId = "c1") => ({ type: "transfer", from: "support", to, outcome, toolCallId });

const handedOver = () =>
  logOf(
    { type: "user", runId: "u", content: "charged twice" },
    { type: "harness_start", agentId: "support", ...a },
    { ...call("c1"), ...a },
    { ...use, ...a },
    { type: "tool_result", id: "c1", name: "transfer_to_agent", output: "ok", ...a },
    { ...transfer("billing"), ...a },
    { type: "harness_end", agentId: "support", finishReason: "transfer", ...a },
    { type: "harness_start", agentId: "billing", ...b },
    { type: "text", content: "Let me see.", ...b },
    { ...call("c2", "list"), ...b },
    { ...use, ...b },
    { type: "tool_result", id: "c2", name: "list", output: [], isError: true, ...b },
    { type: "text", content: "Nothing.", ...b },
    { ...use, ...b },
    { type: "harness_end", agentId: "billing", finishReason: "stop", ...b },
  );

test("answers begin where the model was asked, and end with their usage", () => {
  const { answers, calls } = storyOf(handedOver());
  assert.deepEqual(
    answers.map((x) => [x.agent, x.no, x.at, x.first, x.last]),
    [
      ["support", 1, 2, 3, 4],
      ["billing", 1, 8, 9, 11],
      ["billing", 2, 12, 13, 14],
    ],
  );
  assert.equal(answers[2].ms, 3, "from the result before it to its usage");
  assert.deepEqual(
    calls.map((c) => [c.name, c.seq, c.end, c.isError, c.ms]),
    [
      ["transfer_to_agent", 3, 5, false, 3],
      ["list", 10, 12, true, 3],
    ],
  );
});

test("each event leads to the answer and the transfer that it is about", () => {
  const story = storyOf(handedOver());
  const first = (seq) => story.answerOf(seq)?.first;
  assert.deepEqual([1, 2, 3, 5, 6, 8, 9, 12, 15].map(first), [3, 3, 3, 3, 3, 9, 9, 9, 13]);
  assert.deepEqual([3, 5, 6, 9].map((seq) => story.handOverOf(seq)?.seq), [6, 6, 6, undefined]);
  assert.deepEqual([8, 9, 15, 2].map((seq) => story.handOverTo(seq)?.seq), [6, 6, 6, undefined]);
  assert.equal(story.handOverBy(story.answers[0]).seq, 6);
  assert.equal(story.handOverBy(story.answers[1]), undefined);
  assert.equal(story.decisionAt(6).first, 3);
  assert.equal(story.words(14).content, "charged twice");
  assert.equal(story.place({ kind: "call", id: "c2" }), 10);
  assert.equal(story.place({ kind: "run", id: "b" }), 8);
  assert.equal(story.place({ kind: "ev", seq: 99 }), 0);
});

test("a route and its transfer are one transfer, and a refused one moves nothing", () => {
  const story = storyOf(
    logOf(
      { type: "harness_start", agentId: "front", runId: "f", agent: "front" },
      { type: "route", from: "front", to: "support", ruleIndex: 2, latencyMs: 0.1, graphPath: [], runId: "f", agent: "front" },
      { type: "transfer", from: "front", to: "support", outcome: "committed", runId: "f", agent: "front" },
      { type: "harness_start", agentId: "support", ...a },
      { ...call("c1"), ...a },
      { ...transfer("nobody", "rejected"), ...a },
    ),
  );
  assert.deepEqual(
    story.handOvers.map((h) => [h.seq, h.route?.seq, committed(h)]),
    [
      [3, 2, true],
      [6, undefined, false],
    ],
  );
  assert.equal(story.handOverOf(2).seq, 3);
});

test("a story that grows with its log is that of the whole log", () => {
  const whole = handedOver();
  const log = new Log();
  const story = storyOf(log);
  for (const e of whole.events) {
    log.add([e]);
    assert.equal(storyOf(log), story);
  }
  assert.deepEqual(story.answers, storyOf(whole).answers);
  assert.deepEqual(story.calls, storyOf(whole).calls);
});

const tool = (name, parameters = {}) => ({ type: "function", function: { name, parameters } });
const request = (system, words, tools = []) => ({
  model: "m",
  messages: [{ role: "system", content: system }, ...words.map((content) => ({ role: "user", content }))],
  tools,
  settings: {},
});

test("what is new in a request, and what is not in it any more", () => {
  const d = compare(request("s", ["a", "b", "c"], [tool("x"), tool("y", { n: 1 })]), request("s", ["a", "z"], [tool("y"), tool("w")]));
  assert.deepEqual([d.system, d.same, d.gone, [...d.newTools], [...d.changedTools], d.goneTools], ["same", 1, 1, ["x"], ["y"], ["w"]]);
  const one = request("s", ["a"]);
  assert.deepEqual(clauses(compare(one, structuredClone(one)), one), []);
  assert.equal(clauses(compare(request("t", ["a"]), one), one).length, 1);
  assert.ok(alike({ a: 1, b: [2] }, { b: [2], a: 1 }));
  assert.ok(!alike({ a: undefined }, { b: undefined }));
  assert.ok(!alike([], {}));
});

test("messages that stand for others say so", () => {
  const note = (content, role = "user") => noteOf({ role, content });
  assert.match(note("[Summary of the earlier part of this conversation]\nThey asked."), /compacted/);
  assert.match(note("[The earlier part of this conversation was left out.]"), /left out/);
  assert.match(note("[redacted]"), /redacted/);
  assert.match(note("[tech] called look({}) → much…"), /cut/);
  assert.equal(note("Hello"), "");
  assert.equal(note("[tech] says", "assistant"), "");
});

test("words that are shared, and targets that are offered", () => {
  assert.deepEqual(sharedWords("I was charged twice, TWICE, for my router", "Being charged twice, and invoices for you"), ["charged", "twice"]);
  const one = tool("transfer_to_agent", { properties: { agent_name: { enum: ["tech"] } } });
  assert.ok(offers(request("", [], [tool("transfer_to_billing")]), "billing"));
  assert.ok(offers(request("", [], [one]), "tech"));
  assert.ok(!offers(request("", [], [one]), "billing"));
});

test("sides are aligned by content, then by position, and nothing is lost", () => {
  const said = (words) => items(words.map((content, i) => ({ type: "text", agent: "a", seq: i + 1, content })));
  const signs = (x, y) => align(said(x), said(y)).map((r) => `${r.a?.text ?? ""}${r.sign}${r.b?.text ?? ""}`);
  assert.deepEqual(signs(["a", "b", "c"], ["x", "b"]), ["a≠x", "b=b", "c–"]);
  assert.deepEqual(signs([], ["x"]), ["–x"]);
  const next = random(7);
  for (let n = 0; n < 200; n++) {
    const side = () => Array.from({ length: Math.floor(next() * 9) }, () => "abc"[Math.floor(next() * 3)]);
    const [x, y] = [side(), side()];
    const rows = align(said(x), said(y));
    assert.deepEqual(rows.flatMap((r) => r.a?.text ?? []), x);
    assert.deepEqual(rows.flatMap((r) => r.b?.text ?? []), y);
    for (const r of rows) assert.equal(r.sign === "=", r.a !== undefined && r.b !== undefined && r.a.text === r.b.text, JSON.stringify([x, y]));
  }
});

test("a route names the agents that had the conversation, without inner ones", () => {
  const start = (agent, scope) => ({ type: "harness_start", agent, ...(scope && { scope }) });
  assert.deepEqual(routeOf([{ type: "user", agent: "user" }, { type: "tool_call", agent: "a" }, start("x", "call"), start("b"), start("b"), start("a")]), ["a", "b", "a"]);
  assert.deepEqual(routeOf([]), []);
});

test("a call stands with its result, and a transfer in the place of the call that asked for it", () => {
  const rows = items(handedOver().events);
  assert.deepEqual(
    rows.map((r) => [r.kind, r.text, r.more, r.failed]),
    [
      ["said", "charged twice", "", false],
      ["transfer", "support → billing", "", false],
      ["said", "Let me see.", "", false],
      ["call", "list()", "[]", true],
      ["said", "Nothing.", "", false],
    ],
  );
  const refused = { type: "transfer", from: "a", to: "b", reason: "no" };
  assert.deepEqual(
    ["rejected", "later"].flatMap((outcome) => [items([{ ...refused, outcome }])[0].text, line({ ...refused, outcome })]),
    ["a → b (was refused)", "a → b, was refused: no", "a → b (later)", "a → b, later: no"],
  );
  assert.equal(line({ type: "handoff_status", status: "connected", targetAgent: "Ann" }), "with a person (Ann)");
});

test("what a fork shares is counted once, and an unknown price makes a sum unknown", () => {
  const spent = (n, cost) => ({ answers: n, inputTokens: 10 * n, cachedTokens: n, readAnew: n, outputTokens: n, cost, readAnewCost: cost, seconds: n });
  const usage = (n, cost) => ({
    seq: n,
    turn: spent(0, 0),
    session: spent(n, cost),
    models: [{ agent: "a", model: "m", price: null, turn: spent(0, 0), session: { ...spent(n, cost), seconds: undefined } }],
    agents: [{ agent: "a", seconds: n }],
  });
  const session = (id) => ({ id, title: id, updated: "2026-03-01T12:00:00Z" });
  const one = new Totals().add(session("s"), usage(3, 3)).add(session("f"), usage(4, 4), usage(3, 3));
  assert.deepEqual([one.sessions, one.all.answers, one.all.cost, one.all.seconds], [2, 4, 4, 4]);
  assert.deepEqual(one.rows("session").map((r) => r.cost), [3, 1]);
  assert.deepEqual(one.rows("agent").map((r) => [r.name, r.inputTokens, r.seconds]), [["a", 40, 4]]);
  const more = one.add(session("x"), usage(1, null)).all;
  assert.deepEqual([more.cost, more.known], [null, 4]);
  assert.equal(one.add(session("y"), { ...usage(0, 0), models: [], agents: [] }).all.cost, 4, "what was not used costs nothing");
});
