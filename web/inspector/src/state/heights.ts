// Where the rows of a list begin, some measured and the others estimated.

/** Space above the first row and below the last one, in pixels. */
const above = 12;
const below = 16;

export class Heights {
  private keys: string[] = [];
  private sizes: number[] = [];
  private starts: number[] = [above]; // of row i, and after the last one the end of all
  private good = 0; // how many rows have the right start
  private readonly measured = new Map<string, number>();

  /** Sets the rows. A row keeps its height as long as it keeps its key. */
  update(count: number, keyOf: (index: number) => string, estimate: (index: number) => number): void {
    let same = 0;
    while (same < count && same < this.keys.length && this.keys[same] === keyOf(same)) same++;
    if (same === count && same === this.keys.length) return;
    this.keys.length = this.sizes.length = same;
    for (let i = same; i < count; i++) {
      const key = keyOf(i);
      this.keys.push(key);
      this.sizes.push(this.measured.get(key) ?? estimate(i));
    }
    this.good = Math.min(this.good, same);
  }

  get count(): number {
    return this.keys.length;
  }

  key(index: number): string {
    return this.keys[index] ?? "";
  }

  indexOf(key: string): number {
    return this.keys.indexOf(key);
  }

  /** Notes the height of a row, and reports whether it differs from the assumed one. */
  measure(index: number, height: number): boolean {
    const key = this.keys[index];
    if (key === undefined || height === 0) return false;
    this.measured.set(key, height);
    if (Math.abs(this.sizes[index]! - height) < 0.5) return false;
    this.sizes[index] = height;
    this.good = Math.min(this.good, index);
    return true;
  }

  /** Where a row begins, or where the last one ends. */
  start(index: number): number {
    for (; this.good < index; this.good++) this.starts[this.good + 1] = this.starts[this.good]! + this.sizes[this.good]!;
    return this.starts[index]!;
  }

  get total(): number {
    return this.start(this.count) + below;
  }

  /** The row that a place is in: the first one above all, and the last one below. */
  at(place: number): number {
    this.start(this.count);
    let [low, high] = [0, this.count - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle]! <= place) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }
}
