// The tree of agents as it is drawn: which agents it shows, what is folded, and where they are.
import { hierarchy, tree as tidy } from "d3-hierarchy";
import type { Schemas } from "../net/api.js";

type Agent = Schemas["Agent"];

/** An agent with what is below it. */
export interface Branch {
  readonly agent: Agent;
  readonly level: number;
  readonly children: readonly Branch[];
  /** How many agents are in it, itself included. */
  readonly size: number;
  readonly parent: Branch | undefined;
  /** Whether a workflow runs it, so that no agent transfers to it. */
  readonly inner: boolean;
}

/** What is drawn in one place: an agent, or a row for several agents. */
export interface Item {
  /** The agent's path, or that of the parent and "/*". */
  readonly key: string;
  readonly branch: Branch;
  /** How many agents a row for several agents contains. */
  readonly crowd?: number;
  /** How many agents are folded below it. */
  readonly hidden: number;
  readonly open: boolean;
  readonly children: readonly Item[];
  readonly level: number;
  readonly place: number;
  readonly among: number;
}

/** What a reader has folded (false) and unfolded (true), by key. */
export type Folds = ReadonlyMap<string, boolean>;

/** A tree with more agents than this folds. */
export const few = 40;
/** More children than this become one row. */
export const handful = 12;

export const crowdOf = (path: string): string => `${path}/*`;

export function branchOf(agent: Agent, parent?: Branch, inner = false): Branch {
  const made = { agent, level: (parent?.level ?? 0) + 1, children: [] as Branch[], size: 1, parent, inner };
  for (const child of agent.subAgents ?? []) made.children.push(branchOf(child, made));
  for (const child of agent.agents ?? []) made.children.push(branchOf(child, made, true));
  for (const child of made.children) made.size += child.size;
  return made;
}

export function depthOf(branch: Branch): number {
  return Math.max(branch.level, ...branch.children.map(depthOf));
}

/** All agents from the top, in the order of the files. */
export function* everyone(branch: Branch): Generator<Branch> {
  yield branch;
  for (const child of branch.children) yield* everyone(child);
}

/** Whether an agent matches a search. */
export function matches(agent: Agent, words: string): boolean {
  const text = `${agent.path} ${agent.kind} ${agent.description ?? ""} ${agent.tools?.join(" ") ?? ""}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** What is drawn of a tree. `shown` are the paths of agents that are never folded away. */
export function itemsOf(root: Branch, folds: Folds, shown: ReadonlySet<string>, search: string): Item | undefined {
  const large = root.size > few;
  const looked = search.trim();
  const keep = new Map<Branch, boolean>();
  const kept = (b: Branch): boolean => {
    let yes = keep.get(b);
    if (yes !== undefined) return yes;
    yes = looked === "" ? shown.has(b.agent.path) : matches(b.agent, looked);
    for (const child of b.children) yes = kept(child) || yes;
    keep.set(b, yes);
    return yes;
  };
  const item = (branch: Branch, place: number, among: number): Item => {
    const { path } = branch.agent;
    const base = { key: path, branch, level: branch.level, place, among };
    const below = branch.children.filter((b) => looked === "" || kept(b));
    if (below.length === 0) return { ...base, open: false, hidden: 0, children: [] };
    const must = looked !== "" || below.some(kept);
    const open = folds.get(path) ?? (!large || branch.level === 1 || must);
    if (!open && looked === "") return { ...base, open, hidden: branch.size - 1, children: [] };
    const crowded = looked === "" && below.length > handful && folds.get(crowdOf(path)) !== true;
    const single = crowded ? below.filter(kept) : below;
    const rest = crowded ? below.filter((b) => !kept(b)) : [];
    const all = single.length + (rest.length > 0 ? 1 : 0);
    const children = single.map((b, i) => item(b, i + 1, all));
    if (rest.length > 0) {
      const crowd = rest.reduce((sum, b) => sum + b.size, 0);
      const row = { key: crowdOf(path), branch, crowd, hidden: crowd, open: false, children: [] };
      children.push({ ...row, level: branch.level + 1, place: all, among: all });
    }
    return { ...base, open: true, hidden: 0, children };
  };
  return looked !== "" && !kept(root) ? undefined : item(root, 1, 1);
}

/** The size of a box, and how far boxes are apart, in pixels. */
export const box = { width: 124, height: 32, right: 164, down: 40 };

export interface Placed {
  readonly item: Item;
  readonly x: number;
  readonly y: number;
  readonly parent: string | undefined;
}

export interface Drawn {
  /** In the order of the files, by key. */
  readonly items: ReadonlyMap<string, Placed>;
  readonly width: number;
  readonly height: number;
}

/** Finds the places: depth is the column, and a parent is at the middle of its children. */
export function layout(root: Item | undefined, alone: readonly Item[] = []): Drawn {
  const items = new Map<string, Placed>();
  let [top, bottom, right] = [0, 0, 0];
  if (root !== undefined) {
    const nodes = tidy<Item>()
      .nodeSize([box.down, box.right])
      .separation((a, b) => (a.parent === b.parent ? 1 : 1.25))(hierarchy(root, (i) => i.children as Item[]));
    nodes.eachBefore((n) => {
      items.set(n.data.key, { item: n.data, x: n.y, y: n.x, parent: n.parent?.data.key });
      top = Math.min(top, n.x);
      bottom = Math.max(bottom, n.x);
      right = Math.max(right, n.y);
    });
    bottom += box.down;
  }
  for (const item of alone) {
    items.set(item.key, { item, x: 0, y: bottom, parent: undefined });
    bottom += box.down;
  }
  for (const [key, p] of items) items.set(key, { ...p, x: Math.round(p.x) + 8, y: Math.round(p.y - top) + 8 });
  return { items, width: right + box.width + 16 + 24, height: bottom - top - box.down + box.height + 16 };
}

/** The item that shows an agent: its own, or the nearest one that it is folded into. */
export function standsIn(drawn: Drawn, branch: Branch | undefined): Placed | undefined {
  for (let b = branch; b !== undefined; b = b.parent) {
    const own = drawn.items.get(b.agent.path) ?? (b.parent && drawn.items.get(crowdOf(b.parent.agent.path)));
    if (own !== undefined) return own;
  }
  return undefined;
}

type Point = readonly [x: number, y: number];

/** From the right of one box to the left of another, or around the right if they share a column. */
function curve(from: Placed, to: Placed): readonly [Point, Point, Point, Point] {
  const [a, b] = [from.y + box.height / 2, to.y + box.height / 2];
  if (from.x === to.x) {
    const x = from.x + box.width;
    const out = x + Math.min(40, 20 + Math.abs(b - a) / 8);
    return [[x, a], [out, a], [out, b], [x, b]];
  }
  const [start, end] = from.x < to.x ? [from.x + box.width, to.x] : [from.x, to.x + box.width];
  const middle = (start + end) / 2;
  return [[start, a], [middle, a], [middle, b], [end, b]];
}

/** The way from one box to another, as SVG has it. */
export function way(from: Placed, to: Placed): string {
  const [a, b, c, d] = curve(from, to);
  return `M${a.join(" ")}C${b.join(" ")} ${c.join(" ")} ${d.join(" ")}`;
}

/** The point on a line after a share of it, from 0 to 1. */
export function along(from: Placed, to: Placed, t: number): { readonly x: number; readonly y: number } {
  const points = curve(from, to);
  const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  const sum = (axis: 0 | 1): number => points.reduce((all, p, i) => all + p[axis] * weights[i]!, 0);
  return { x: sum(0), y: sum(1) };
}
