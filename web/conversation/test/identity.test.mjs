import assert from "node:assert/strict";
import test from "node:test";
import { branch, collapse, empty, expand, reduce, summarize, switchTo, thread } from "../dist/index.js";
import { fresh, parts } from "./fresh.mjs";
import { random } from "./random.mjs";

// Events of runs that follow each other, work inside of each other, are cut off and
// taken up, and come in any order. They are frozen.
function event(n) {
  const pick = (list) => list[n(list.length)];
  const runs = ["r", "s", "q", "p", "o"];
  const ids = ["a", "b", "c", "d", "e", "r:c", "r:a:result", "s:harness_end", "r:user", "q:harness_start", "r:harness_end", "s:error", "p:user"];
  const e = {
    type: pick(["user", "harness_start", "harness_end", "text", "text", "text", "text", "reasoning", "tool_call", "tool_call", "tool_result", "tool_result",
      "tool_progress", "relay", "relay_resolved", "usage", "error", "discard", "notice"]),
    runId: pick(runs), agent: pick(["x", "x", "y"]), content: pick(["", "x", "yz", "\ud83d", "\ude00"]), toolCallId: pick(ids), input: pick([1, "two"]), agentId: "z",
  };
  if (n(5) > 0) e.id = pick(ids);
  if (n(2) > 0) e.parentId = pick([...ids, ...runs]);
  if (n(2) > 0) e.partial = true;
  if (n(6) === 0) e.seq = 1 + n(20);
  if (e.type === "discard") e.ids = Object.freeze([pick(ids), pick(ids)]);
  if (e.type === "notice") e.code = "taken_over";
  if (e.type === "relay_resolved") Object.assign(e, { relayId: pick(ids), approved: n(2) > 0 });
  return Object.freeze(e);
}

function otherPath(n, graph, active) {
  const all = [...graph.nodes()];
  if (all.length === 0) return active;
  const { id } = all[n(all.length)];
  switch (n(6)) {
    case 0:
      return branch(graph, active, id);
    case 1:
      return collapse(graph, active, id);
    case 2:
      return summarize(graph, active, id, "In short.");
    case 3:
      return expand(graph, active, id);
    case 4:
      return {};
    default:
      return switchTo(graph, active, id);
  }
}

test("a thread is what a first call returns, and what says the same is the same object", () => {
  let same = 0;
  for (let seed = 0; seed < 1500; seed++) {
    const n = random(seed);
    let graph = empty;
    const past = []; // without the empty one: what begins anew there is another conversation
    let active = {};
    let options = {};
    let before = new Map();
    for (let i = 1 + n(60); i > 0; i--) {
      if (n(8) === 0 && past.length > 0) graph = past[n(past.length)];
      graph = reduce(graph, event(n));
      if (graph !== empty) past.push(graph);
      if (n(12) === 0) {
        active = otherPath(n, graph, active);
        options = { hideReasoning: n(3) === 0, collapseTools: n(3) === 0 };
        before = new Map();
      }
      if (n(4) === 0) continue; // several events before the next look
      const shown = thread(graph, active, options);
      assert.equal(JSON.stringify(shown), JSON.stringify(fresh(graph, active, options)), `seed ${seed}`);
      assert.equal(thread(graph, structuredClone(active), { ...options }), shown);
      const all = [[`all ${JSON.stringify(shown)}`, shown], ...parts(shown)];
      const now = new Map(all);
      // A path can lead to what is inside of a run, which is there twice then.
      const ids = all.map(([said, { id }]) => said.slice(0, 4) + id);
      if (new Set(ids).size < ids.length) now.clear();
      for (const [said, part] of now) {
        assert(Object.isFrozen(part));
        if (!before.has(said)) continue;
        assert(part === before.get(said), `seed ${seed}: another object: ${said}`);
        same++;
      }
      before = now;
    }
  }
  assert(same > 40_000, `${same}`);
});

const say = (i, content, more) => ({ type: "text", id: `t${i}`, runId: `a${i}`, content, ...more });
const turns = (from, to) => Array.from({ length: to - from }, (_, k) => from + k).flatMap((i) => [
  { type: "user", runId: `u${i}`, parentId: i > 0 ? `a${i - 1}:harness_end` : "", content: "What now?" },
  { type: "harness_start", runId: `a${i}`, parentId: `u${i}:user`, agentId: "a" },
  { type: "tool_call", id: `c${i}`, runId: `a${i}`, name: "look", input: {} },
  { type: "tool_result", id: `c${i}`, runId: `a${i}`, name: "look", output: "x" },
  say(i, "A lamp."),
  { type: "harness_end", runId: `a${i}`, agentId: "a" },
]);

test("a delta makes one message anew, wherever it is", () => {
  let graph = turns(0, 50).reduce(reduce, empty);
  graph = reduce(graph, { type: "harness_start", runId: "inner", parentId: "c20", agentId: "b" });
  graph = reduce(graph, { type: "harness_start", runId: "deep", parentId: "inner:harness_start", agentId: "c" });
  let before = thread(graph);
  const grow = (e) => {
    graph = reduce(graph, e);
    const now = thread(graph);
    const other = now.flatMap((node, i) => (node === before[i] ? [] : [i]));
    before = now;
    return other;
  };
  const delta = { type: "text", id: "t", content: "x", partial: true };
  grow({ ...delta, runId: "last", parentId: "a49:harness_end" });
  assert.deepEqual(grow({ ...delta, runId: "last" }), [150]);
  const before61 = before[61];
  grow({ ...delta, id: "d", runId: "deep" });
  assert.deepEqual(grow({ ...delta, id: "d", runId: "deep" }), [61], "inside of a call of the 20th turn");
  assert.equal(before[61].toolCalls[0].branches[0][0].branches[0][0].text, "xx");
  assert.equal(before61.toolCalls[0].branches[0][0].branches[0][0].text, undefined, "the old one stays");
  assert.deepEqual(grow({ type: "usage", runId: "last", inputTokens: 1 }), [], "nothing that is shown has changed");
});

// As in the test of reduce: forty times the events may not take ten times as long.
test("a delta costs the same in a short and in a long conversation", () => {
  const least = (graph, i) => {
    let best = Infinity;
    for (let k = 0; k < 400; k++) {
      graph = reduce(graph, { type: "text", id: "t", runId: "last", parentId: `a${i}:harness_end`, content: "x", partial: true });
      const start = performance.now();
      thread(graph);
      best = Math.min(best, performance.now() - start);
    }
    return best;
  };
  const short = turns(0, 40).reduce(reduce, empty);
  least(short, 39); // until the code is compiled
  const long = turns(0, 1600).reduce(reduce, empty);
  const [a, b] = [least(short, 39), least(long, 1599)];
  assert(b < 10 * a && b < 0.5, `${a} ms, then ${b} ms`);
});

test("nothing is kept of graphs that are gone", { skip: typeof globalThis.gc !== "function" && "node --expose-gc" }, async () => {
  const gone = (() => {
    const graph = turns(0, 10).reduce(reduce, empty);
    return new WeakRef(thread(graph)[0]);
  })();
  await new Promise((resolve) => setImmediate(resolve)); // a WeakRef holds its object as long as the job that made it
  globalThis.gc();
  assert.equal(gone.deref(), undefined);
});
