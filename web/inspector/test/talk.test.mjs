// The rows of a conversation, where relatives part, and how texts are drawn.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { Log, rowsAt, foldRows, callsOf, measure, rowAt, partings, visible, callText, oneLine, checkpointAt, emptyAnswer } = await load(
  "state/log.ts",
  "state/talk.ts",
  "state/family.ts",
  "state/checkpoint.ts",
  "ui/visible.ts",
  "panes/fields.tsx",
);

const at = (second) => `2026-01-01T00:00:0${second}Z`;

/** A turn with a transfer, and with a call that a person is asked about. */
function story() {
  const all = [
    { type: "user", runId: "u1", turnId: "t1", agent: "user", time: at(0), content: "I was charged twice" },
    { type: "harness_start", runId: "a", parentId: "u1:user", agent: "support", agentId: "support", time: at(0) },
    { type: "tool_call", id: "c1", runId: "a", agent: "support", name: "transfer_to_billing", input: { reason: "charged" }, time: at(1) },
    { type: "usage", runId: "a", agent: "support", inputTokens: 10, outputTokens: 2, time: at(1) },
    { type: "tool_result", id: "c1", runId: "a", agent: "support", name: "transfer_to_billing", output: "ok", time: at(1) },
    { type: "transfer", runId: "a", agent: "support", from: "support", to: "billing", reason: "charged", outcome: "committed", toolCallId: "c1", time: at(1) },
    { type: "harness_end", runId: "a", agent: "support", agentId: "support", finishReason: "transfer", time: at(1) },
    { type: "harness_start", runId: "b", parentId: "a:harness_end", agent: "billing", agentId: "billing", time: at(2) },
    { type: "text", id: "x1", runId: "b", agent: "billing", content: "Let me look.", time: at(4) },
    { type: "tool_call", id: "c2", runId: "b", agent: "billing", name: "refund", input: { charge: "ch_1" }, time: at(4) },
    { type: "usage", runId: "b", agent: "billing", inputTokens: 20, outputTokens: 5, time: at(4) },
    { type: "relay", id: "r1", runId: "b", agent: "billing", kind: "permission", toolCallId: "c2", tool: "refund", params: { charge: "ch_1" }, time: at(5) },
    { type: "harness_end", runId: "b", agent: "billing", agentId: "billing", finishReason: "input_required", time: at(5) },
    { type: "relay_resolved", runId: "b2", turnId: "t1", relayId: "r1", approved: false, reason: "too much", by: "ann", time: at(6) },
    { type: "notice", runId: "b2", agent: "billing", code: "forked", message: "It goes on.", time: at(6) },
    { type: "harness_start", runId: "b2", parentId: "b:harness_end", agent: "billing", agentId: "billing", time: at(6) },
    { type: "tool_result", id: "c2", runId: "b", agent: "billing", name: "refund", output: "denied", isError: true, time: at(7) },
    { type: "text", id: "x2", runId: "b2", agent: "billing", content: "I did not.", time: at(9) },
    { type: "harness_end", runId: "b2", agent: "billing", agentId: "billing", finishReason: "stop", time: at(9) },
  ].map((e, i) => ({ seq: i + 1, turnId: "t1", ...e }));
  const log = new Log();
  log.add(all);
  return { log, all };
}

const told = (rows) =>
  rows.map((r) => (r.kind === "said" ? `${r.view.agent ?? "user"}: ${r.view.text ?? ""}` : r.kind === "question" ? `${r.open ? "open" : (r.resolved?.by ?? "withdrawn")}` : r.event.type));

test("transfers, questions and notices stand between messages, in the order of the log", () => {
  const { log } = story();
  const rows = rowsAt(log, log.end);
  assert.deepEqual(told(rows), ["user: I was charged twice", "transfer", "billing: Let me look.", "ann", "notice", "billing: I did not."]);
  const keys = rows.map((r) => r.key);
  assert.equal(new Set(keys).size, keys.length);
  assert.equal(rowAt(rows, 12), 3);
  assert.equal(rowAt(rows, 0), -1);
});

