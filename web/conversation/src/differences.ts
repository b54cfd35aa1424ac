import { type Item, type Run, type State, find, none, runAt } from "./state.js";

/** What a change of a graph can change in the runs that are shown. */
export interface Marks {
  /** The text of a block of a run has changed. */
  words(ri: number, place: number): void;
  /** A node of a run has changed in another way. */
  said(ri: number): void;
  /** A run has gained or lost nodes, or runs below it. */
  grew(ri: number): void;
  /** The runs without a parent, or their order, have changed. */
  beginnings(): void;
  /** Anything may have changed. */
  everything(): void;
}

/**
 * Marks the differences between two states. If one has grown from the other, this takes
 * time in proportion to the number of nodes and runs that differ. Rare changes, such as
 * another parent or another first node of a run, mark everything.
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

// markCalls marks the run of the call that a node is the result of, because the call
// may now have another result.
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
