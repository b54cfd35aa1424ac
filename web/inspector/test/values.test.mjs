import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { entriesOf, versionsOf } = await load("state/values.ts");

test("each value has its scope and the event that wrote it last", () => {
  const write = (seq, delta, agent = "clerk") => ({ type: "state", seq, agent, delta });
  const values = { b: 2, "turn:a": 1, old: 0 };
  const writes = [write(3, { b: 1, "user:x": 1, "app:y": 1 }), write(7, { b: 2, "user:x": 2, "app:y": null }), write(9, { "turn:a": 1, gone: 1 }, "user")];
  assert.deepEqual(
    entriesOf(values, writes).map(({ key, value, scope, by }) => [key, value, scope, by?.seq, by?.agent]),
    [
      ["b", 2, "session", 7, "clerk"],
      ["old", 0, "session", undefined, undefined],
      ["turn:a", 1, "turn", 9, "user"],
      ["user:x", 2, "user", 7, "clerk"],
    ],
  );
});

test("files of one name are numbered, and only those up to the position are there", () => {
  const files = ["a", "b", "a", "a"].map((name, i) => ({ name, seq: 10 * (i + 1) }));
  const shown = (at) => versionsOf(files, at).map(({ file, version, of }) => `${file.seq} ${file.name} ${version}/${of}`);
  assert.deepEqual(shown(30), ["30 a 2/2", "20 b 1/1", "10 a 1/2"]);
  assert.deepEqual(shown(99), ["40 a 3/3", "30 a 2/3", "20 b 1/1", "10 a 1/3"]);
  assert.deepEqual(shown(9), []);
});
