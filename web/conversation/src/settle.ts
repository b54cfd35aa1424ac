import { type Draft, at, changeItem, changeRun, eventKey, none, runAt } from "./state.js";

/**
 * Moves a block whose stored event has arrived after its deltas to the end of its run
 * and of the list of nodes: other nodes were completed since the first delta, and come
 * before it in the log. So a graph that received the deltas equals the graph of the
 * log, which has none.
 */
export function settle(d: Draft, place: number): void {
  const item = at(d, place);
  const end = d.nodes.length;
  const run = runAt(d, item.run);
  let { first } = run;
  let { prev } = item;
  if (item.next !== none) {
    // Take it out of the chain, and append it.
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
