// All texts of the page are in its tables, and each language has all of them.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import ts from "typescript";
import { load } from "./bundle.mjs";

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

test("no module reads a text before the language is known", () => {
  const early = (node, found = []) => {
    if (ts.isFunctionLike(node) || ts.isTypeNode(node) || ts.isImportDeclaration(node)) return found;
    if (ts.isIdentifier(node) && node.text === "texts" && node.parent.name !== node) found.push(node.parent.getText());
    ts.forEachChild(node, (child) => void early(child, found));
    return found;
  };
  const found = (file, text) => early(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX));
  assert.deepEqual(found("page.tsx", "const { a } = texts.one; const b = () => texts.two; class C { c = 1; d() { return texts.three; } }"), ["texts.one"]);
  assert.deepEqual(found("page.ts", 'import { texts } from "../texts.js"; const { a } = texts, b = [texts]; type C = typeof texts.c; export const texts = { texts: 1 };'), ["{ a } = texts", "[texts]"]);
  for (const file of readdirSync(src, { recursive: true }).filter((f) => /\.tsx?$/.test(f))) assert.deepEqual(found(file, readFileSync(new URL(file, src), "utf8")), [], file);
});

/** The types of the parameters of each text, by its path, as English declares them. */
function parameters() {
  const found = new Map();
  const look = (path, node) => {
    if (ts.isAsExpression(node)) return look(path, node.expression);
    if (ts.isArrowFunction(node)) found.set(path, node.parameters.map((p) => p.type.getText()));
    if (ts.isObjectLiteralExpression(node)) for (const p of node.properties) if (p.initializer) look(`${path}.${p.name.text}`, p.initializer);
  };
  for (const file of ["texts/en.tsx", "texts/en-behind.tsx"]) {
    const source = ts.createSourceFile(file, readFileSync(new URL(file, src), "utf8"), ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
    for (const s of source.statements) if (ts.isVariableStatement(s)) for (const d of s.declarationList.declarations) look(`.${d.name.text}`, d.initializer);
  }
  return found;
}

/** Values of a type, of which each but the empty ones leaves a mark in a text. */
function values(type, i) {
  return type.split(" | ").flatMap((t) => {
    if (t === "number") return [1, 23 + i];
    if (t === "string") return ["", `<${i}>`];
    if (t === "boolean") return [true, false];
    if (t === "readonly string[]") return [[], [`<${i}>`]];
    if (t === "JSX.Element" || t === "Children") return [`<${i}>`];
    return { null: [null], undefined: [undefined], false: [false] }[t] ?? assert.fail(`no values of type ${t}`);
  });
}

const read = (drawn) =>
  Array.isArray(drawn) ? drawn.map(read).join("") : drawn?.props ? read(drawn.props.children) : drawn === null || drawn === undefined || typeof drawn === "boolean" ? "" : String(drawn);
const marks = (text) => [...new Set(text.match(/<\d>|\b2[3-9](?!\d)/g))].sort();

/** Every text as pairs: English, and the same of another table. */
function pairs(english, other) {
  const types = parameters();
  const out = [];
  const look = (path, a, b) => {
    assert.equal(typeof b, typeof a, path);
    if (typeof a === "string") out.push([path, a, b]);
    else if (typeof a === "object") {
      assert.deepEqual(Object.keys(b).sort(), Object.keys(a).sort(), path);
      for (const key of Object.keys(a)) look(`${path}.${key}`, a[key], b[key]);
    } else {
      const given = (types.get(path) ?? ["string"]).reduce((all, type, i) => all.flatMap((args) => values(type, i).map((v) => [...args, v])), [[]]);
      for (const args of given) out.push([`${path}(${JSON.stringify(args).slice(1, -1)})`, read(a(...args)), read(b(...args))]);
    }
  };
  look("", english, other);
  return out;
}

// What is the same in English: names, and words that both languages have. The hint shows words of the search.
const hint = ".feed.hint";
const alike = {
  de: ["agent", "arbor", "desk", "details", "forks", "graph", "json", "live", "optional", "phase", "position", "router", "runs", "system", "token", "tokens", "tool", "tools", "zoom"],
  es: ["arbor", "error", "token", "tokens", "zoom"],
};

for (const [language, same] of Object.entries(alike)) {
  test(`the table ${language} has every text with its values, and none in English`, async () => {
    const english = { ...(await load("texts/en.tsx", "texts/en-behind.tsx")) };
    const { texts } = await load(`texts/${language}.tsx`);
    const all = pairs(english, texts);
    assert.ok(all.length > 1000, "the texts were not found");
    for (const [path, a, b] of all) {
      assert.deepEqual(marks(b), marks(a), `${path}: "${a}" and "${b}" have other values`);
      assert.doesNotMatch(b, /\b(the|of|and|with|this|is|are|has)\b/, path);
      assert.doesNotMatch(b, /undefined|null|NaN/, path);
      const words = a.match(/[A-Za-z]{2,}/g) ?? [];
      if (a === b && path !== hint) assert.deepEqual(words.filter((w) => !same.includes(w.toLowerCase())), [], `${path} is "${a}" as in English`);
    }
  });
}

test("the page speaks the first language of the browser that it has, or the chosen one", async () => {
  const { languageOf } = await load("language.ts");
  assert.deepEqual(languageOf(["en-GB", "de"], ""), ["en", "en-GB"]);
  assert.deepEqual(languageOf(["fr", "de-AT", "en"], ""), ["de", "de-AT"]);
  assert.deepEqual(languageOf(["fr"], ""), ["en", "en"]);
  assert.deepEqual(languageOf(["en", "es-MX"], "es"), ["es", "es-MX"]);
  assert.deepEqual(languageOf(["en"], "de"), ["de", "de"]);
});
