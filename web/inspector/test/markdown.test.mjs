// Formulas in LaTeX keep what Markdown would take from them, and hostile texts are read quickly.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { lexer } = await load("ui/markdown.tsx");
const found = (text) => {
  const all = [];
  const walk = (tokens = []) => {
    for (const t of tokens) {
      if (t.type.startsWith("formula")) all.push([t.type, t.text]);
      walk(t.tokens);
    }
  };
  walk(lexer(text));
  return all;
};

test("formulas are kept as they were written", () => {
  assert.deepEqual(found("so \\(x_1 * \\{y\\}\\) is"), [["formula", "\\(x_1 * \\{y\\}\\)"]]);
  assert.deepEqual(found("\\[\n\\frac{a}{b} \\\\\n\\]\n\nand"), [["formulas", "\\[\n\\frac{a}{b} \\\\\n\\]"]]);
  assert.deepEqual(found("it is $$a_i \\{b\\}$$."), [["formula", "$$a_i \\{b\\}$$"]]);
});

test("money, code and open brackets are no formulas", () => {
  for (const text of ["$5 and $6", "`\\(a\\)`", "```\n\\[a\\]\n```", "\\(a", "\\[a\n\nb\\]"]) {
    assert.deepEqual(found(text), [], text);
  }
});

test("formulas that never end are read in time", () => {
  for (const text of ["\\[".repeat(6000), "\\(a ".repeat(3000), "$$ *a* ".repeat(2000)]) {
    const begun = performance.now();
    lexer(text);
    assert.ok(performance.now() - begun < 5_000, text.slice(0, 8));
  }
});
