// Long lists of rows of different heights: only those that can be seen are in the document. The
// reader stays where they are, and at the end as long as they are at the end.
import { useLayoutEffect, useReducer, useState } from "preact/hooks";
import { Heights } from "../state/heights.js";

export interface VirtualOptions {
  readonly count: number;
  readonly keyOf: (index: number) => string;
  readonly height: (index: number) => number;
  readonly scroller: () => HTMLElement | null;
}

export interface VirtualItem {
  readonly index: number;
  readonly key: string;
  readonly start: number;
}

/** How many rows are drawn above and below the visible ones. */
const spare = 4;
/** A reader at most this near the end, in pixels, stays at the end. */
const near = 24;

export function useVirtual(options: VirtualOptions): Virtual {
  const [, redraw] = useReducer<number, void>((n) => n + 1, 0);
  const [virtual] = useState(() => new Virtual(() => redraw()));
  virtual.update(options);
  useLayoutEffect(() => virtual.mount(), [virtual]);
  useLayoutEffect(() => virtual.settle());
  return virtual;
}

export class Virtual {
  private readonly heights = new Heights();
  private readonly sizes = new ResizeObserver((entries) => this.resized(entries.map((e) => e.target as HTMLElement)));
  private scroller: () => HTMLElement | null = () => null;
  private top = 0;
  private window = 0; // the height of what can be seen
  private total = 0; // the height of all rows, when they were drawn
  private stuck = false; // to the end
  // The row that stays where it is: so far above its start, or below its end, the window begins or ends.
  private anchor = { key: "", end: false, off: 0 };
  private settled = -1; // where the list was last scrolled to from here

  constructor(private readonly redraw: () => void) {}

  update({ count, keyOf, height, scroller }: VirtualOptions): void {
    this.scroller = scroller;
    this.heights.update(count, keyOf, height);
    // A reader at the end stays at the new end: its rows are drawn at once, and not after scrolling.
    const { total } = this.heights;
    if (this.stuck && this.window > 0 && total !== this.total) this.top = Math.max(0, total - this.window);
    this.total = total;
  }

  /** The height of all rows. */
  getTotalSize(): number {
    return this.heights.total;
  }

  /** The first and the last visible row; undefined without rows. */
  get range(): { readonly startIndex: number; readonly endIndex: number } | undefined {
    if (this.heights.count === 0 || this.window === 0) return undefined;
    return { startIndex: this.heights.at(this.top), endIndex: this.heights.at(this.top + this.window) };
  }

  getVirtualItems(): VirtualItem[] {
    const { range, heights } = this;
    if (range === undefined) return [];
    const items: VirtualItem[] = [];
    const last = Math.min(heights.count - 1, range.endIndex + spare);
    for (let index = Math.max(0, range.startIndex - spare); index <= last; index++) {
      items.push({ index, key: heights.key(index), start: heights.start(index) });
    }
    return items;
  }

  isAtEnd(within: number): boolean {
    return this.stuck || this.heights.total - this.top - this.window <= within;
  }

  /** Shows a row: at the given edge of the window, or at the nearer one. */
  scrollToIndex(index: number, { align }: { readonly align: "auto" | "start" | "end" }): void {
    const { heights } = this;
    if (index < 0 || index >= heights.count) return;
    const above = heights.start(index) < this.top;
    if (align === "auto" && !above && heights.start(index + 1) <= this.top + this.window) return;
    this.stuck = false;
    this.anchor = { key: heights.key(index), end: align === "end" || (align === "auto" && !above), off: 0 };
    this.redraw();
  }

  scrollToEnd(): void {
    this.stuck = true;
    this.redraw();
  }

  /** The ref of a row, which has its index as data-index. */
  readonly measureElement = (row: HTMLElement | null): void => {
    if (row === null) return;
    this.sizes.observe(row);
    this.resized([row]);
  };

  mount(): () => void {
    const scroller = this.scroller();
    if (scroller === null) return () => {};
    const scrolled = (): void => this.scrolled(scroller);
    scroller.addEventListener("scroll", scrolled, { passive: true });
    this.sizes.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", scrolled);
      this.sizes.disconnect();
    };
  }

  /** Scrolls to where the reader is, after rows have come, gone or changed their heights. */
  settle(): void {
    const scroller = this.scroller();
    if (scroller === null) return;
    const { heights, anchor } = this;
    const index = this.stuck ? -1 : heights.indexOf(anchor.key);
    let to = scroller.scrollHeight;
    if (index >= 0) to = anchor.end ? heights.start(index + 1) - this.window + anchor.off : heights.start(index) + anchor.off;
    else if (!this.stuck) return;
    to = Math.max(0, Math.min(to, scroller.scrollHeight - scroller.clientHeight));
    if (Math.abs(to - scroller.scrollTop) >= 1) scroller.scrollTop = to;
    else if (!this.stuck) return;
    const before = this.top;
    this.settled = this.top = scroller.scrollTop;
    if (!this.stuck || Math.abs(this.top - before) >= 1) this.redraw();
  }

  private scrolled(scroller: HTMLElement): void {
    this.top = scroller.scrollTop;
    const own = Math.abs(this.top - this.settled) < 1; // drawn already
    if (!own) {
      const first = this.heights.at(this.top);
      this.stuck = scroller.scrollHeight - scroller.clientHeight - this.top <= near;
      this.anchor = { key: this.heights.key(first), end: false, off: this.top - this.heights.start(first) };
    }
    this.settled = -1;
    if (!own) this.redraw();
  }

  private resized(elements: readonly HTMLElement[]): void {
    let changed = false;
    const scroller = this.scroller();
    for (const element of elements) {
      if (element === scroller) {
        changed ||= this.window !== element.clientHeight;
        this.window = element.clientHeight;
      } else if (!element.isConnected) this.sizes.unobserve(element);
      else changed = this.heights.measure(Number(element.dataset["index"]), element.offsetHeight) || changed;
    }
    if (changed) this.redraw();
  }
}
