// What the browser stores is there after a reload, and the page works in a browser that stores nothing.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { load, pretend } from "./bundle.mjs";

const refuses = {
  configurable: true,
  get: () => {
    throw new DOMException("Storage is blocked.", "SecurityError");
  },
};

test("a stored text is there until it is removed", async () => {
  pretend();
  const { store, stored } = await load("stored.ts");
  assert.equal(stored("a"), null);
  store("a", "");
  assert.equal(stored("a"), "");
  store("a", null);
  assert.equal(stored("a"), null);
});

test("the page loads and remembers its choices until it is left where the browser stores nothing", async () => {
  globalThis.document = { documentElement: { dataset: {} } };
  Object.defineProperty(globalThis, "localStorage", refuses);
  try {
    const page = await load("language.ts", "ui/theme.ts", "ui/keys.ts", "ui/width.ts", "state/kept.ts", "net/api.ts");
    page.setScheme("dark");
    page.setLetters(false);
    page.setWidth("tree", 30);
    page.signInKey.set("key");
    const list = page.kept("list");
    list.keep("a");
    assert.deepEqual([page.chosen, page.scheme.value, page.letters.value, page.widths.value.tree, list.all.value], ["", "dark", false, 30, ["a"]]);
  } finally {
    delete globalThis.document;
    pretend();
  }
});

test("no other module asks the browser's stores", () => {
  const src = new URL("../src/", import.meta.url);
  const asks = readdirSync(src, { recursive: true }).filter((f) => /\.tsx?$/.test(f) && /\b(local|session)Storage[.[]/.test(readFileSync(new URL(f, src), "utf8")));
  assert.deepEqual(asks, []);
});
