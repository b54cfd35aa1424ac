import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";

test("the README's example prints what the README says", () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const blocks = [...readme.matchAll(/^```js\n([^]*?)^```\n\n```text\n([^]*?)^```\n/gm)];
  assert.notEqual(blocks.length, 0);
  for (const [, code, output] of blocks) {
    // A package can import itself by its name.
    const got = execFileSync(process.execPath, ["--input-type=module", "-e", code], { cwd: new URL("..", import.meta.url), encoding: "utf8" });
    assert.equal(got, output);
  }
});
