import { type Draft, at, changeItem, changeRun, none, owned, runAt } from "./state.js";

/**
 * Removes the nodes of a run with the ids that a discard names: the block, or the call
 * and its result. Nodes of other runs remain. It reports whether anything changed.
 */
export function discard(d: Draft, ri: number, ids: readonly string[]): boolean {
  const { size } = d;
  const runId = runAt(d, ri).id;
  for (const id of ids) {
    const named = owned(d, ri, runId, id);
    const result = owned(d, ri, runId, named.id + ":result");
    if (named.place !== none) drop(d, named.place);
    if (result.place !== none) drop(d, result.place);
  }
  return d.size !== size;
}

/**
 * Removes the incomplete blocks of a run when the run ends or another process resumes
 * it: the turn was cut off before it could discard them, and nothing will complete
 * them.
 */
export function dropOpen(d: Draft, ri: number): void {
  for (let place = runAt(d, ri).last; place !== none && runAt(d, ri).open > 0; ) {
    const item = at(d, place);
    if (!item.complete) drop(d, place);
    place = item.prev;
  }
}

// drop removes a node and connects its neighbours. The runs whose parent it was get its
// own parent, or none.
function drop(d: Draft, place: number): void {
  const { content, run: ri, prev, next, spawned, complete } = at(d, place);
  const run = runAt(d, ri);
  if (prev !== none) changeItem(d, prev, { next });
  if (next !== none) changeItem(d, next, { prev });
  changeRun(d, ri, {
    first: prev === none ? next : run.first,
    last: next === none ? prev : run.last,
    open: complete ? run.open : run.open - 1,
  });
  d.nodes = d.nodes.set(place, null);
  d.byId = d.byId.remove(content.id);
  d.size--;
  const parent = prev !== none ? prev : run.parent;
  for (let list = spawned; list !== null; list = list.rest) {
    changeRun(d, list.run, { parent });
    if (parent !== none) changeItem(d, parent, { spawned: { run: list.run, rest: at(d, parent).spawned } });
  }
}
