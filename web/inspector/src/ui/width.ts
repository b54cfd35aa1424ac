// How wide the page is, as far as its layout asks, and how wide the reader has made the columns.
import { signal } from "@preact/signals";
import { store, stored } from "../stored.js";

export type Columns = 1 | 2 | 3;

const three = window.matchMedia("(min-width: 1280px)");
const two = window.matchMedia("(min-width: 960px)");
const now = (): Columns => (three.matches ? 3 : two.matches ? 2 : 1);

/** How many columns a session has. */
export const columns = signal<Columns>(now());
for (const query of [three, two]) query.addEventListener("change", () => (columns.value = now()));

export type Side = "tree" | "details";

const kept = "arbor-columns";
/** The least and the most of the page's width that a column has, and what it has at first, in percent. */
export const bounds = { tree: { least: 14, first: 26, most: 44 }, details: { least: 20, first: 30, most: 48 } } as const;

function atFirst(): Record<Side, number> {
  const found: Record<Side, number> = { tree: bounds.tree.first, details: bounds.details.first };
  try {
    const read: unknown = JSON.parse(stored(kept) ?? "{}");
    for (const side of ["tree", "details"] as const) {
      const value = Number((read as Record<string, unknown>)[side]);
      if (Number.isFinite(value) && value > 0) found[side] = bound(side, value);
    }
  } catch {
    // the stored value is not JSON: the defaults apply
  }
  return found;
}

function bound(side: Side, percent: number): number {
  return Math.round(Math.min(bounds[side].most, Math.max(bounds[side].least, percent)) * 10) / 10;
}

/** The widths of the columns next to the middle one, in percent. The browser stores them. */
export const widths = signal(atFirst());

export function setWidth(side: Side, percent: number): void {
  widths.value = { ...widths.value, [side]: bound(side, percent) };
  store(kept, JSON.stringify(widths.value));
}

/** Gives a column the next of three widths. */
export function nextWidth(side: Side): void {
  const { least, first, most } = bounds[side];
  const at = widths.value[side];
  setWidth(side, at < first ? first : at < most ? most : least);
}
