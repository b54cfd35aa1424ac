// A persistent map from strings: set and remove return a new value and copy one
// small array a level, of which there are seven at most and four in a million
// entries.
//
// It is a hash array mapped trie (Phil Bagwell, "Ideal Hash Trees", 2001).

const bits = 5;
const mask = (1 << bits) - 1;

interface Leaf<V> {
  readonly hash: number;
  readonly key: string;
  readonly value: V;
  readonly other: Leaf<V> | null; // another key with the same hash
}

// A fork has one kid for each bit that is set in its bitmap.
interface Fork<V> {
  readonly bitmap: number;
  readonly kids: readonly (Leaf<V> | Fork<V>)[];
}

type Item<V> = Leaf<V> | Fork<V>;

function isFork<V>(item: Item<V>): item is Fork<V> {
  return "kids" in item;
}

export class Trie<V> {
  private constructor(private readonly root: Fork<V>) {}

  static empty<V>(): Trie<V> {
    return new Trie<V>({ bitmap: 0, kids: [] });
  }

  get isEmpty(): boolean {
    return this.root.bitmap === 0;
  }

  get(key: string): V | undefined {
    const hash = hashOf(key);
    let at: Item<V> = this.root;
    for (let shift = 0; isFork(at); shift += bits) {
      const bit = 1 << ((hash >>> shift) & mask);
      if ((at.bitmap & bit) === 0) return undefined;
      at = at.kids[count(at.bitmap & (bit - 1))]!;
    }
    for (let leaf: Leaf<V> | null = at; leaf !== null; leaf = leaf.other) {
      if (leaf.key === key) return leaf.value;
    }
    return undefined;
  }

  set(key: string, value: V): Trie<V> {
    return new Trie(put(this.root, 0, { hash: hashOf(key), key, value, other: null }));
  }

  remove(key: string): Trie<V> {
    return new Trie(take(this.root, 0, hashOf(key), key));
  }
}

function put<V>(fork: Fork<V>, shift: number, leaf: Leaf<V>): Fork<V> {
  const bit = 1 << ((leaf.hash >>> shift) & mask);
  const i = count(fork.bitmap & (bit - 1));
  const kids = fork.kids.slice();
  const kid = fork.kids[i];
  if ((fork.bitmap & bit) === 0 || kid === undefined) {
    kids.splice(i, 0, leaf);
    return { bitmap: fork.bitmap | bit, kids };
  }
  if (isFork(kid)) {
    kids[i] = put(kid, shift + bits, leaf);
  } else if (kid.hash === leaf.hash) {
    kids[i] = { ...leaf, other: without(kid, leaf.key) };
  } else {
    kids[i] = part(kid, leaf, shift + bits);
  }
  return { bitmap: fork.bitmap, kids };
}

// part makes a fork of two leaves whose hashes differ.
function part<V>(a: Leaf<V>, b: Leaf<V>, shift: number): Fork<V> {
  const i = (a.hash >>> shift) & mask;
  const j = (b.hash >>> shift) & mask;
  if (i === j) return { bitmap: 1 << i, kids: [part(a, b, shift + bits)] };
  return { bitmap: (1 << i) | (1 << j), kids: i < j ? [a, b] : [b, a] };
}

function take<V>(fork: Fork<V>, shift: number, hash: number, key: string): Fork<V> {
  const bit = 1 << ((hash >>> shift) & mask);
  const i = count(fork.bitmap & (bit - 1));
  const kid = fork.kids[i];
  if ((fork.bitmap & bit) === 0 || kid === undefined) return fork;
  const kids = fork.kids.slice();
  if (isFork(kid)) {
    const rest = take(kid, shift + bits, hash, key);
    if (rest.bitmap !== 0) {
      kids[i] = rest;
      return { bitmap: fork.bitmap, kids };
    }
  } else if (kid.hash === hash) {
    const rest = without(kid, key);
    if (rest !== null) {
      kids[i] = rest;
      return { bitmap: fork.bitmap, kids };
    }
  } else {
    return fork;
  }
  kids.splice(i, 1);
  return { bitmap: fork.bitmap & ~bit, kids };
}

// without returns a list of leaves of one hash without a key.
function without<V>(leaf: Leaf<V> | null, key: string): Leaf<V> | null {
  if (leaf === null) return null;
  if (leaf.key === key) return leaf.other;
  return { ...leaf, other: without(leaf.other, key) };
}

// count returns how many bits are set.
function count(n: number): number {
  n -= (n >>> 1) & 0x55555555;
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

// hashOf is FNV-1a over UTF-16, with a last step that mixes the upper bits, which
// are the better ones, into those that are used first.
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
