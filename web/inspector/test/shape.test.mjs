import assert from "node:assert/strict";
import test from "node:test";
import { load, random } from "./bundle.mjs";

const { along, box, branchOf, crowdOf, depthOf, everyone, few, handful, itemsOf, layout, standsIn, way } = await load("state/shape.ts");

/** An agent with children, by name; paths follow. */
function agent(name, subAgents = [], path = name) {
  const below = subAgents.map((a) => agent(a.name, a.subAgents ?? [], `${path}/${a.name}`));
  return { name, path, kind: "agent", ...(below.length > 0 && { subAgents: below }) };
}

const named = (prefix, n, subAgents) => Array.from({ length: n }, (_, i) => ({ name: `${prefix}${i}`, subAgents: subAgents?.(i) }));
const draw = (root, { folds = new Map(), shown = [], search = "" } = {}) => layout(itemsOf(branchOf(root), folds, new Set(shown), search));

test("a small tree stands whole, in the order of its files, a column for each depth", () => {
  const { items } = draw(agent("support", [{ name: "z" }, { name: "tech", subAgents: [{ name: "b" }, { name: "a" }] }]));
  assert.deepEqual([...items.keys()], ["support", "support/z", "support/tech", "support/tech/b", "support/tech/a"]);
  const columns = [...items.values()].map((p) => (p.x - 8) / box.right);
  assert.deepEqual(columns, [0, 1, 1, 2, 2]);
  assert.ok(items.get("support/tech/b").y < items.get("support/tech/a").y);
  assert.equal(depthOf(branchOf(agent("support", [{ name: "z" }]))), 2);
});

test("of a large tree only the branches that have spoken are unfolded", () => {
  const root = agent("r", named("area", 8, (i) => named(`t${i}x`, 10)));
  assert.ok(branchOf(root).size > few);
  assert.deepEqual([...draw(root).items.keys()], ["r", ...named("r/area", 8).map((a) => a.name)]);
  assert.equal(draw(root).items.get("r/area3").item.hidden, 10);
  const spoke = draw(root, { shown: ["r/area3/t3x4"] });
  assert.ok(spoke.items.has("r/area3/t3x4"));
  assert.ok(!spoke.items.has("r/area4/t4x4"));
  const folded = draw(root, { shown: ["r/area3/t3x4"], folds: new Map([["r/area3", false]]) });
  assert.ok(!folded.items.has("r/area3/t3x4"), "the reader's fold holds");
  const branch = [...everyone(folded.items.get("r").item.branch)].find((b) => b.agent.name === "t3x4");
  assert.equal(standsIn(folded, branch).item.key, "r/area3");
});

test("more children than a handful are one row, but for those that have spoken", () => {
  const root = agent("r", named("a", handful + 1));
  const keys = (how) => [...draw(root, how).items.keys()];
  assert.deepEqual(keys(), ["r", crowdOf("r")]);
  assert.equal(draw(root).items.get(crowdOf("r")).item.crowd, handful + 1);
  assert.deepEqual(keys({ shown: ["r/a7"] }), ["r", "r/a7", crowdOf("r")]);
  assert.equal(keys({ folds: new Map([[crowdOf("r"), true]]) }).length, handful + 2);
  assert.deepEqual([...draw(agent("r", named("a", handful))).items.keys()].length, handful + 1);
});

test("a search shows what it finds and the way there, whatever is folded", () => {
  const root = agent("r", named("area", 20, (i) => named(`t${i}x`, 20)));
  assert.deepEqual([...draw(root, { search: "t7x11", folds: new Map([["r", false]]) }).items.keys()], ["r", "r/area7", "r/area7/t7x11"]);
  assert.equal(draw(root, { search: "nobody" }).items.size, 0);
});

test("boxes never overlap, and ways begin and end at boxes", () => {
  const next = random(7);
  for (let n = 0; n < 50; n++) {
    let made = 0;
    const grow = (depth) => (depth === 0 ? [] : named(`a${made++}x`, Math.floor(next() * 6), () => grow(depth - 1)));
    const drawn = draw(agent("r", grow(4)), { shown: ["r"] });
    const all = [...drawn.items.values()];
    for (const a of all) {
      assert.ok(a.x + box.width <= drawn.width && a.y + box.height <= drawn.height && a.x >= 0 && a.y >= 0);
      for (const b of all) {
        if (a !== b && a.x === b.x) assert.ok(Math.abs(a.y - b.y) >= box.height, `${a.item.key} is over ${b.item.key}`);
      }
      if (a.parent === undefined) continue;
      const parent = drawn.items.get(a.parent);
      assert.ok(way(parent, a).startsWith(`M${parent.x + box.width} ${parent.y + box.height / 2}C`));
      assert.deepEqual(along(parent, a, 1), { x: a.x, y: a.y + box.height / 2 });
    }
  }
});
