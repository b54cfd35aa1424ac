import assert from "node:assert/strict";
import test from "node:test";
import { branch, collapse, dag, edit, empty, expand, hypergraph, hypergraphOf, messages, noResult, reduce, summarize, switchTo, thread, tip } from "../dist/index.js";

const run = (id, parentId, words) => [
  { type: "harness_start", runId: id, parentId, agentId: "helper" },
  { type: "text", runId: id, id: `${id}-t`, content: words },
  { type: "harness_end", runId: id, agentId: "helper" },
];
const graph = [{ type: "user", runId: "u", content: "Hello" }, ...run("one", "u:user", "First"), ...run("two", "u:user", "Second")].reduce(reduce, empty);
const said = (g, active) => messages(g, active).map((message) => message.content);

test("the newest branch is shown, unless another one is chosen", () => {
  assert.deepEqual(said(graph), ["Hello", "Second"]);
  assert.deepEqual(thread(graph)[1].alternatives, ["one:harness_start", "two:harness_start"]);
  const first = switchTo(graph, {}, "one-t");
  assert.deepEqual(said(graph, first), ["Hello", "First"]);
  assert.deepEqual(said(graph, JSON.parse(JSON.stringify(first))), ["Hello", "First"], "a path travels as JSON");
  assert.equal(tip(graph, first), "one:harness_end");
  assert.equal(tip(graph, branch(graph, first, "u:user")), "u:user");
  assert.deepEqual(said(graph), ["Hello", "Second"]);
});

test("a message can be edited", () => {
  const edited = edit(graph, {}, "u:user", "u2", "Good evening");
  assert.deepEqual(said(edited.graph, edited.active), ["Good evening"]);
  assert.deepEqual(said(edited.graph, switchTo(edited.graph, edited.active, "two-t")), ["Hello", "Second"]);
  assert.equal(graph.node("u2:user"), undefined);
  assert.throws(() => edit(graph, {}, "one-t", "u2", "x"), RangeError);
  assert.throws(() => edit(graph, {}, "u:user", "two", "x"), RangeError);
  assert.throws(() => switchTo(graph, {}, "nothing"), RangeError);
});

test("runs can be folded and summarized", () => {
  const g = reduce(graph, { type: "tool_call", runId: "two", id: "c", name: "look" });
  assert.deepEqual(said(g), ["Hello", "Second", noResult]);
  const folded = Object.freeze(collapse(g, {}, "c"));
  assert.deepEqual(said(g, folded), ["Hello", "Second"]);
  const short = summarize(g, folded, "two-t", "They met.");
  assert.deepEqual(said(g, short), ["They met."]);
  assert.equal(thread(g, short)[0].role, "summary");
  assert.deepEqual(expand(g, short, "c"), {});
});

test("a drawing has boxes in columns and layers, with labels cut by letters", () => {
  const g = reduce(graph, { type: "text", runId: "two", id: "long", content: "😀".repeat(29) });
  const { nodes, edges } = dag(g);
  assert.deepEqual(nodes.map(({ id, x, y }) => [id, x, y]), [["u:user", 0, 0], ["two:harness_start", 0, 70], ["two-t", 0, 140], ["two:harness_end", 0, 210], ["long", 0, 280]]);
  assert.deepEqual(nodes[1], { id: "two:harness_start", label: "helper", kind: "harness_start", x: 0, y: 70, width: 200, height: 40 });
  assert.equal(nodes[4].label, "😀".repeat(27) + "…");
  assert.deepEqual(edges[0], { from: "u:user", to: "two:harness_start" });
  assert.deepEqual(dag(empty), { nodes: [], edges: [] });
});

test("three tiers", () => {
  const all = hypergraph(graph);
  assert.deepEqual(all.messages, ["message:u", "message:one", "message:two"]);
  assert.deepEqual(all.edges.at(-1), { kind: "parent_message", from: ["message:two"], to: "message:u" });
  const handedOver = [...run("one", "u:user", "First"), ...run("next", "one:harness_end", "Then")].reduce(reduce, graph);
  assert.deepEqual(hypergraph(handedOver).edges.find(({ from }) => from.includes("block:next")), { kind: "block_to_message", from: ["block:one", "block:next"], to: "message:one" });
  assert.deepEqual(thread(handedOver, switchTo(handedOver, {}, "next-t")).map((v) => v.messageId), ["message:u", "message:one", "message:one"]);
  assert.deepEqual(hypergraphOf(graph, switchTo(graph, {}, "one-t")).messages, ["message:u", "message:one"]);
  assert.deepEqual(hypergraphOf(graph, collapse(graph, {}, "two-t")).blocks, ["block:u", "block:two"]);
});
