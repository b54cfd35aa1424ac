import type { Content } from "./node.js";
import { Trie } from "./trie.js";
import { Vector } from "./vector.js";

/** The place of a node or run that does not exist. */
export const none = -1;

/**
 * The content of a graph. Nodes and runs have places, which are numbers in the order in
 * which they were first seen; a place is never used again. Everything is immutable.
 */
export interface State {
  readonly family: object | null; // the same for all graphs that have grown from one first event
  readonly nodes: Vector<Item | null>; // null where a node was discarded
  readonly runs: Vector<Run>;
  readonly size: number; // nodes that are not null
  readonly whole: number; // the highest place of a complete node
  readonly byId: Trie<number>; // nodes by id
  readonly byEvent: Trie<number>; // usage and error nodes, see eventKey; some entries are outdated
  readonly byRun: Trie<number>; // runs by id
  readonly waiting: Trie<List>; // runs by the id of the parent that does not exist yet; some entries are outdated
}

/** A state that is not shared yet, so it can be changed. */
export type Draft = { -readonly [K in keyof State]: State[K] } & {
  own: Own | null; // while several events change it
};

// The nodes and runs that belong to one draft only, which changes them in place: the
// new ones, which begin at a place, and copies.
interface Own {
  readonly nodesFrom: number;
  readonly nodes: Set<number>;
  readonly runsFrom: number;
  readonly runs: Set<number>;
  run: number; // the run of the last event
}

/** Returns a draft for one event. */
export function draftOf(s: State): Draft {
  const { family, nodes, runs, size, whole, byId, byEvent, byRun, waiting } = s;
  return { family: family ?? {}, nodes, runs, size, whole, byId, byEvent, byRun, waiting, own: null };
}

/** Returns a draft for many events. It copies what it changes once. Call closeDraft at the end. */
export function openDraft(s: State): Draft {
  const d = draftOf(s);
  for (const part of ["nodes", "runs", "byId", "byEvent", "byRun", "waiting"] as const) (d[part] as { edit(): unknown }) = d[part].edit();
  d.own = { nodesFrom: s.nodes.length, nodes: new Set(), runsFrom: s.runs.length, runs: new Set(), run: none };
  return d;
}

export function closeDraft(d: Draft): State {
  for (const part of ["nodes", "runs", "byId", "byEvent", "byRun", "waiting"] as const) d[part].done();
  d.own = null;
  return d;
}

/** A node and its links. */
export interface Item {
  readonly content: Content;
  readonly run: number;
  readonly prev: number; // in the run
  readonly next: number; // in the run
  readonly spawned: List | null; // runs whose parent is this node, the latest first
  readonly complete: boolean; // the complete event has arrived
  readonly streamed: boolean; // deltas have arrived
}

/** A list of runs. */
export interface List {
  readonly run: number;
  readonly rest: List | null;
}

export interface Run {
  readonly id: string;
  readonly first: number; // nodes; none if all were discarded
  readonly last: number;
  readonly parent: number; // a node, or none
  readonly waitsFor: string; // the id of the parent that does not exist yet
  readonly open: number; // the number of incomplete nodes
  readonly seq: number; // the highest one of its events
  readonly usages: number;
  readonly errors: number;
}

export const noState: State = {
  family: null,
  nodes: Vector.empty(),
  runs: Vector.empty(),
  size: 0,
  whole: 0,
  byId: Trie.empty(),
  byEvent: Trie.empty(),
  byRun: Trie.empty(),
  waiting: Trie.empty(),
};

/** Returns the key of a usage or error node in byEvent, by the id of its event. */
export function eventKey(kind: string, run: number, id: string): string {
  return `${kind} ${run} ${id}`;
}

/** Returns the node at a place, which must exist. */
export function at(s: State, place: number): Item {
  const item = s.nodes.get(place);
  if (!item) throw new Error(`conversation: no node at ${place}`); // the state is broken
  return item;
}

