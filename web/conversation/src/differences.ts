import { type Item, type Run, type State, find, none, runAt } from "./state.js";

/** What a change of a graph can change about the runs that are shown. */
export interface Marks {
  /** A block at a place of a run has other words. */
  words(ri: number, place: number): void;
  /** A run says something else. */
  said(ri: number): void;
  /** Other nodes are in a run, or other runs hang on it. */
  grew(ri: number): void;
  /** There are other runs without a parent, or they stand otherwise. */
  beginnings(): void;
  /** Anything can be otherwise. */
  everything(): void;
}

/**
 * Marks what differs between two states, in time proportional to the number of nodes
 * and runs that do, if one has grown from the other. What seldom happens, as that a
 * run gets another parent or begins with another node, marks everything.
 */
export function markDifferences(old: State, now: State, to: Marks): void {
  old.runs.compare(now.runs, (_, before, after) => compareRuns(old, now, to, before, after));
  old.nodes.compare(now.nodes, (place, before, after) => compareItems(now, to, place, before ?? null, after ?? null));
}

function compareRuns(old: State, now: State, to: Marks, before: Run | undefined, after: Run | undefined): void {
  if (before !== undefined && after !== undefined && before.id !== after.id) to.everything(); // they have grown in different directions
  const was = before !== undefined && before.first !== none ? before : undefined;
  const is = after !== undefined && after.first !== none ? after : undefined;
  if (was !== undefined && is !== undefined) {
    if (was.first !== is.first || was.parent !== is.parent) to.everything();
    else if (is.parent === none && was.waitsFor !== is.waitsFor) to.beginnings();
    return;
  }
  for (const [s, run] of [[old, was], [now, is]] as const) {
    if (run === undefined) continue;
    const parent = run.parent === none ? null : s.nodes.get(run.parent);
    if (parent) to.grew(parent.run);
    else to.beginnings();
  }
}

function compareItems(now: State, to: Marks, place: number, before: Item | null, after: Item | null): void {
  if (before !== null) markCalls(now, to, before);
  if (after !== null && after.content.id !== before?.content.id) markCalls(now, to, after);
  if (before === null || after === null) {
    const only = before ?? after; // or it has come and gone
    if (only !== null) to.grew(only.run);
    return;
  }
  const was = before.content;
  const is = after.content;
  if (was.kind !== is.kind || was.id !== is.id || before.run !== after.run) to.everything();
  if (before.prev !== after.prev || before.next !== after.next || before.spawned !== after.spawned) to.grew(after.run);
  if (was === is) return;
  if (was.agent !== is.agent || was.path !== is.path || (was.kind === "user" && was.seq !== is.seq)) {
    if (runAt(now, after.run).first === place) to.everything();
  }
  if (is.kind === "text" || is.kind === "reasoning") to.words(after.run, place);
  else if (is.kind !== "usage") to.said(after.run);
}

// markCalls marks the run of the call of which a node is the result: it can be
// another one.
function markCalls(now: State, to: Marks, { content: { id, runId } }: Item): void {
  if (!id.endsWith(":result")) return;
  const call = id.slice(0, -":result".length);
  mark(call);
  if (call.startsWith(`${runId}:`)) mark(call.slice(runId.length + 1));

  function mark(id: string): void {
    const item = now.nodes.get(find(now, id));
    if (item) to.said(item.run);
  }
}
