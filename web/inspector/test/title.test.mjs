// Titles are shown without marks of Markdown, and never hide a character.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { named } = await load("ui/title.ts");

test("marks of Markdown are left out", () => {
  for (const [title, want] of [
    ["## Why is **invoice 7** so high?", "Why is invoice 7 so high?"],
    ["> see [the contract](https://example.com/a) and ![a scan](b.png)", "see the contract and a scan"],
    ["run `make test` in ``a`b``", "run make test in a`b"],
    ["***all*** of *this* is ~~not~~ so", "all of this is not so"],
  ])
    assert.equal(named(title, "s1"), want);
});

test("what only looks like a mark stays", () => {
  for (const title of ["2 * 3 * 4 and 2**3**4", "call __init__ of snake_case_names", "#1 is late", "a[1](2", "**cut off at the en…", "-5 °C"])
    assert.equal(named(title, "s1"), title);
});

test("a session without a title is called by its id, and hidden characters are seen", () => {
  assert.equal(named("", "s1"), "s1");
  assert.equal(named(undefined, "s1"), "s1");
  assert.equal(named("a\u202eb", "s1"), "a⟨U+202E⟩b");
});