export function runAt(s: State, place: number): Run {
  const run = s.runs.get(place);
  if (!run) throw new Error(`conversation: no run at ${place}`); // the state is broken
  return run;
}

// The copies below name each member, which is several times as fast as spreading an
// object. They are made for every event.

/** Changes a node's links or its content. */
export function changeItem(d: Draft, place: number, change: Partial<Item>): void {
  const item: { -readonly [K in keyof Item]: Item[K] } = at(d, place);
  const { own } = d;
  if (own !== null && (place >= own.nodesFrom || own.nodes.has(place))) {
    if (change.content !== undefined) item.content = change.content;
    if (change.prev !== undefined) item.prev = change.prev;
    if (change.next !== undefined) item.next = change.next;
    if (change.spawned !== undefined) item.spawned = change.spawned;
    if (change.complete !== undefined) item.complete = change.complete;
    if (change.streamed !== undefined) item.streamed = change.streamed;
    return;
  }
  own?.nodes.add(place);
  d.nodes = d.nodes.set(place, {
    content: change.content ?? item.content,
    run: item.run,
    prev: change.prev ?? item.prev,
    next: change.next ?? item.next,
    spawned: change.spawned ?? item.spawned,
    complete: change.complete ?? item.complete,
    streamed: change.streamed ?? item.streamed,
  });
}

export function changeRun(d: Draft, place: number, change: Partial<Run>): void {
  const run: { -readonly [K in keyof Run]: Run[K] } = runAt(d, place);
  const { own } = d;
  if (own !== null && (place >= own.runsFrom || own.runs.has(place))) {
    if (change.first !== undefined) run.first = change.first;
    if (change.last !== undefined) run.last = change.last;
    if (change.parent !== undefined) run.parent = change.parent;
    if (change.waitsFor !== undefined) run.waitsFor = change.waitsFor;
    if (change.open !== undefined) run.open = change.open;
    if (change.seq !== undefined) run.seq = change.seq;
    if (change.usages !== undefined) run.usages = change.usages;
    if (change.errors !== undefined) run.errors = change.errors;
    return;
  }
  own?.runs.add(place);
  d.runs = d.runs.set(place, {
    id: run.id,
    first: change.first ?? run.first,
    last: change.last ?? run.last,
    parent: change.parent ?? run.parent,
    waitsFor: change.waitsFor ?? run.waitsFor,
    open: change.open ?? run.open,
    seq: change.seq ?? run.seq,
    usages: change.usages ?? run.usages,
    errors: change.errors ?? run.errors,
  });
}

/** Returns the place of a node, or none. */
export function find(s: State, id: string): number {
  return s.byId.get(id) ?? none;
}

/** Returns the place of a run, or none. */
export function findRun(s: State, id: string): number {
  return s.byRun.get(id) ?? none;
}

/**
 * Returns the place of a run's node, or none and the id that a new node would have. If
 * another run has the id, the run's id is put in front.
 */
export function owned(s: State, ri: number, runId: string, id: string): { place: number; id: string } {
  for (;;) {
    const place = find(s, id);
    if (place === none || at(s, place).run === ri) return { place, id };
    id = `${runId}:${id}`;
  }
}

/** Returns the place of a node's parent, or none. */
export function parentOf(s: State, item: Item): number {
  return item.prev !== none ? item.prev : runAt(s, item.run).parent;
}

/** Returns the places of a node's children in the order in which they were first seen. */
export function childrenOf(s: State, item: Item): number[] {
  const found: number[] = [];
  for (let list = item.spawned; list !== null; list = list.rest) {
    const { first } = runAt(s, list.run);
    if (first !== none) found.push(first);
  }
  if (item.next !== none) found.push(item.next);
  return found.length > 1 ? found.sort((a, b) => a - b) : found;
}

/** Yields the places and nodes of a run in their order. */
export function* inRun(s: State, run: number): Generator<[number, Item]> {
  for (let place = runAt(s, run).first; place !== none; ) {
    const item = at(s, place);
    yield [place, item];
    place = item.next;
  }
}
