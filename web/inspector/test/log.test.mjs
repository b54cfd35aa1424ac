import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { load, random } from "./bundle.mjs";
import { turns } from "./time.mjs";

const { Log, Course, Sifted, parseSift, waterfall, boxesOf, nothing, step, empty, reduce } = await load("state/log.ts", "state/course.ts", "state/sift.ts", "state/waterfall.ts", "state/boxes.ts", "state/session.ts", "../../conversation/src/index.ts");

/** The moment at the end of some events, taken in one by one from the beginning. */
function fromBeginning(events) {
  let [graph, facts] = [empty, nothing];
  for (const e of events) [graph, facts] = [reduce(graph, e), step(facts, e)];
  return { graph, facts };
}

const same = (moment, events, what) => {
  const want = fromBeginning(events);
  assert.deepEqual(moment.facts, want.facts, what);
  assert.equal(JSON.stringify(moment.graph), JSON.stringify(want.graph), what);
};

/** Events in the order in which a client gets them: words come as deltas first, of several runs at once. */
function withDeltas(events, next) {
  const out = [];
  for (const [i, e] of events.entries()) {
    for (const later of events.slice(i, i + 6)) {
      if (later.type !== "text" || next() < 0.5) continue;
      const { seq: _, time: __, content, ...rest } = later;
      out.push({ ...rest, content: content.slice(0, 5), partial: true });
    }
    out.push(e);
  }
  return out;
}

test("the past is what follows from stored events alone, also while words are streamed", () => {
  for (let seed = 1; seed <= 8; seed++) {
    const next = random(seed);
    const events = turns(400);
    const log = new Log();
    const all = withDeltas(events, next);
    for (let i = 0; i < all.length; ) {
      const n = 1 + Math.floor(next() * 40);
      log.add(all.slice(i, i + n));
      i += n;
    }
    assert.equal(log.end.seq, 400);
    for (const at of [1, 63, 64, 65, 127, 128, 200, 319, 320, 321, 399, ...Array.from({ length: 10 }, () => 1 + Math.floor(next() * 399))]) {
      same(log.at(at), events.slice(0, at), `seed ${seed}, position ${at}`);
    }
  }
});

test("deltas are shown at the end until they are settled, and events that are known are left out", () => {
  const log = new Log();
  const text = turns(40).find((e) => e.type === "text");
  const before = turns(40).slice(0, text.seq - 1);
  log.add(before);
  const { seq: _, time: __, ...rest } = text;
  log.add([{ ...rest, content: "wo", partial: true }, { ...rest, content: "rd", partial: true }]);
  assert.equal(log.end.graph.node(text.id).content, "word");
  assert.equal(log.at(text.seq - 2).graph.node(text.id), undefined);
  assert.equal(log.deltas.length, 2);
  log.add([...before.slice(-3), text]);
  assert.equal(log.end.graph.node(text.id).content, text.content);
  assert.equal(log.deltas.length, 0);
  assert.equal(log.events.length, text.seq);
  same(log.end, log.events, "the end");
});

test("deltas of a run that another process takes over are void", () => {
  const log = new Log();
  const text = turns(40).find((e) => e.type === "text");
  log.add(turns(40).slice(0, text.seq - 1));
  const { seq: _, time, ...rest } = text;
  log.add([{ ...rest, content: "half a w", partial: true }]);
  log.add([{ ...rest, id: "n", type: "notice", code: "taken_over", content: undefined, seq: text.seq, time }]);
  assert.equal(log.deltas.length, 0);
  assert.equal(log.end.graph.node(text.id), undefined);
  log.add([{ ...rest, id: "another", content: "anew", partial: true }]);
  assert.equal(log.end.graph.node("another").content, "anew");
});

test("a gap is said, and nothing behind it is taken in", () => {
  const log = new Log();
  const events = turns(20);
  log.add(events.slice(0, 5));
  assert.throws(() => log.add([events[5], events[7]]), /Event 8 came, and 7 was expected/);
  assert.equal(log.end.seq, 6);
  log.add(events.slice(6));
  same(log.end, events, "after the gap was filled");
});

