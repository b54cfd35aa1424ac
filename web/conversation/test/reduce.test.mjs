import assert from "node:assert/strict";
import test from "node:test";
import { empty, reduce, reduceJSON, stringify } from "../dist/index.js";

const fold = (...lines) => lines.reduce(reduceJSON, empty);
const nodes = (g) => JSON.parse(stringify(g)).nodes;

test("text keeps payloads as they were written", () => {
  const input = '{"b":12345678901234567890,"2":2.50,"1":[1e400],"é":"\\u00e9"}';
  const g = fold(`{"type":"tool_call","runId":"r","id":"c","name":"x","input": ${input.replaceAll(",", " , ")} }`);
  assert.equal(stringify(g), `{"nodes":[{"id":"c","runId":"r","kind":"tool_call","name":"x","input":${input}}],"edges":{},"lastNodeByRunId":{"r":"c"}}`);
  assert.deepEqual(Object.keys(g.node("c").input), ["1", "2", "b", "é"], "values are JavaScript's");
  assert.equal(g.node("c").input.b, 12345678901234567000);
});

test("null, empty and absent members stay so", () => {
  const g = fold('{"type":"tool_call","runId":"r","id":"c","input":null,"name":"","more":1}');
  assert.deepEqual(nodes(g), [{ id: "c", runId: "r", kind: "tool_call", name: "", input: null }]);
  assert.deepEqual(nodes(reduce(empty, { type: "tool_call", runId: "r", id: "c", input: undefined })), [{ id: "c", runId: "r", kind: "tool_call" }]);
});

test("halves of a surrogate pair meet", () => {
  for (const g of [
    fold('{"type":"text","runId":"r","id":"t","content":"\\ud83d"}', '{"type":"text","runId":"r","id":"t","content":"\\ude00"}'),
    ["\ud83d", "\ude00"].reduce((g, content) => reduce(g, { type: "text", runId: "r", id: "t", content }), empty),
  ]) {
    assert.equal(g.text("r"), "😀");
    assert.equal(g.node("t").content, "😀");
    assert.equal(nodes(g)[0].content, "😀");
  }
  const half = fold('{"type":"text","runId":"\\ud800","id":"\\udc00","content":"\\ud83d"}');
  assert.equal(half.text("\ufffd"), "\ufffd");
  assert.equal(nodes(half)[0].content, "\ud83d", "as received");
  assert.equal(half.node("\ufffd").runId, "\ufffd", "ids have none");
});

test("names that objects have anyway are no trouble", () => {
  const g = fold('{"type":"text","runId":"__proto__","id":"constructor","content":"x"}',
    '{"type":"text","runId":"7","id":"__proto__","parentId":"constructor","content":"y"}',
    '{"type":"tool_call","runId":"7","id":"5","name":"toString","input":{"__proto__":{"a":1}}}');
  const flat = g.flat();
  assert.deepEqual(Object.keys(flat.edges), ["constructor", "__proto__"]);
  assert.deepEqual(flat.edges["__proto__"], ["5"]);
  assert.equal(flat.lastNodeByRunId["__proto__"], "constructor");
  assert.equal(flat.edges["toString"], undefined);
  assert.equal(g.node("toString"), undefined);
  assert.match(JSON.stringify(g), /"input":\{"__proto__":\{"a":1\}\}/);
  assert.match(stringify(g), /"lastNodeByRunId":\{"__proto__":"constructor","7":"5"\}/, "in the order of the events");
});

test("a seq is a whole number, written as one", () => {
  for (const [seq, want] of [["3", 3], ["-3", -3], ["0", undefined], ["1e3", undefined], ["7.0", undefined], ['"3"', undefined], ["9007199254740993", undefined]]) {
    assert.equal(fold(`{"type":"text","runId":"r","id":"t","seq":${seq}}`).node("t").seq, want, seq);
  }
});

test("times are in UTC", () => {
  for (const [time, want] of [
    ["2026-01-02T03:04:05.120000001+02:00", "2026-01-02T01:04:05.120000001Z"],
    ["2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"],
    ["2026-02-29T00:00:00Z", undefined],
    ["0001-01-01T00:00:00Z", undefined],
    ["yesterday", undefined],
  ]) {
    assert.equal(reduce(empty, { type: "text", runId: "r", id: "t", time }).node("t").time, want, time);
  }
});

test("what is no JSON object is a SyntaxError", () => {
  for (const text of ["", "null", "[]", '{"type":', "{} {}", '"x"']) {
    assert.throws(() => reduceJSON(empty, text), SyntaxError, text);
  }
});

test("no circle", () => {
  // The second run hung on the first, until what it hung on was discarded.
  let g = fold('{"type":"text","id":"a","runId":"r","partial":true}', '{"type":"text","id":"b","runId":"s","partial":true,"parentId":"a"}',
    '{"type":"discard","runId":"r","ids":["a"]}', '{"type":"discard","runId":"s","ids":["b"]}', '{"type":"text","id":"c","runId":"s","parentId":"z"}',
    '{"type":"text","id":"d","runId":"q","parentId":"c"}', '{"type":"text","id":"z","runId":"q"}');
  assert.deepEqual(Array.from(g.topological(), (node) => node.id), ["c", "d", "z"]);
  // What would be a circle if the discarded node were still there is none.
  g = fold('{"type":"text","id":"a","runId":"r","partial":true,"parentId":"x"}', '{"type":"text","id":"b","runId":"s","parentId":"a"}',
    '{"type":"discard","runId":"r","ids":["a"]}', '{"type":"text","id":"c","runId":"r"}', '{"type":"text","id":"x","runId":"s"}');
  assert.deepEqual(g.pathToRoot("c").map((node) => node.id), ["c", "x", "b"]);
});

test("walk and children", () => {
  const g = fold('{"type":"tool_call","id":"k","runId":"r"}', '{"type":"text","id":"x","runId":"s","parentId":"k"}', '{"type":"tool_result","id":"k","runId":"r"}',
    '{"type":"text","id":"y","runId":"s"}');
  assert.deepEqual(g.children("k").map((node) => node.id), ["x", "k:result"]);
  assert.deepEqual(Array.from(g.walk("k"), (node) => node.id), ["k", "x", "y", "k:result"]);
  assert.deepEqual([...g.walk("nothing"), ...g.children("nothing"), ...g.parents("nothing"), ...g.run("nothing"), ...g.pathToRoot("nothing")], []);
  assert.equal(g.last("nothing"), undefined);
});

test("a block is streaming until it is complete", () => {
  let g = reduce(empty, { type: "text", id: "t", runId: "r", content: "a", partial: true });
  assert(g.isStreaming("t"));
  g = reduce(g, { type: "text", id: "t", runId: "r", content: "ab" });
  assert(!g.isStreaming("t"));
  assert.equal(g.text("r"), "ab");
});
