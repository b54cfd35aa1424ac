// A persistent list: push and set return a new value and copy at most a few small
// arrays, however long the list is. While a value is edited, they change it in place
// and copy only what it shares with other values.
//
// It is a tree of arrays of 32 items. The last, incomplete leaf is stored separately,
// because most changes occur there.

const bits = 5;
const width = 1 << bits;
const mask = width - 1;

// Leaves contain items, all other arrays contain arrays.
type Branch<T> = readonly (Branch<T> | T)[];

type Own = Set<readonly unknown[]> | null;

const nothing: Branch<never> = [];

export class Vector<T> {
  private own: Own = null; // while the value is edited: the arrays that only it has

  private constructor(
    public length: number,
    private root: Branch<T>, // all full leaves
    private shift: number, // the bits above those of the root
    private tail: readonly T[],
  ) {}

  /** Returns a copy that push and set change in place until done is called. */
  edit(): Vector<T> {
    const copy = new Vector(this.length, this.root, this.shift, this.tail);
    copy.own = new Set();
    return copy;
  }

  /** Ends the editing. */
  done(): this {
    this.own = null;
    return this;
  }

  static empty<T>(): Vector<T> {
    return new Vector<T>(0, [], bits, []);
  }

  private tailStart(): number {
    return this.length - this.tail.length;
  }

  /** Returns the item at a place; undefined outside of the list. */
  get(place: number): T | undefined {
    if (place < 0 || place >= this.length) return undefined;
    if (place >= this.tailStart()) return this.tail[place & mask];
    let at: Branch<T> = this.root;
    for (let shift = this.shift; shift > 0; shift -= bits) {
      at = at[(place >>> shift) & mask] as Branch<T>;
    }
    return at[place & mask] as T;
  }

  push(item: T): Vector<T> {
    let { root, shift } = this;
    let tail: T[];
    if (this.tail.length < width) {
      tail = writable(this.tail, this.own);
    } else {
      const start = this.tailStart();
      if (start >>> shift >= width) {
        root = [root]; // the tree is full and grows by a level
        shift += bits;
      }
      root = hang(root, shift, start, this.tail, this.own);
      tail = writable([], this.own);
    }
    tail.push(item);
    return this.with(this.length + 1, root, shift, tail);
  }

  /** Replaces the item at a place, which must be there. */
  set(place: number, item: T): Vector<T> {
    if (place < this.tailStart()) return this.with(this.length, replace(this.root, this.shift, place, item, this.own), this.shift, this.tail);
    const tail = writable(this.tail, this.own);
    tail[place & mask] = item;
    return this.with(this.length, this.root, this.shift, tail);
  }

  private with(length: number, root: Branch<T>, shift: number, tail: readonly T[]): Vector<T> {
    if (this.own === null) return new Vector(length, root, shift, tail);
    this.length = length;
    this.root = root;
    this.shift = shift;
    this.tail = tail;
    return this;
  }

  /**
   * Calls visit for each place at which two lists have different items, with
   * undefined if a list has no item there. Lists that have grown from one another
   * share most of their arrays, and shared arrays are skipped.
   */
  compare(other: Vector<T>, visit: (place: number, mine: T | undefined, others: T | undefined) => void): void {
    const starts = [this.tailStart(), other.tailStart()] as const;
    let shift = this.shift;
    let [a, b] = [this.root, other.root];
    for (; shift < other.shift; shift += bits) a = [a];
    for (let low = other.shift; low < shift; low += bits) b = [b];
    const below = (a: Branch<T>, b: Branch<T>, shift: number, base: number): void => {
      // The separate leaf of one list may be in the tree of the other.
      if (shift === 0 && a === nothing && base === starts[0]) a = this.tail;
      if (shift === 0 && b === nothing && base === starts[1]) b = other.tail;
      for (let i = 0; a !== b && i < Math.max(a.length, b.length); i++) {
        if (a[i] === b[i]) continue;
        if (shift === 0) visit(base + i, a[i] as T | undefined, b[i] as T | undefined);
        else below((a[i] as Branch<T> | undefined) ?? nothing, (b[i] as Branch<T> | undefined) ?? nothing, shift - bits, base + (i << shift));
      }
    };
    below(a, b, shift, 0);
    if (starts[0] === starts[1]) below(this.tail, other.tail, 0, starts[0]);
    else if (starts[0] < starts[1]) below(nothing, other.tail, 0, starts[1]);
    else below(this.tail, nothing, 0, starts[0]);
  }
}

// writable returns the array if the edited value owns it, otherwise a copy that it
// owns.
function writable<T>(array: readonly T[], own: Own): T[] {
  if (own?.has(array) === true) return array as T[];
  const copy = array.slice();
  own?.add(copy);
  return copy;
}

// hang appends a full leaf.
function hang<T>(at: Branch<T>, shift: number, place: number, leaf: readonly T[], own: Own): Branch<T> {
  const i = (place >>> shift) & mask;
  const copy = writable(at, own);
  copy[i] = shift === bits ? leaf : hang((at[i] as Branch<T> | undefined) ?? [], shift - bits, place, leaf, own);
  return copy;
}

function replace<T>(at: Branch<T>, shift: number, place: number, item: T, own: Own): Branch<T> {
  const i = (place >>> shift) & mask;
  const copy = writable(at, own);
  copy[i] = shift === 0 ? item : replace(at[i] as Branch<T>, shift - bits, place, item, own);
  return copy;
}