test("events that the reader does not see leave their places free, and what is asked about a hidden call is asked", () => {
  for (let seed = 1; seed <= 8; seed++) {
    const next = random(seed);
    const seen = turns(400).filter((e) => e.type === "user" || next() < 0.8);
    const log = new Log(1, true);
    for (let i = 0; i < seen.length; ) {
      const n = 1 + Math.floor(next() * 40);
      log.add(seen.slice(i, i + n));
      i += n;
    }
    assert.equal(log.end.seq, seen.at(-1).seq);
    for (const e of seen) assert.deepEqual(log.event(e.seq), e);
    for (const at of [1, 64, 65, 128, 200, 321, 399]) {
      const [graph, want] = [log.at(at).graph, fromBeginning(seen.filter((e) => e.seq <= at)).graph];
      assert.equal(JSON.stringify(graph), JSON.stringify(want), `seed ${seed}, position ${at}`);
    }
    assert.equal(new Sifted(log, "").grow().seqs.length, seen.length);
  }
  const log = new Log(1, true);
  const of = { turnId: "t", runId: "r", agent: "a" };
  log.add([
    { ...of, seq: 1, type: "user", content: "pay" },
    { ...of, seq: 2, type: "harness_start", agentId: "a" },
    { ...of, seq: 4, id: "q", type: "relay", kind: "permission", toolCallId: "c", tool: "pay", params: {} },
    { ...of, seq: 5, type: "harness_end", agentId: "a", finishReason: "input_required" },
  ]);
  assert.deepEqual([log.end.facts.turn, log.end.facts.questions.map((q) => q.callId)], ["waiting", ["c"]]);
  log.add([{ ...of, seq: 6, type: "relay_resolved", relayId: "q", approved: true }]);
  assert.equal(log.end.facts.questions.length, 0);
});

test("a log of 10,000 events takes at most 60 MB of heap", () => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const lines = turns(10_000).map((e) => JSON.stringify(e));
  gc();
  const before = process.memoryUsage().heapUsed;
  const log = new Log();
  log.add(lines.map((l) => JSON.parse(l)));
  log.at(5000);
  gc();
  const used = process.memoryUsage().heapUsed - before;
  assert.equal(log.end.seq, 10_000);
  console.log(`# heap of 10,000 events: ${(used / 1e6).toFixed(1)} MB`);
  assert.ok(used < 60e6, `${used} bytes`);
});

test("the course of a log: turns, pauses, checkpoints", () => {
  const log = new Log();
  const events = turns(400);
  log.add(events.slice(0, 100));
  const course = new Course(log).grow();
  log.add(events.slice(100));
  course.grow();
  assert.deepEqual(course.turns, events.filter((e) => e.type === "user").map((e) => e.seq));
  assert.deepEqual(course.pauses.map((p) => events[p.after].type), course.pauses.map(() => "user"));
  assert.ok(course.pauses.length > 0);
  // Event 4 is the second of a write of 3 and 4; the positions around it are 2 and 4.
  assert.equal(course.beside(1, 1), 2);
  assert.equal(course.beside(2, 1), 4);
  assert.equal(course.beside(4, -1), 2);
  assert.equal(course.turn(course.turns[2], -1), course.turns[1]);
  assert.equal(course.turn(course.turns[2], 1), course.turns[3]);
  assert.equal(course.turn(400, 1), 400);
});

test("a filter asks for any type, any agent and all words, and looks at each event once", () => {
  assert.deepEqual(parseSift('type:transfer,relay agent:billing text:"charged twice" "a b" refund'), { types: ["transfer", "relay"], agents: ["billing"], texts: ["charged twice", "a b", "refund"] });
  const log = new Log();
  const events = turns(300);
  const sifted = new Sifted(log, "type:transfer agent:support");
  for (let i = 0; i < 300; i += 7) {
    log.add(events.slice(i, i + 7));
    sifted.grow();
  }
  const want = events.filter((e) => e.type === "transfer" && e.agent === "support").map((e) => e.seq);
  assert.ok(want.length > 3);
  assert.deepEqual(sifted.seqs, want);
  assert.deepEqual(new Sifted(log, "zzz").grow().seqs, []);
  assert.equal(new Sifted(log, 'text:"question 3"').grow().seqs.length, 1);
});

test("a turn's runs: bars are log times, inner runs hang deeper, transfers are linked, waiting is folded", () => {
  const turn = turns(40).slice(0, 20).filter((e) => e.turnId === "t1");
  const w = waterfall(turn);
  assert.deepEqual(w.lanes.map((l) => [l.agent, l.depth]), [["support", 0], ["billing", 0], ["tech", 1]]);
  assert.deepEqual(w.hops.map((h) => [h.from, h.to]), [[0, 1]]);
  assert.deepEqual(w.lanes[1].bars.map((b) => [b.kind, b.name, b.to - b.from]), [["answer", "answer", 1200], ["call", "ask", 702], ["answer", "answer", 1500]]);
  assert.deepEqual(w.folds, []);

  const base = { turnId: "t", runId: "r", agent: "a" };
  const at = (s, e) => ({ ...base, ...e, time: new Date(Date.parse("2026-03-01T10:00:00Z") + s * 1000).toISOString() });
  const asks = [
    at(0, { type: "user", content: "x" }),
    at(0, { type: "harness_start", agentId: "a" }),
    at(2, { type: "tool_call", id: "c", name: "refund", input: {} }),
    at(3, { type: "relay", id: "q", kind: "permission", toolCallId: "c", tool: "refund", params: {} }),
    at(3, { type: "harness_end", agentId: "a", finishReason: "input_required" }),
    at(183, { type: "relay_resolved", relayId: "q", approved: true }),
    at(183, { ...base, runId: "r2", type: "harness_start", agentId: "a" }),
    at(184, { runId: "r2", type: "tool_result", id: "c", name: "refund", output: "ok" }),
  ].map((e, i) => ({ ...e, seq: i + 1 }));
  const paused = waterfall(asks);
  assert.equal(paused.lanes.length, 1);
  assert.deepEqual(paused.lanes[0].bars.map((b) => [b.kind, b.to - b.from, b.open]), [["answer", 2000, false], ["call", 1000, false], ["wait", 180_000, false], ["call", 1000, false]]);
  assert.deepEqual(paused.folds.map((f) => f.to - f.from), [180_000]);
});

