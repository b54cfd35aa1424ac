import { type Item, type State, at, none, owned, runAt } from "./state.js";

/**
 * Drops the nodes of a run with the ids that a discard names: the block, or the
 * call and its result. Another run's nodes stay.
 */
export function discard(s: State, ri: number, ids: readonly string[]): State {
  const runId = runAt(s, ri).id;
  for (const id of ids) {
    const named = owned(s, ri, runId, id);
    const result = owned(s, ri, runId, named.id + ":result");
    if (named.place !== none) s = drop(s, named.place);
    if (result.place !== none) s = drop(s, result.place);
  }
  return s;
}

/**
 * Takes out the blocks of a run whose stored events have not come, when the run's
 * end has: nobody was there to discard them, because the turn was cut off, and
 * nothing completes them any more.
 */
export function dropOpen(s: State, ri: number): State {
  for (let place = runAt(s, ri).last; place !== none && runAt(s, ri).open > 0; ) {
    const item = at(s, place);
    if (!item.complete) s = drop(s, place);
    place = item.prev;
  }
  return s;
}

// drop takes a node out: what came after it follows what came before it. Runs
// that hang on it hang on its parent then, or on nothing if it has none.
function drop(s: State, place: number): State {
  const { content, run: ri, prev, next, spawned, complete } = at(s, place);
  let { nodes, runs } = s;
  const run = runAt(s, ri);
  const change = (place: number, change: Partial<Item>): void => {
    nodes = nodes.set(place, { ...nodes.get(place)!, ...change });
  };
  if (prev !== none) change(prev, { next });
  if (next !== none) change(next, { prev });
  runs = runs.set(ri, {
    ...run,
    first: prev === none ? next : run.first,
    last: next === none ? prev : run.last,
    open: complete ? run.open : run.open - 1,
  });
  nodes = nodes.set(place, null);

  const parent = prev !== none ? prev : run.parent;
  for (let list = spawned; list !== null; list = list.rest) {
    runs = runs.set(list.run, { ...runs.get(list.run)!, parent });
    if (parent !== none) change(parent, { spawned: { run: list.run, rest: nodes.get(parent)!.spawned } });
  }
  return { ...s, nodes, runs, byId: s.byId.remove(content.id), size: s.size - 1 };
}