test("a moment has what was there, and what is open there", () => {
  const { log } = story();
  assert.deepEqual(told(rowsAt(log, log.at(13))), ["user: I was charged twice", "transfer", "billing: Let me look.", "open"]);
  assert.deepEqual(told(rowsAt(log, log.at(16))).slice(-2), ["notice", "billing: "]); // the next agent has not said anything yet
  // Before the transfer is stored, its call is shown.
  const rows = rowsAt(log, log.at(4));
  assert.deepEqual(told(rows), ["user: I was charged twice", "support: "]);
  assert.deepEqual(callsOf(log, log.at(4), rows[1].view).map((c) => c.name), ["transfer_to_billing"]);
});

test("a folded block is one row, and what is asked or leads to another agent stays", () => {
  const { log, all } = story();
  const rows = rowsAt(log, log.end);
  assert.equal(foldRows(rows, new Set()), rows);
  assert.deepEqual(told(foldRows(rows, new Set(["b"]))), ["user: I was charged twice", "transfer", "billing: Let me look.", "notice", "billing: I did not."]);
  assert.deepEqual(told(foldRows(rowsAt(log, log.at(13)), new Set(["b"]))), ["user: I was charged twice", "transfer", "billing: Let me look.", "open"]);
  // A block of several rows, with its own notice between them and a transfer after them.
  const more = [
    { type: "user", runId: "u2", parentId: "b2:harness_end", agent: "user", content: "Thanks" },
    { type: "harness_start", runId: "c", parentId: "u2:user", agent: "billing", agentId: "billing" },
    { type: "tool_call", id: "c3", runId: "c", agent: "billing", name: "look", input: {} },
    { type: "tool_result", id: "c3", runId: "c", agent: "billing", name: "look", output: "x" },
    { type: "notice", runId: "c", agent: "billing", code: "retried", message: "Again." },
    { type: "text", id: "x3", runId: "c", agent: "billing", content: "You are welcome." },
    { type: "transfer", runId: "c", agent: "billing", from: "billing", to: "support", outcome: "committed" },
    { type: "harness_end", runId: "c", agent: "billing", agentId: "billing" },
    { type: "harness_start", runId: "d", parentId: "c:harness_end", agent: "support", agentId: "support" },
    { type: "text", id: "x4", runId: "d", agent: "support", content: "Anything else?" },
  ].map((e, i) => ({ seq: all.length + i + 1, turnId: "t2", ...e }));
  log.add(more);
  const folded = foldRows(rowsAt(log, log.end), new Set(["c"])).slice(6);
  assert.deepEqual(told(folded), ["user: Thanks", "billing: ", "transfer", "support: Anything else?"]);
  assert.deepEqual(folded[1].folded.map((v) => v.text ?? v.toolCalls[0].name), ["look", "You are welcome."]);
});

test("rows that are made of those before are what is made anew, at any position and while words come", () => {
  const { all } = story();
  const more = (n) =>
    all.map((e) => ({
      ...e,
      seq: e.seq + n * all.length,
      runId: e.runId + n,
      ...(e.id && { id: e.id + n }),
      ...(e.toolCallId && { toolCallId: e.toolCallId + n }),
      ...(e.relayId && { relayId: e.relayId + n }),
      ...(e.parentId && { parentId: e.parentId.replace(":", `${n}:`) }),
      ...(e.type === "user" && n > 0 && { parentId: `b2${n - 1}:harness_end` }),
    }));
  const events = [0, 1, 2, 3].flatMap(more);
  const log = new Log();
  for (const e of events) {
    if (e.type === "text") {
      const { seq: _, time: __, content, ...rest } = e;
      for (const part of [content.slice(0, 3), content.slice(3)]) {
        log.add([{ ...rest, content: part, partial: true }]);
        const anew = new Log();
        anew.add(log.events);
        anew.add(log.deltas);
        assert.deepEqual(rowsAt(log, log.end), rowsAt(anew, anew.end), `before ${e.seq}`);
      }
    }
    log.add([e]);
    if (e.seq % 3 === 0) rowsAt(log, log.end);
  }
  const anew = (n) => {
    const other = new Log();
    other.add(events);
    return rowsAt(other, other.at(n));
  };
  for (let i = 1, n = 1; i < 200; i++, n = 1 + ((n * 7 + i) % events.length)) assert.deepEqual(rowsAt(log, log.at(n)), anew(n), `at ${n}`);
  const [before, after] = [rowsAt(log, log.at(60)), rowsAt(log, log.at(62))];
  assert.equal(after[0], before[0]);
});