test("boxes: a box a turn, a run or a node, an inner run beside, no two boxes in one place, in every zoom", () => {
  const { graph } = fromBeginning(turns(600));
  for (const zoom of ["messages", "blocks", "chunks"]) {
    const { boxes, columns, lanes } = boxesOf(graph, zoom, {});
    if (zoom === "messages") assert.equal(boxes.length, 2 * [...graph.nodes()].filter((n) => n.kind === "user").length);
    if (zoom === "blocks") assert.equal(boxes.length, [...graph.runs()].length);
    if (zoom === "chunks") assert.equal(boxes.length, graph.size);
    assert.equal(new Set(boxes.map((b) => `${b.column} ${b.layer}`)).size, boxes.length, zoom);
    for (const b of boxes) if (b.parent >= 0) assert.ok(boxes[b.parent].layer < b.layer, zoom);
    assert.ok(boxes.every((b) => b.onPath));
    assert.ok(Math.max(...boxes.map((b) => b.column)) <= 2, zoom);
    for (const b of boxes) if (b.column === 0) assert.equal(lanes[b.lane], b.agent, zoom);
    assert.ok(boxes.every((b) => b.lane < columns[b.column]), zoom);
    assert.equal(boxes.some((b) => b.calls > 0), zoom !== "chunks", zoom);
  }
  const [, answer] = boxesOf(graph, "messages", {}).boxes;
  assert.deepEqual([...answer.runs], ["h1", "a1", "i1"]);
  assert.equal(answer.agent, "billing", "the agent whose words it shows");
  assert.ok(answer.label.startsWith("answer "), answer.label);
});

test("boxes: the agents without a lane of their own share the last one", () => {
  const events = [{ type: "user", runId: "u", turnId: "t", content: "hi" }];
  for (let i = 0; i < 12; i++) {
    const run = { runId: `r${i}`, turnId: "t", agent: `a${i}` };
    events.push({ ...run, type: "harness_start", agentId: `a${i}`, parentId: i === 0 ? "u:user" : `r${i - 1}:harness_end` }, { ...run, type: "harness_end", agentId: `a${i}` });
  }
  const { boxes, columns, lanes } = boxesOf(fromBeginning(events).graph, "blocks", {});
  assert.deepEqual([columns, lanes], [[8], ["", "a0", "a1", "a2", "a3", "a4", "a5", "a6"]]);
  assert.deepEqual(boxes.map((b) => b.lane), [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7]);
});

test("what relatives have besides stands beside the path of the session", () => {
  const own = turns(40);
  const shared = own.find((e) => e.type === "user" && e.seq > 1);
  const { graph } = fromBeginning(own);
  const more = reduce(reduce(graph, { type: "user", runId: "z", turnId: "z", parentId: shared.parentId, content: "else" }), { type: "harness_start", runId: "za", turnId: "z", parentId: "z:user", agent: "support", agentId: "support" });
  const { boxes } = boxesOf(more, "messages", {}, graph);
  assert.deepEqual(boxes.filter((b) => !b.onPath).map((b) => b.id), ["message:z", "message:za"]);
  const [z, za, next] = ["z", "za", shared.runId].map((id) => boxes.find((b) => b.id === `message:${id}`));
  assert.equal(next.column, 0);
  assert.equal(z.layer, next.layer);
  assert.ok(z.column > 0);
  assert.equal(z.column, za.column);
});

test("words that came one by one stay if the stored event has only their beginning", () => {
  const run = { runId: "r", turnId: "t" };
  const said = { ...run, type: "text", id: "x" };
  const stored = { ...said, seq: 2, content: { clipped: "Grüße ", bytes: 15, href: "/x" } };
  for (const [deltas, want, clipped] of [
    [["Grüße ", "an alle"], "Grüße an alle", false],
    [["an alle"], "Grüße ", true],
    [[], "Grüße ", true],
  ]) {
    const log = new Log();
    log.add([{ ...run, type: "harness_start", seq: 1, agent: "a" }]);
    log.add(deltas.map((content) => ({ ...said, content, partial: true })));
    log.add([stored]);
    assert.equal(log.end.graph.text("r"), want);
    assert.equal(log.clips.has(2), clipped);
  }
});
