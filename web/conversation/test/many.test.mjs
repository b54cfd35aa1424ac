import assert from "node:assert/strict";
import test from "node:test";
import { empty, reduce, reduceJSON, reduceMany, stringify, thread } from "../dist/index.js";
import { fresh } from "./fresh.mjs";
import { random } from "./random.mjs";

const ids = ["a", "b", "c", "r", "s", "r:a", "s:a:result", "r:user", "r:usage:1", "s:error:2", "q:harness_start", "__proto__", "7"];
const types = ["user", "harness_start", "harness_end", "text", "text", "text", "text", "reasoning", "tool_call", "tool_call", "tool_result", "relay",
  "relay_resolved", "usage", "error", "discard", "new"];

// Events with few ids, often several deltas of one text behind each other, halves of
// characters among them.
function* events(n, count) {
  const pick = (list) => list[n(list.length)];
  let e = {};
  for (let i = 0; i < count; i++) {
    if (e.partial && n(3) > 0) {
      e = { ...e, content: pick(["", "x", "yz", "\ud83d", "\ude00", "\u00e9"]) };
      if (n(10) === 0) e = { ...e, more: pick([null, 1, {}, undefined]) };
    } else {
      e = { type: pick(types), runId: pick(["r", "s", "q", "__proto__", ""]), content: pick(["", "x", "\ud83d", "\ude00", 7]), input: Object.freeze({ deep: 1 }) };
      if (n(5) > 0) e.id = pick(ids);
      if (n(2) > 0) e.parentId = pick(ids);
      if (n(2) > 0) e.partial = true;
      if (n(4) === 0) e.seq = 1 + n(12);
      if (e.type === "discard") e.ids = Object.freeze([pick(ids), pick(ids)]);
      if (e.type === "relay_resolved") Object.assign(e, { relayId: pick(ids), approved: n(2) > 0 });
    }
    yield Object.freeze(e);
  }
}

test("many events at once make the graph that they make one by one, and no old one changes", () => {
  for (let seed = 0; seed < 2000; seed++) {
    const n = random(seed);
    let one = n(4) > 0 ? empty : reduceJSON(empty, '{"type":"text","runId":"r","id":"a","partial":true,"content":"\\u00e9"}');
    let many = one;
    const past = [];
    for (let i = n(6); i >= 0; i--) {
      past.push([many, stringify(many), JSON.stringify(many), one]);
      const list = [...events(n, n(30))];
      if (n(4) === 0) {
        [one, many] = [list.reduce(reduce, one), list.reduce(reduce, many)];
        continue;
      }
      const before = many;
      one = list.reduce(reduce, one);
      many = reduceMany(many, list);
      assert.equal(stringify(many), stringify(one), `seed ${seed}`);
      assert.equal(JSON.stringify(many), JSON.stringify(one), `seed ${seed}`);
      assert.deepEqual(many.flat(), one.flat(), `seed ${seed}`);
      assert.equal(many === before, one === past.at(-1)[3], `seed ${seed}: the graph itself, if nothing has changed`);
      assert.equal(JSON.stringify(thread(many)), JSON.stringify(fresh(one)), `seed ${seed}`);
    }
    for (const [graph, text, json] of past) {
      assert.equal(stringify(graph), text);
      assert.equal(JSON.stringify(graph), json);
    }
  }
});

test("an event that cannot be read leaves the graph as it was", () => {
  const graph = reduce(empty, { type: "text", id: "a", runId: "r", content: "x" });
  assert.throws(() => reduceMany(graph, [{ type: "text", id: "a", runId: "r", content: "y" }, null]), TypeError);
  assert.equal(graph.text("r"), "x");
  assert.equal(reduceMany(graph, [{ type: "text", id: "a", runId: "r", content: "y" }]).text("r"), "xy");
});