test("keys stay as events are added", () => {
  const { log, all } = story();
  const keys = rowsAt(log, log.end).map((r) => r.key);
  for (let n = 1; n <= all.length; n++) {
    const now = rowsAt(log, log.at(n)).map((r) => r.key);
    assert.deepEqual(now.slice(0, -1), n < 6 ? ["u1#0"].slice(0, now.length - 1) : keys.slice(0, now.length - 1), `at ${n}`);
  }
});

test("an answer took the time between the write before it and its own", () => {
  const { log } = story();
  const row = rowsAt(log, log.end)[2];
  assert.deepEqual(measure(log.end.graph, row.view, row.next), { ms: 2000, tokens: 25, words: [9], thoughts: [] });
});

test("a router's decision and the transfer that it makes are one row", () => {
  const log = new Log();
  log.add([
    { type: "user", seq: 1, runId: "u", content: "Hi", time: at(0) },
    { type: "route", seq: 2, runId: "f", from: "front", to: "returns", ruleIndex: 1, latencyMs: 0.03, time: at(1) },
    { type: "transfer", seq: 3, runId: "f", from: "front", to: "returns", outcome: "committed", time: at(1) },
  ]);
  const rows = rowsAt(log, log.end).filter((r) => r.kind === "event");
  assert.equal(rows.length, 1);
  assert.equal(rows[0].event.type, "transfer");
  assert.equal(rows[0].route.ruleIndex, 1);
});

const session = (id, seq, parent) => ({ id, seq, created: `2026-01-01T00:00:${10 + Number(id.slice(1))}Z`, ...(parent && { parent }) });

test("relatives part where the first of them went another way", () => {
  const family = [
    session("s0", 20),
    session("s1", 12, { id: "s0", seq: 8 }),
    session("s2", 9, { id: "s0", seq: 4 }),
    session("s3", 15, { id: "s1", seq: 10 }), // went on from a fork
    session("s4", 8, { id: "s0", seq: 8 }), // has nothing of its own yet
  ];
  const of = (id) => partings(family, id).map((p) => [p.at, p.ways.map((s) => s.id).join(" "), p.own]);
  assert.deepEqual(of("s0"), [[4, "s0 s2", 0], [8, "s0 s1", 0]]);
  assert.deepEqual(of("s1"), [[4, "s1 s2", 0], [8, "s0 s1", 1], [10, "s1 s3", 0]]);
  assert.deepEqual(of("s2"), [[4, "s0 s2", 1]]);
  assert.deepEqual(partings(family, "unknown"), []);
});

test("a family whose first session is gone still parts", () => {
  const family = [session("s1", 12, { seq: 8 })];
  assert.deepEqual(partings(family, "s1"), []);
});

test("what nobody sees is written as its number", () => {
  assert.equal(visible("a\u202eb\u200bc\u0007d\r\ne\tf"), "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0007⟩d\ne\tf");
  assert.equal(visible("👩\u200d💻 नमस्ते"), "👩\u200d💻 नमस्ते");
  assert.equal(callText("f", { a: "x\u202e", n: 1 }), 'f(a="x⟨U+202E⟩", n=1)');
  assert.equal(oneLine("a\n  b"), "a b");
  assert.equal([...oneLine("long ".repeat(100))].length, 120);
});

test("a fork begins at the end of a write, or beside the user's words", () => {
  const { log } = story();
  assert.deepEqual([1, 2, 4, 6, 7, 10, 11, 19].map((n) => checkpointAt(log, n)), [1, 2, 2, 2, 7, 8, 11, 19]);
});

test("an answer begins as its schema says", () => {
  assert.equal(emptyAnswer(undefined), "");
  assert.equal(emptyAnswer({ type: "integer" }), undefined);
  assert.deepEqual(emptyAnswer({ type: "object", required: ["a"], properties: { a: { type: "string" }, b: { type: "string" }, c: { type: "boolean" }, d: { enum: [2, 3] } } }), { a: "", c: false, d: 2 });
});
