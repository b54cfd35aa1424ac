import assert from "node:assert/strict";
import test from "node:test";
import { empty, reduce, stringify } from "../dist/index.js";
import { random } from "./random.mjs";

const ids = ["a", "b", "c", "d", "r", "s", "r:a", "s:a:result", "r:user", "r:usage:1", "s:error:2", "q:harness_start", "__proto__", "7"];
const types = ["user", "harness_start", "harness_end", "text", "text", "text", "reasoning", "tool_call", "tool_call", "tool_result", "tool_progress",
  "relay", "relay_resolved", "usage", "error", "discard", "discard", "transfer", "new"];

// An event with few ids, so that everything meets everything. It is frozen: a
// reducer that writes to it fails.
function event(n) {
  const pick = (list) => list[n(list.length)];
  const e = { type: pick(types), runId: pick(["r", "s", "q", "p", "a", "__proto__"]), content: pick(["", "x", "yz", "\ud83d", "\ude00"]), input: Object.freeze({ deep: 1 }) };
  if (n(5) > 0) e.id = pick(ids);
  if (n(2) > 0) e.parentId = pick(ids);
  if (n(2) > 0) e.partial = true;
  if (n(4) === 0) e.seq = 1 + n(9);
  if (e.type === "discard") e.ids = Object.freeze([pick(ids), pick(ids)]);
  if (e.type === "relay_resolved") Object.assign(e, { relayId: pick(ids), approved: n(2) > 0 });
  return Object.freeze(e);
}

// What holds for every graph: parents and children agree, nobody has two parents,
// there is no circle, and runs are chains.
function checkSound(g) {
  const seen = new Set();
  for (const node of g.topological()) {
    assert(!seen.has(node.id), `${node.id} is visited twice`);
    for (const parent of g.parents(node.id)) assert(seen.has(parent.id), `${node.id} comes before its parent`);
    seen.add(node.id);
  }
  assert.equal(seen.size, g.size, "what is not reached from a root is in a circle");
  let edges = 0;
  for (const node of g.nodes()) {
    assert.equal(g.node(node.id), node);
    assert(Object.isFrozen(node));
    for (const child of g.children(node.id)) {
      assert.deepEqual(g.parents(child.id), [node]);
      edges++;
    }
    edges -= g.parents(node.id).length;
    const path = g.pathToRoot(node.id);
    assert.equal(path[0], node);
    assert.deepEqual(path.slice(1, 2), g.parents(node.id));
    assert.equal(g.parents(path.at(-1).id).length, 0);
  }
  assert.equal(edges, 0);
  let inRuns = 0;
  for (const runId of g.runs()) {
    const nodes = g.run(runId);
    inRuns += nodes.length;
    assert.equal(nodes.at(-1), g.last(runId));
    nodes.forEach((node, i) => {
      assert.equal(node.runId, runId);
      if (i > 0) assert.deepEqual(g.parents(node.id), [nodes[i - 1]]);
    });
    assert.equal(g.text(runId), nodes.filter((node) => node.kind === "text").map((node) => (node.content ?? "").replace(/\p{Surrogate}/gu, "\ufffd")).join(""));
    assert.deepEqual(g.toolCalls(runId), nodes.filter((node) => node.kind === "tool_call"));
  }
  assert.equal(inRuns, g.size);
}

test("old graphs never change, in whichever directions they grow", () => {
  for (let seed = 0; seed < 150; seed++) {
    const n = random(seed);
    let g = empty;
    const past = [{ g, json: stringify(g), flat: JSON.stringify(g) }];
    for (let i = 1 + n(60); i > 0; i--) {
      if (n(10) === 0) g = past[n(past.length)].g;
      const e = event(n);
      const next = reduce(g, e);
      assert.equal(stringify(next), stringify(reduce(g, e)), "the same event on the same graph");
      checkSound(next);
      g = next;
      past.push({ g, json: stringify(g), flat: JSON.stringify(g) });
    }
    for (const { g, json, flat } of past) {
      assert.equal(stringify(g), json);
      assert.equal(JSON.stringify(g), flat);
      checkSound(g);
    }
  }
  assert.equal(empty.size, 0);
});

test("a node that says the same is the same object in all graphs", () => {
  const before = reduce(empty, { type: "text", id: "a", runId: "r", content: "x" });
  const after = reduce(before, { type: "text", id: "b", runId: "r", content: "y" });
  assert.equal(after.node("a"), before.node("a"));
  const more = reduce(after, { type: "text", id: "b", runId: "r", content: "z" });
  assert.equal(more.node("a"), before.node("a"));
  assert.notEqual(more.node("b"), after.node("b"));
  assert.equal(after.node("b").content, "y");
});

test("an event that changes nothing returns the graph itself", () => {
  const g = reduce(empty, { type: "text", id: "a", runId: "r", content: "x", seq: 3 });
  for (const e of [
    { type: "connected", runId: "r" },
    { type: "__proto__", runId: "r" },
    { type: "text", id: "b", content: "no run" },
    { type: "text", id: "a", runId: "r", content: "x", seq: 3 },
    { type: "text", id: "a", runId: "r", content: "x", partial: true },
    { type: "relay_resolved", runId: "r", relayId: "nothing", approved: true },
    { type: "discard", runId: "r", ids: ["nothing"] },
    { type: "discard", runId: "nothing", ids: ["a"] },
    { type: 7, runId: "r" },
    {},
  ]) {
    assert.equal(reduce(g, e), g, JSON.stringify(e));
  }
});

// A cost that grows with the graph would show: 25 times the nodes may not take six times as
// long. Short and long take turns, and the least of many tries counts, because a machine has
// other things to do.
test("an event costs the same in a short and in a long conversation", () => {
  const turn = (i) => [
    { type: "user", runId: `u${i}`, parentId: i > 0 ? `a${i - 1}:harness_end` : "", content: "What now?" },
    { type: "harness_start", runId: `a${i}`, parentId: `u${i}:user`, agentId: "a" },
    { type: "text", id: `t${i}`, runId: `a${i}`, content: "Let me ", partial: true },
    { type: "text", id: `t${i}`, runId: `a${i}`, content: "look.", partial: true },
    { type: "tool_call", id: `c${i}`, runId: `a${i}`, name: "look", input: {} },
    { type: "tool_result", id: `c${i}`, runId: `a${i}`, name: "look", output: "x" },
    { type: "harness_end", runId: `a${i}`, agentId: "a" },
  ];
  const grow = (g, from, turns) => {
    const events = Array.from({ length: turns }, (_, k) => turn(from + k)).flat();
    const start = performance.now();
    const grown = events.reduce(reduce, g);
    return [performance.now() - start, grown];
  };
  grow(empty, 0, 2000); // until the code is compiled
  const [, history] = grow(empty, 0, 10_000);
  assert.equal(history.size, 10_000 * 6);
  let short = Infinity;
  let long = Infinity;
  for (let i = 0; i < 20; i++) {
    short = Math.min(short, grow(empty, 0, 400)[0]);
    long = Math.min(long, grow(history, 10_000, 400)[0]);
  }
  assert(long < 6 * short, `${short} ms, then ${long} ms`);
});
