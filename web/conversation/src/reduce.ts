import { discard, dropOpen } from "./discard.js";
import { type Event, type Read, parseEvent, readEvent } from "./event.js";
import { Graph } from "./graph.js";
import { Content, isBlock } from "./node.js";
import { settle } from "./settle.js";
import { type Run, type State, at, eventKey, find, findRun, none, owned, runAt } from "./state.js";

/**
 * Returns the graph with an event. The graph itself stays as it was. An event
 * that changes nothing returns the graph itself: one of a type that makes no
 * node, one without a runId, or one that was seen before.
 */
export function reduce(graph: Graph, event: Event): Graph {
  return reduceRead(graph, readEvent(event));
}

/**
 * Does the same for an event as text, one JSON object, and keeps the payload as it
 * was written: stringify writes 12345678901234567890 and 2.50 again, and members
 * in their order. Throws a SyntaxError if the text is no JSON object.
 */
export function reduceJSON(graph: Graph, text: string): Graph {
  return reduceRead(graph, parseEvent(text));
}

function reduceRead(graph: Graph, e: Read): Graph {
  const before = graph.state;
  if (e.runId === "") return graph;
  const ri = findRun(before, e.runId);
  if (ri !== none && e.seq > 0 && e.seq <= runAt(before, ri).seq) return graph;
  let after = before;
  if (e.kind !== undefined) {
    after = take(before, ri, e);
  } else if (e.type === "discard" && ri !== none) {
    after = discard(before, ri, e.ids);
  } else if (e.type === "relay_resolved") {
    after = resolve(before, ri, e);
  }
  if (after === before) return graph;
  if (e.kind === undefined && ri !== none) after = saw(after, ri, e.seq);
  return new Graph(after);
}

// The functions below return another state, or the same one if nothing changes.

// saw notes the last seq of a run.
function saw(s: State, ri: number, seq: number): State {
  const run = runAt(s, ri);
  return seq > run.seq ? { ...s, runs: s.runs.set(ri, { ...run, seq }) } : s;
}

// take adds a node for an event, or changes the one that is there.
function take(before: State, ri: number, e: Read): State {
  let s = before;
  if (ri === none) {
    ri = s.runs.length;
    const run: Run = { id: e.runId, first: none, last: none, parent: none, waitsFor: "", open: 0, seq: 0, usages: 0, errors: 0 };
    s = { ...s, runs: s.runs.push(run), byRun: s.byRun.set(e.runId, ri) };
  }
  const run = runAt(s, ri);
  const { place, id, usages, errors } = placeOf(s, ri, run, e);
  if (e.seq > run.seq || usages !== run.usages || errors !== run.errors) {
    s = { ...s, runs: s.runs.set(ri, { ...run, seq: Math.max(run.seq, e.seq), usages, errors }) };
  }
  if (place === none) {
    if (e.kind === "harness_end" && e.seq > 0) s = dropOpen(s, ri);
    return append(s, ri, id, e);
  }

  const item = at(s, place);
  const old = item.content;
  if (e.partial && item.complete) return before; // a delta that comes late
  let { content, streamed } = item;
  if (!isBlock(old.kind) || old.kind !== e.kind || (!e.partial && streamed)) {
    // Something whole stands for what was there. What was decided about a relay
    // is not undecided by it.
    const same = old.kind === e.kind;
    if (!same) streamed = e.partial;
    content = contentOf(old.id, e, same ? old.state : "");
  } else {
    content = old.plus(e.fields);
  }
  const changed = { ...item, content, complete: item.complete || !e.partial, streamed: streamed || e.partial };
  s = {
    ...s,
    nodes: s.nodes.set(place, changed),
    byEvent: content.event === "" ? s.byEvent : s.byEvent.set(eventKey(content.kind, ri, content.event), place),
  };
  if (item.complete || e.partial) return s;
  s = { ...s, runs: s.runs.set(ri, { ...runAt(s, ri), open: run.open - 1 }) };
  if (e.seq > 0 && place < s.whole) s = settle(s, place);
  return { ...s, whole: Math.max(s.whole, find(s, content.id)) };
}

function contentOf(id: string, e: Read, state: "" | "approved" | "denied"): Content {
  const kind = e.kind!;
  const event = kind === "usage" || kind === "error" ? e.id : "";
  return new Content(id, e.runId, kind, e.fields, e.agent, e.path, e.seq, e.time, event, state);
}

// Where the node of an event is: its place, or none and the id of a new one, and
// the run's counters.
interface Destination {
  place: number;
  id: string;
  usages: number;
  errors: number;
}

