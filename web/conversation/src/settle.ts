import { type Draft, at, changeItem, changeRun, eventKey, none, runAt } from "./state.js";

/**
 * Moves a block of whose deltas the stored event has come to the end of its run
 * and of the list of nodes: other nodes have become whole since the first delta,
 * and stand before it in the log. So the graph of somebody who saw the deltas is
 * that of the log, which has none.
 */
export function settle(d: Draft, place: number): void {
  const item = at(d, place);
  const end = d.nodes.length;
  const run = runAt(d, item.run);
  let { first } = run;
  let { prev } = item;
  if (item.next !== none) {
    // Out of the chain, and behind its last node.
    if (prev === none) first = item.next;
    else changeItem(d, prev, { next: item.next });
    changeItem(d, item.next, { prev });
    prev = run.last;
  }
  if (prev === none) first = end;
  else changeItem(d, prev, { next: end });
  d.nodes = d.nodes.set(place, null).push({ ...item, prev, next: none });
  changeRun(d, item.run, { first, last: end });
  for (let list = item.spawned; list !== null; list = list.rest) changeRun(d, list.run, { parent: end });
  const { id, kind, event } = item.content;
  d.byId = d.byId.set(id, end);
  if (event !== "") d.byEvent = d.byEvent.set(eventKey(kind, item.run, event), end);
}
