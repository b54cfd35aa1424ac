import { type Item, type State, at, eventKey, none, runAt } from "./state.js";

/**
 * Moves a block of whose deltas the stored event has come to the end of its run
 * and of the list of nodes: other nodes have become whole since the first delta,
 * and stand before it in the log. So the graph of somebody who saw the deltas is
 * that of the log, which has none.
 */
export function settle(s: State, place: number): State {
  const item = at(s, place);
  const end = s.nodes.length;
  let { nodes, runs } = s;
  const change = (place: number, change: Partial<Item>): void => {
    nodes = nodes.set(place, { ...nodes.get(place)!, ...change });
  };
  const run = runAt(s, item.run);
  let { first } = run;
  let { prev } = item;
  if (item.next !== none) {
    // Out of the chain, and behind its last node.
    if (prev === none) first = item.next;
    else change(prev, { next: item.next });
    change(item.next, { prev });
    prev = run.last;
  }
  if (prev === none) first = end;
  else change(prev, { next: end });
  nodes = nodes.set(place, null).push({ ...item, prev, next: none });
  runs = runs.set(item.run, { ...run, first, last: end });
  for (let list = item.spawned; list !== null; list = list.rest) {
    runs = runs.set(list.run, { ...runs.get(list.run)!, parent: end });
  }
  const { id, kind, event } = item.content;
  const byEvent = event === "" ? s.byEvent : s.byEvent.set(eventKey(kind, item.run, event), end);
  return { ...s, nodes, runs, byId: s.byId.set(id, end), byEvent };
}
