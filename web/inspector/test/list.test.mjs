import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./bundle.mjs";

const { families, fits, formatFilter, merge, parseFilter } = await load("state/list.ts");

const session = (id, updated, more = {}) => ({ id, user: "ann", title: "", seq: 1, created: "", updated: `2026-03-01T10:00:${updated}Z`, active: "", ...more });
const ids = (list) => list.map((s) => s.id);

test("changed sessions stand once, the last changed first, and nothing old takes the place of what is newer", () => {
  const before = [session("b", "02", { seq: 5 }), session("a", "01")];
  assert.deepEqual(ids(merge(before, [session("a", "03", { seq: 2 })])), ["a", "b"]);
  assert.deepEqual(ids(merge(before, [session("c", "09")])), ["c", "b", "a"]);
  const late = merge(before, [session("b", "00", { seq: 4 })]);
  assert.equal(late.find((s) => s.id === "b").seq, 5);
});

test("forks stand below their parent, and the family where its last changed member stands", () => {
  const fork = (id, updated, of) => session(id, updated, { parent: { ...(of && { id: of }), seq: 3 } });
  const list = merge([], [session("old", "01"), session("other", "05"), fork("f1", "09", "old"), fork("f2", "03", "f1"), fork("orphan", "07", "gone"), fork("alone", "02")]);
  assert.deepEqual(
    families(list).map(({ session, depth }) => `${depth} ${session.id}`),
    ["0 old", "1 f1", "2 f2", "0 orphan", "0 other", "0 alone"],
  );
});

test("sessions that are each other's parents are shown once each", () => {
  const list = [session("a", "02", { parent: { id: "b", seq: 1 } }), session("b", "01", { parent: { id: "a", seq: 1 } })];
  assert.deepEqual(ids(families(list).map((r) => r.session)).sort(), ["a", "b"]);
});

test("a filter is a state and words, and is written as it was read", () => {
  assert.deepEqual(parseFilter("state:waiting refund one"), { state: "waiting", words: "refund one" });
  assert.deepEqual(parseFilter("refund state:cut_off"), { state: "cut_off", words: "refund" });
  assert.deepEqual(parseFilter("state:nonsense"), { words: "state:nonsense" });
  assert.deepEqual(parseFilter(undefined), { words: "" });
  assert.deepEqual(parseFilter('agent:billing since:2026-03-01 until:2026-03-02 "my router" slow'), { agent: "billing", since: "2026-03-01", until: "2026-03-02", words: '"my router" slow' });
  assert.deepEqual(parseFilter('since:yesterday "state:done"'), { words: 'since:yesterday "state:done"' });
  for (const text of ["", "state:done", "a b", "state:failed a b", 'state:done agent:billing since:2026-03-01 "a b" c']) assert.equal(formatFilter(parseFilter(text)), text);
});

test("all words of a filter must occur, in whatever is shown of the session", () => {
  const s = session("s1", "01", { title: "Charged twice", active: "billing" });
  assert.ok(fits(s, "bill CHARGED"));
  assert.ok(fits(s, "s1"));
  assert.ok(!fits(s, "charged tech"));
  assert.ok(fits(s, '"charged twice" bill'));
  assert.ok(!fits(s, '"twice charged"'));
});
