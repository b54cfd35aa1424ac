// Each function returns another path; none removes anything from a graph. For an id
// that names no node they throw a RangeError.
import type { Graph } from "./graph.js";
import { type Active, Path } from "./path.js";
import { reduce } from "./reduce.js";
import { find, findRun, none, runAt } from "./state.js";

// at returns a path that can be changed, and the place and run of a node.
function at(graph: Graph, active: Active, id: string): { path: Path; place: number; ri: number } {
  const place = find(graph.state, id);
  if (place === none) throw new RangeError(`conversation: no such node: ${JSON.stringify(id)}`);
  const path = new Path(graph.state, active);
  return { path, place, ri: path.item(place).run };
}

/** Returns the path that leads through a node. After the node it is unchanged, unless the old path left the run before the node. */
export function switchTo(graph: Graph, active: Active, id: string): Active {
  const { path, place, ri } = at(graph, active, id);
  lead(path, ri, place);
  return path.active();
}

function lead(path: Path, ri: number, place: number): void {
  keep(path, ri, place);
  for (let { parent } = runAt(path.s, ri); parent !== none; { parent } = runAt(path.s, ri)) {
    const above = path.item(parent).run;
    if (path.follows(ri)) {
      path.next.set(path.id(above), path.id(ri));
      path.ends.delete(path.id(above));
    } else {
      keep(path, above, parent);
    }
    ri = above;
  }
  const { before, after } = path.beginnings();
  for (; ri !== none; ri = before.get(ri)!) {
    const beside = after.get(before.get(ri)!)!;
    if (beside.length < 2) continue;
    for (const other of beside) path.begins.delete(path.id(other));
    path.begins.add(path.id(ri));
  }
}

// keep changes what follows a run if the path leaves the run before a node of it: then
// the newest run that follows after the node follows, or none.
function keep(path: Path, ri: number, place: number): void {
  const counts = (cut: number): boolean => cut === none || cut >= place; // the nodes of a run are in the order of their places
  if (counts(path.cut(ri, path.follower(ri)))) return;
  const run = path.id(ri);
  path.next.delete(run);
  path.ends.delete(run);
  const all = path.followers(ri);
  const behind = all.filter((next) => counts(path.cut(ri, next))).at(-1);
  if (behind !== undefined) path.next.set(run, path.id(behind));
  else path.ends.set(run, { node: "", without: new Set(all.map((next) => path.id(next))) });
}

/** Returns the path that ends at a node. The next event starts a new branch there, with the node's id as its parentId. */
export function branch(graph: Graph, active: Active, id: string): Active {
  const { path, place, ri } = at(graph, active, id);
  lead(path, ri, place);
  path.next.delete(path.id(ri));
  path.ends.set(path.id(ri), { node: id, without: new Set(path.followers(ri).map((next) => path.id(next))) });
  return path.active();
}

/**
 * Adds an alternative to a user message: returns the graph with a user node of a new
 * run that has the same parent, and the path that leads through it. It throws a
 * RangeError if there is no such message, or if the run exists.
 */
export function edit(graph: Graph, active: Active, id: string, runId: string, content: unknown): { graph: Graph; active: Active } {
  const { path, place, ri } = at(graph, active, id);
  const item = path.item(place);
  if (item.content.kind !== "user" || item.prev !== none) throw new RangeError(`conversation: no message of the user: ${JSON.stringify(id)}`);
  if (runId === "" || findRun(graph.state, runId) !== none) throw new RangeError(`conversation: the run exists: ${JSON.stringify(runId)}`);
  const run = runAt(graph.state, ri);
  const parentId = run.parent === none ? run.waitsFor : path.item(run.parent).content.id;
  const edited = reduce(graph, { type: "user", runId, parentId, agent: "user", content });
  if (run.parent === none) path.beside.set(runId, run.id);
  return { graph: edited, active: switchTo(edited, path.active(), edited.last(runId)!.id) };
}

/** Returns the path on which the run of a node is reduced to its text, without calls, results, reasoning and sub-agents. */
export function collapse(graph: Graph, active: Active, id: string): Active {
  const { path, ri } = at(graph, active, id);
  path.collapsed.add(path.id(ri));
  return path.active();
}

/** Returns the path on which a text replaces the run of a node and all runs before it. */
export function summarize(graph: Graph, active: Active, id: string, summary: string): Active {
  const { path, ri } = at(graph, active, id);
  path.summaries.set(path.id(ri), summary);
  return path.active();
}

/** Returns the path on which the run of a node is shown in full. It undoes collapse and summarize. */
export function expand(graph: Graph, active: Active, id: string): Active {
  const { path, ri } = at(graph, active, id);
  let outer = ri; // the run that is on the path itself
  path.collapsed.delete(path.id(outer));
  let above = ri;
  for (let { parent } = runAt(path.s, above); parent !== none; { parent } = runAt(path.s, above)) {
    const next = path.item(parent).run;
    if (!path.follows(above)) {
      outer = next;
      path.collapsed.delete(path.id(outer));
    }
    above = next;
  }
  let hidden = false;
  for (const step of path.steps()) {
    hidden ||= step.run === outer;
    if (hidden) path.summaries.delete(path.id(step.run));
  }
  return path.active();
}

/** Returns the id of the node at which the path ends, which is the parentId of the next event. It is "" for an empty graph. */
export function tip(graph: Graph, active: Active = {}): string {
  const path = new Path(graph.state, active);
  const last = path.steps().at(-1);
  if (last === undefined) return "";
  if (last.cut !== none) return path.item(last.cut).content.id;
  const end = find(path.s, `${path.id(last.run)}:harness_end`);
  if (end !== none && path.item(end).run === last.run) return path.item(end).content.id; // results may arrive after it
  return path.item(runAt(path.s, last.run).last).content.id;
}
