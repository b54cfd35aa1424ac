import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./bundle.mjs";

const { Heights } = await load("state/heights");

test("rows begin where those before them end, whatever is measured in what order", () => {
  const heights = new Heights();
  const sizes = new Map();
  let keys = [];
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let step = 0; step < 2000; step++) {
    const what = random(10);
    if (what < 4) keys = [...keys, `k${step}`];
    else if (what === 4) keys = keys.slice(0, random(keys.length + 1));
    else if (what === 5) keys = keys.toSpliced(random(keys.length + 1), 0, `k${step}`);
    heights.update(keys.length, (i) => keys[i], () => 40);
    if (what > 5 && keys.length > 0) {
      const i = random(keys.length);
      const height = 1 + random(300);
      assert.equal(heights.measure(i, height), (sizes.get(keys[i]) ?? 40) !== height);
      sizes.set(keys[i], height);
    }
    let start = 12;
    for (const [i, key] of keys.entries()) {
      const height = sizes.get(key) ?? 40;
      if (step % 50 === 0 || i > keys.length - 3) {
        assert.equal(heights.start(i), start);
        assert.equal(heights.at(start), i);
        assert.equal(heights.at(start + height - 1), i);
      }
      start += height;
    }
    assert.equal(heights.total, start + 16);
    assert.equal(heights.at(-1), 0);
    assert.equal(heights.at(1e9), Math.max(0, keys.length - 1));
  }
});

test("a row that was measured keeps its height when it comes back", () => {
  const heights = new Heights();
  heights.update(2, String, () => 40);
  heights.measure(1, 100);
  heights.update(1, String, () => 40);
  heights.update(3, String, () => 40);
  assert.equal(heights.start(2), 12 + 40 + 100);
  assert.equal(heights.measure(7, 10), false, "no row");
  assert.equal(heights.measure(0, 0), false, "a row that is not drawn");
});