function placeOf(s: State, ri: number, run: Run, e: Read): Destination {
  let { usages, errors } = run;
  let id = e.id;
  switch (e.kind) {
    case "usage":
    case "error": {
      const known = e.id === "" ? undefined : s.byEvent.get(eventKey(e.kind, ri, e.id));
      const content = known === undefined ? undefined : s.nodes.get(known)?.content;
      if (known !== undefined && content?.kind === e.kind && content.event === e.id) {
        return { place: known, id: "", usages, errors };
      }
      if (e.kind === "usage") {
        id = `${run.id}:usage:${++usages}`;
      } else {
        id = `${run.id}:error` + (++errors > 1 ? `:${errors}` : "");
      }
      break;
    }
    case "tool_result":
      if (id !== "") {
        const call = owned(s, ri, run.id, id);
        id = (call.place === none ? id : call.id) + ":result"; // it may be the result of no call of this run
      }
      break;
    case "user":
    case "harness_start":
    case "harness_end":
      id = "";
      break;
  }
  if (id === "") id = `${run.id}:${e.kind}`;
  return { ...owned(s, ri, run.id, id), usages, errors };
}

// append adds a node at the end of its run.
function append(s: State, ri: number, id: string, e: Read): State {
  const place = s.nodes.length;
  const content = contentOf(id, e, "");
  const run = runAt(s, ri);
  const isFirst = run.first === none;
  const hangs = isFirst && run.parent === none && e.parentId !== "";
  const parent = hangs ? named(s, e.parentId) : none;
  let { nodes, byEvent } = s;
  if (!isFirst) nodes = nodes.set(run.last, { ...at(s, run.last), next: place });
  nodes = nodes.push({ content, run: ri, prev: run.last, next: none, spawned: null, complete: !e.partial, streamed: e.partial });
  if (content.event !== "") byEvent = byEvent.set(eventKey(content.kind, ri, content.event), place);
  const grown: Run = { ...run, first: isFirst ? place : run.first, last: place, open: run.open + (e.partial ? 1 : 0) };
  s = {
    ...s,
    nodes,
    byEvent,
    runs: s.runs.set(ri, grown),
    byId: s.byId.set(id, place),
    size: s.size + 1,
    whole: e.partial ? s.whole : place,
  };
  if (hangs) s = parent === none ? wait(s, ri, e.parentId) : link(s, ri, parent); // nothing is below the run yet
  s = arrived(s, id, place);
  s = arrived(s, `${run.id}:${id}`, place);
  return isFirst ? arrived(s, run.id, place) : s;
}

// named returns the place of the node that a parentId means, or none: the node of
// that id; or, as RUN:ID, that run's node ID, where several runs have one of the
// id; or a run's last node.
function named(s: State, parentId: string): number {
  const place = find(s, parentId);
  if (place !== none) return place;
  for (let i = parentId.indexOf(":"); i >= 0; i = parentId.indexOf(":", i + 1)) {
    const ri = findRun(s, parentId.slice(0, i));
    const place = ri === none ? none : find(s, parentId.slice(i + 1));
    if (place !== none && at(s, place).run === ri) return place;
  }
  const ri = findRun(s, parentId);
  return ri === none ? none : runAt(s, ri).last;
}

// wait notes that the parent of a run is not there yet.
function wait(s: State, ri: number, parentId: string): State {
  return {
    ...s,
    runs: s.runs.set(ri, { ...runAt(s, ri), waitsFor: parentId }),
    waiting: s.waiting.set(parentId, { run: ri, rest: s.waiting.get(parentId) ?? null }),
  };
}

// link hangs a run on a node.
function link(s: State, ri: number, parent: number): State {
  const above = at(s, parent);
  return {
    ...s,
    nodes: s.nodes.set(parent, { ...above, spawned: { run: ri, rest: above.spawned } }),
    runs: s.runs.set(ri, { ...runAt(s, ri), parent, waitsFor: "" }),
  };
}

// arrived completes the edges of the runs that wait for an id. An edge that would
// close a circle is left out for good.
function arrived(s: State, id: string, place: number): State {
  let list = s.waiting.get(id) ?? null;
  if (list === null) return s;
  // This walk is the only thing whose cost depends on the graph: on how many runs
  // hang on each other above a parent that came late.
  const above = new Set<number>();
  for (let node = place; node !== none; node = runAt(s, at(s, node).run).parent) above.add(at(s, node).run);
  for (; list !== null; list = list.rest) {
    const run = runAt(s, list.run);
    if (run.waitsFor !== id) continue;
    s = above.has(list.run) ? { ...s, runs: s.runs.set(list.run, { ...run, waitsFor: "" }) } : link(s, list.run, place);
  }
  return { ...s, waiting: s.waiting.remove(id) };
}

// resolve sets the state of a relay.
function resolve(s: State, ri: number, e: Read): State {
  let { place } = owned(s, ri, e.runId, e.relayId);
  if (place === none) place = find(s, e.relayId); // another run's
  if (place === none) return s;
  const item = at(s, place);
  if (item.content.kind !== "relay") return s;
  const content = item.content.with({ state: e.approved ? "approved" : "denied" });
  return { ...s, nodes: s.nodes.set(place, { ...item, content }) };
}
