// Lists that the browser keeps outlive a reload, and a broken one does no harm.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { kept } = await load("state/kept.ts");

test("a kept text is there after a reload, once, until it is forgotten", () => {
  const first = kept("texts");
  first.keep("a");
  first.keep("b");
  first.keep("a");
  assert.deepEqual(first.all.value, ["b", "a"]);
  const second = kept("texts");
  assert.deepEqual(second.all.value, ["b", "a"]);
  second.forget("b");
  assert.deepEqual(kept("texts").all.value, ["a"]);
});

test("what cannot be read counts as empty", () => {
  for (const [stored, want] of [["{", []], ["{}", []], ['["a", 1, null]', ["a"]]]) {
    localStorage.setItem("broken", stored);
    assert.deepEqual(kept("broken").all.value, want);
  }
});
