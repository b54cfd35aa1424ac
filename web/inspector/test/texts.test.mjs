// All texts of the page are in its tables, so that a translation has to change nothing else.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import ts from "typescript";

const src = new URL("../src/", import.meta.url);
const shown = ["aria-label", "title", "placeholder", "alt", "label"];
const names = ["Arbor", "JSON", "--keep-requests"];
const letters = /\p{L}{2}/u;

/** The literal texts that a source draws: between tags, and in attributes that readers see or hear. */
function drawn(file, text) {
  const found = [];
  const strings = (node, inJsx) => {
    if (ts.isJsxText(node) || (inJsx && (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateHead(node) || ts.isTemplateMiddle(node) || ts.isTemplateTail(node)))) {
      const words = node.text.trim();
      if (letters.test(words) && !names.includes(words)) found.push(words);
      return;
    }
    if (ts.isJsxAttribute(node)) {
      const name = node.name.getText();
      const isText = shown.includes(name) || (name === "name" && /^(Fact|Value)$/.test(node.parent.parent.tagName.getText()));
      return ts.forEachChild(node, (child) => strings(child, isText));
    }
    // What is compared, looked up or given to a function is no text by itself.
    if (ts.isBinaryExpression(node) && /^[!=]==/.test(node.operatorToken.getText())) return;
    if (ts.isCallExpression(node) || ts.isElementAccessExpression(node) || ts.isArrowFunction(node)) return ts.forEachChild(node, (child) => strings(child, false));
    if (ts.isJsxExpression(node) && !ts.isJsxAttribute(node.parent)) return ts.forEachChild(node, (child) => strings(child, true));
    ts.forEachChild(node, (child) => strings(child, inJsx));
  };
  strings(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX), false);
  return found;
}

test("texts are found between tags, in attributes and in expressions", () => {
  const page = '<p title="One word" class="not this" aria-label={x ? "Two" : `Three ${n}`}>Four {x === "not this" ? "Five" : texts.six}</p>';
  assert.deepEqual(drawn("page.tsx", page), ["One word", "Two", "Three", "Four", "Five"]);
});

test("no view draws a text of its own", () => {
  const files = readdirSync(src, { recursive: true }).filter((f) => f.endsWith(".tsx") && !f.startsWith("texts"));
  assert.ok(files.length > 50, "the sources were not found");
  for (const file of files) assert.deepEqual(drawn(file, readFileSync(new URL(file, src), "utf8")), [], `${file} has texts that belong into the tables`);
});
