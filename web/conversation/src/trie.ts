// A persistent map with string keys: set and remove return a new value. They copy one
// small array for each level; there are at most seven levels, and four for a million
// entries. While a value is edited, they change it in place and copy only what it
// shares with other values.
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

// A fork has one child for each bit that is set in its bitmap.
interface Fork<V> {
  bitmap: number;
  readonly kids: (Leaf<V> | Fork<V>)[];
  readonly owner: Owner; // the value that may change it
}

// Identifies a value while it is edited, and is null otherwise.
type Owner = object | null;

type Item<V> = Leaf<V> | Fork<V>;

function isFork<V>(item: Item<V>): item is Fork<V> {
  return "kids" in item;
}

export class Trie<V> {
  private constructor(
    private root: Fork<V>,
    private owner: Owner = null,
  ) {}

  static empty<V>(): Trie<V> {
    return new Trie<V>({ bitmap: 0, kids: [], owner: null });
  }

  /** Returns a copy that set and remove change in place until done is called. */
  edit(): Trie<V> {
    return new Trie(this.root, {});
  }

  /** Ends the editing. */
  done(): this {
    this.owner = null;
    return this;
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
    return this.with(put(this.root, 0, { hash: hashOf(key), key, value, other: null }, this.owner));
  }

  remove(key: string): Trie<V> {
    return this.with(take(this.root, 0, hashOf(key), key, this.owner));
  }

  private with(root: Fork<V>): Trie<V> {
    if (this.owner === null) return new Trie(root);
    this.root = root;
    return this;
  }
}

// writable returns the fork if it belongs to the owner, otherwise a copy that does.
function writable<V>(fork: Fork<V>, owner: Owner): Fork<V> {
  return owner !== null && fork.owner === owner ? fork : { bitmap: fork.bitmap, kids: fork.kids.slice(), owner };
}

function put<V>(at: Fork<V>, shift: number, leaf: Leaf<V>, owner: Owner): Fork<V> {
  const bit = 1 << ((leaf.hash >>> shift) & mask);
  const fork = writable(at, owner);
  const i = count(fork.bitmap & (bit - 1));
  const kid = fork.kids[i];
  if ((fork.bitmap & bit) === 0 || kid === undefined) {
    fork.kids.splice(i, 0, leaf);
    fork.bitmap |= bit;
  } else if (isFork(kid)) {
    fork.kids[i] = put(kid, shift + bits, leaf, owner);
  } else if (kid.hash === leaf.hash) {
    fork.kids[i] = { ...leaf, other: without(kid, leaf.key) };
  } else {
    fork.kids[i] = part(kid, leaf, shift + bits, owner);
  }
  return fork;
}

// part returns a fork with two leaves whose hashes differ.
function part<V>(a: Leaf<V>, b: Leaf<V>, shift: number, owner: Owner): Fork<V> {
  const i = (a.hash >>> shift) & mask;
  const j = (b.hash >>> shift) & mask;
  if (i === j) return { bitmap: 1 << i, kids: [part(a, b, shift + bits, owner)], owner };
  return { bitmap: (1 << i) | (1 << j), kids: i < j ? [a, b] : [b, a], owner };
}

function take<V>(at: Fork<V>, shift: number, hash: number, key: string, owner: Owner): Fork<V> {
  const bit = 1 << ((hash >>> shift) & mask);
  const i = count(at.bitmap & (bit - 1));
  const kid = at.kids[i];
  if ((at.bitmap & bit) === 0 || kid === undefined) return at;
  if (!isFork(kid) && kid.hash !== hash) return at;
  const rest = isFork(kid) ? take(kid, shift + bits, hash, key, owner) : without(kid, key);
  const fork = writable(at, owner);
  if (rest !== null && !(isFork(rest) && rest.bitmap === 0)) {
    fork.kids[i] = rest;
  } else {
    fork.kids.splice(i, 1);
    fork.bitmap &= ~bit;
  }
  return fork;
}

// without returns a list of leaves with the same hash, without the leaf of a key.
function without<V>(leaf: Leaf<V> | null, key: string): Leaf<V> | null {
  if (leaf === null) return null;
  if (leaf.key === key) return leaf.other;
  return { ...leaf, other: without(leaf.other, key) };
}

// count returns the number of set bits.
function count(n: number): number {
  n -= (n >>> 1) & 0x55555555;
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

// The last hash is cached, because a key that was not found is often set next.
let hashed = "";
let lastHash = fnv("");

function hashOf(key: string): number {
  if (key !== hashed) {
    lastHash = fnv(key);
    hashed = key;
  }
  return lastHash;
}

// fnv is FNV-1a over UTF-16, with a last step that mixes the upper bits, which are
// distributed better, into the bits that are used first.
function fnv(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
