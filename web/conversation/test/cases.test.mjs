// The cases of Go's package conversation, of which there is one copy.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { empty, messages, reduce, reduceJSON, stringify, thread } from "../dist/index.js";
import { difference } from "./compare.mjs";

const folder = new URL("../../../conversation/testdata/cases/", import.meta.url);
const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
assert.notEqual(names.length, 0);

const threads = JSON.parse(readFileSync(new URL("../threads.json", folder), "utf8"));

for (const name of names) {
  const lines = readFileSync(new URL(name, folder), "utf8").split("\n").filter((line) => line.trim() !== "");
  const { flat } = JSON.parse(readFileSync(new URL(name.replace(".jsonl", ".expected.json"), folder), "utf8"));
  test(name, () => {
    const ofText = lines.reduce(reduceJSON, empty);
    const ofValues = lines.reduce((graph, line) => reduce(graph, JSON.parse(line)), empty);
    assert.equal(difference(flat, ofText.flat()), "");
    assert.equal(difference(flat, ofValues.flat()), "");
    assert.equal(difference(flat, JSON.parse(stringify(ofText))), "");
    assert.equal(difference(flat, JSON.parse(JSON.stringify(ofText))), "");
    assert.equal(difference(threads[name.replace(".jsonl", "")], thread(ofText)), "");
    const asked = messages(ofText);
    const results = asked.filter((message) => message.role === "tool").map((message) => message.tool_call_id);
    assert.deepEqual(results, asked.flatMap((message) => message.tool_calls ?? []).map((call) => call.id), "one result for each call");
  });
}
