import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { lettersOf } = await load("state/letters.ts");
const of = (...names) => [...lettersOf(names).values()];

test("an agent has two letters", () => {
  assert.deepEqual(of("support", "tech-support", "analyzer1", "é", "🌳"), ["su", "ts", "a1", "é", "?"]);
});

test("agents that would have the same two have up to four", () => {
  assert.deepEqual(of("billing", "bills", "tech"), ["bill", "bill", "te"]);
  assert.deepEqual(of("account", "accept"), ["acco", "acce"]);
  assert.deepEqual(of("tech-sales", "tech-support"), ["tsa", "tsu"]);
  assert.deepEqual(of("agent1", "agent10", "agent11"), ["a1", "a10", "a11"]);
});

test("names that are the same have the same letters", () => {
  assert.deepEqual(of("billing", "billing"), ["bi"]);
});
