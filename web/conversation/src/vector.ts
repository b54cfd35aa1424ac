// A persistent list: push and set return a new value and copy at most a few
// small arrays, however long the list is.
//
// It is a tree of arrays of 32. The last, unfinished leaf stands apart, because
// most of what happens, happens there.

const bits = 5;
const width = 1 << bits;
const mask = width - 1;

// Leaves hold items, all other arrays hold arrays.
type Branch<T> = readonly (Branch<T> | T)[];

export class Vector<T> {
  private constructor(
    readonly length: number,
    private readonly root: Branch<T>, // all full leaves
    private readonly shift: number, // bits that stand above the root's
    private readonly tail: readonly T[],
  ) {}

  static empty<T>(): Vector<T> {
    return new Vector<T>(0, [], bits, []);
  }

  private tailStart(): number {
    return this.length - this.tail.length;
  }

  /** The item at a place; undefined outside of the list. */
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
    if (this.tail.length < width) {
      const tail = this.tail.slice();
      tail.push(item);
      return new Vector(this.length + 1, this.root, this.shift, tail);
    }
    const start = this.tailStart();
    let { root, shift } = this;
    if (start >>> shift >= width) {
      root = [root]; // the tree is full and grows by a level
      shift += bits;
    }
    return new Vector(this.length + 1, hang(root, shift, start, this.tail), shift, [item]);
  }

  /** Replaces the item at a place, which must be there. */
  set(place: number, item: T): Vector<T> {
    if (place >= this.tailStart()) {
      const tail = this.tail.slice();
      tail[place & mask] = item;
      return new Vector(this.length, this.root, this.shift, tail);
    }
    return new Vector(this.length, replace(this.root, this.shift, place, item), this.shift, this.tail);
  }
}

// hang puts a full leaf behind the last one.
function hang<T>(at: Branch<T>, shift: number, place: number, leaf: readonly T[]): Branch<T> {
  const copy = at.slice();
  const i = (place >>> shift) & mask;
  copy[i] = shift === bits ? leaf : hang((at[i] as Branch<T> | undefined) ?? [], shift - bits, place, leaf);
  return copy;
}

function replace<T>(at: Branch<T>, shift: number, place: number, item: T): Branch<T> {
  const copy = at.slice();
  const i = (place >>> shift) & mask;
  copy[i] = shift === 0 ? item : replace(at[i] as Branch<T>, shift - bits, place, item);
  return copy;
}
