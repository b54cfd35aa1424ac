import { type Draft, at, changeItem, changeRun, none, owned, runAt } from "./state.js";

/**
 * Drops the nodes of a run with the ids that a discard names: the block, or the
 * call and its result. Another run's nodes stay. Says whether anything changed.
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
 * Takes out the blocks of a run whose stored events have not come, when the run's
 * end has, or another process takes the run over: nobody was there to discard them,
 * because the turn was cut off, and nothing completes them any more.
 */
export function dropOpen(d: Draft, ri: number): void {
  for (let place = runAt(d, ri).last; place !== none && runAt(d, ri).open > 0; ) {
    const item = at(d, place);
    if (!item.complete) drop(d, place);
    place = item.prev;
  }
}

// drop takes a node out: what came after it follows what came before it. Runs
// that hang on it hang on its parent then, or on nothing if it has none.
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
