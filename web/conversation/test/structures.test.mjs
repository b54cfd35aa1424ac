import assert from "node:assert/strict";
import test from "node:test";
import { Trie } from "../dist/trie.js";
import { Vector } from "../dist/vector.js";
import { random } from "./random.mjs";

test("a trie is a map, and old ones stay", () => {
  // Pairs have one FNV-1a hash each.
  const keys = ["altarages", "zinkes", "declinate", "macallums", "altarage", "zinke", "", "__proto__"];
  for (let i = 0; i < 2000; i++) keys.push(`key ${i}`);
  const n = random(1);
  let trie = Trie.empty();
  const map = new Map();
  const past = [];
  for (let i = 0; i < 20_000; i++) {
    const key = n(2) === 0 ? keys[n(8)] : keys[n(keys.length)];
    if (n(3) === 0) {
      trie = trie.remove(key);
      map.delete(key);
    } else {
      trie = trie.set(key, i);
      map.set(key, i);
    }
    assert.equal(trie.isEmpty, map.size === 0);
    if (i % 4000 === 0) past.push([trie, new Map(map)]);
  }
  past.push([trie, map]);
  for (const [trie, map] of past) {
    for (const key of [...keys, "never"]) assert.equal(trie.get(key), map.get(key), key);
  }
  assert(keys.reduce((trie, key) => trie.remove(key), trie).isEmpty);
});

test("a vector is a list, and old ones stay", () => {
  const n = random(2);
  let vector = Vector.empty();
  const list = [];
  const past = [];
  for (let i = 0; i < 70_000; i++) {
    if (n(4) === 0 && list.length > 0) {
      const place = n(list.length);
      vector = vector.set(place, i);
      list[place] = i;
    } else {
      vector = vector.push(i);
      list.push(i);
    }
    if ([0, 31, 32, 33, 1055, 1056, 1057, 20_000].includes(i)) past.push([vector, list.slice()]);
  }
  past.push([vector, list]);
  for (const [vector, list] of past) {
    assert.equal(vector.length, list.length);
    list.forEach((item, place) => assert.equal(vector.get(place), item));
    assert.equal(vector.get(-1), undefined);
    assert.equal(vector.get(list.length), undefined);
  }
});

test("what is edited is a value of its own", () => {
  const n = random(3);
  let [trie, vector] = [Trie.empty(), Vector.empty()];
  const map = new Map();
  const list = [];
  const past = [];
  for (let round = 0; round < 60; round++) {
    past.push([trie, new Map(map), vector, list.slice()]);
    [trie, vector] = [trie.edit(), vector.edit()];
    for (let i = n(200); i >= 0; i--) {
      const key = `key ${n(400)}`;
      if (n(3) === 0) {
        trie = trie.remove(key);
        map.delete(key);
      } else {
        trie = trie.set(key, i);
        map.set(key, i);
      }
      const place = n(2 * list.length + 1);
      vector = place < list.length ? vector.set(place, i) : vector.push(i);
      list[Math.min(place, list.length)] = i;
    }
    [trie, vector] = [trie.done(), vector.done()];
  }
  past.push([trie, map, vector, list]);
  for (const [trie, map, vector, list] of past) {
    for (let i = 0; i < 400; i++) assert.equal(trie.get(`key ${i}`), map.get(`key ${i}`));
    assert.deepEqual(Array.from({ length: vector.length }, (_, i) => vector.get(i)), list);
  }
});

test("two vectors tell where they differ", () => {
  const n = random(4);
  let vector = Vector.empty();
  const all = [[vector, []]];
  for (let i = 0; i < 400; i++) {
    let [from, list] = all[n(5) > 0 ? all.length - 1 : n(all.length)];
    [vector, list] = [from, list.slice()];
    for (let k = n(3) === 0 ? n(2000) : n(40); k > 0; k--) {
      const place = n(4) === 0 && list.length > 0 ? n(list.length) : list.length;
      vector = place < list.length ? vector.set(place, i) : vector.push(i);
      list[place] = i;
    }
    all.push([vector, list]);
  }
  for (let i = 0; i < 200; i++) {
    const [[a, mine], [b, others]] = [all[n(all.length)], all[n(all.length)]];
    const found = new Map();
    a.compare(b, (place, x, y) => found.set(place, [x, y]));
    for (let place = 0; place < Math.max(mine.length, others.length); place++) {
      const want = mine[place] === others[place] ? undefined : [mine[place], others[place]];
      assert.deepEqual(found.get(place), want);
      found.delete(place);
    }
    assert.equal(found.size, 0);
  }
});
