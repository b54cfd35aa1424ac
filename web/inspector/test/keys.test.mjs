import assert from "node:assert/strict";
import { test } from "node:test";
import { load, pretend } from "./bundle.mjs";

pretend();
class HTMLElement extends EventTarget {
  isContentEditable = false;
  closest(selector) {
    return selector.split(",").includes(this.tagName?.toLowerCase()) ? this : null;
  }
}
globalThis.HTMLElement = HTMLElement;
globalThis.HTMLInputElement = class HTMLInputElement extends HTMLElement {
  tagName = "INPUT";
};
const { allKeys, best, fit, give, setLetters, shown } = await load("ui/keys.ts", "ui/match.ts");

/** Presses a key and returns whether a view took it. */
function press(key, more = {}) {
  const e = new Event("keydown", { cancelable: true });
  for (const [name, value] of Object.entries({ key, ...more })) Object.defineProperty(e, name, { value });
  window.dispatchEvent(e);
  return e.defaultPrevented;
}

test("the newest view has the first say, and leaves what does not apply to others", () => {
  const done = [];
  const below = give({ a: ["Old", () => void done.push("below")], b: ["B", () => void done.push("b")] });
  const above = give({ a: ["New", () => (done.length > 0 ? false : void done.push("above"))] });
  assert.deepEqual(allKeys(), [["a", "New"], ["b", "B"]]);
  assert.ok(press("a") && press("a") && press("b"));
  assert.deepEqual(done, ["above", "below", "b"]);
  above.take();
  below.take();
  assert.ok(!press("a"));
  assert.deepEqual(allKeys(), []);
});

test("nothing below a sheet has keys, and the list of keys is that of the page", () => {
  let approved = 0;
  const page = give({ a: ["Approve", () => void approved++] });
  const sheet = give({ Escape: ["Close", () => {}] }, true);
  assert.ok(!press("a"));
  assert.ok(press("Escape"));
  assert.deepEqual(allKeys(), [["a", "Approve"]]);
  sheet.take();
  assert.ok(press("a"));
  assert.equal(approved, 1);
  page.take();
});

test("single letters do nothing in fields and where they are switched off; other keys do", () => {
  const view = give({ a: ["A", () => {}], "mod+Enter": ["Send", () => {}], Escape: ["Back", () => {}], ArrowLeft: ["Before", () => {}], Space: ["Play", () => {}] });
  const field = Object.assign(new HTMLElement(), { tagName: "TEXTAREA" });
  const slider = Object.assign(new HTMLInputElement(), { type: "range" });
  const button = Object.assign(new HTMLElement(), { tagName: "BUTTON" });
  assert.ok(!press("a", { target: field }));
  assert.ok(press("Enter", { target: field, ctrlKey: true }));
  assert.ok(press("Enter", { target: field, metaKey: true }));
  assert.ok(press("Escape", { target: field }));
  assert.ok(press("a", { target: slider }));
  assert.ok(!press("ArrowLeft", { target: slider }), "a slider has its arrows for itself");
  assert.ok(press(" "));
  assert.ok(!press(" ", { target: button }), "a button has the space bar for itself");
  assert.ok(!press("a", { isComposing: true }));
  setLetters(false);
  assert.ok(!press("a"));
  assert.ok(press("ArrowLeft"));
  assert.ok(press("Escape"));
  setLetters(true);
  assert.ok(press("a"));
  view.take();
});

test("keys are shown as they stand on a keyboard", () => {
  assert.equal(shown("mod+k"), "Ctrl K");
  assert.equal(shown("shift+ArrowLeft"), "⇧ ←");
  assert.equal(shown("Escape"), "Esc");
  assert.equal(shown("F"), "F");
  assert.equal(shown("+"), "+");
});

test("what begins with the words comes first, and each word must be there", () => {
  const names = ["support billing", "billing", "rebilling", "b i l", "tech"];
  assert.deepEqual(best("bill", names, (n) => n), ["billing", "support billing", "rebilling"]);
  assert.deepEqual(best("sup bil", names, (n) => n), ["support billing"]);
  assert.deepEqual(best(" ", names, (n) => n), names);
  assert.ok(fit("blg", "billing") > 0);
  assert.equal(fit("xyz", "billing"), 0);
  assert.equal(fit("a", "tech"), 0);
});
