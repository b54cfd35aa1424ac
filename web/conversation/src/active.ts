// Each function returns another path; nothing is ever taken out of a graph. An id
// that names no node is a RangeError.
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

/** The path that leads through a node. Its further way is as before, unless that turned off before the node. */
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

// keep changes what follows a run if it turns off before a node of the run: to the
// newest run that follows behind the node, or else to none.
function keep(path: Path, ri: number, place: number): void {
  const counts = (cut: number): boolean => cut === none || cut >= place; // places of a run are in its order
  if (counts(path.cut(ri, path.follower(ri)))) return;
  const run = path.id(ri);
  path.next.delete(run);
  path.ends.delete(run);
  const all = path.followers(ri);
  const behind = all.filter((next) => counts(path.cut(ri, next))).at(-1);
  if (behind !== undefined) path.next.set(run, path.id(behind));
  else path.ends.set(run, { node: "", without: new Set(all.map((next) => path.id(next))) });
}

/** The path that ends at a node, so that what comes next begins a new branch there: its parentId is the node's id. */
export function branch(graph: Graph, active: Active, id: string): Active {
  const { path, place, ri } = at(graph, active, id);
  lead(path, ri, place);
  path.next.delete(path.id(ri));
  path.ends.set(path.id(ri), { node: id, without: new Set(path.followers(ri).map((next) => path.id(next))) });
  return path.active();
}

/**
 * Puts another user message beside one that was sent: the graph with a user node
 * of a new run that has the same parent, and the path that leads through it. A
 * RangeError says that there is no such message, or that the run exists.
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

/** The path on which the run of a node is folded to what it said: without calls, results, reasoning and sub-agents. */
export function collapse(graph: Graph, active: Active, id: string): Active {
  const { path, ri } = at(graph, active, id);
  path.collapsed.add(path.id(ri));
  return path.active();
}

/** The path on which a text stands for the run of a node and for all that precedes it on the path. */
export function summarize(graph: Graph, active: Active, id: string, summary: string): Active {
  const { path, ri } = at(graph, active, id);
  path.summaries.set(path.id(ri), summary);
  return path.active();
}

/** The path on which the run of a node is shown in full: it undoes collapse and summarize. */
export function expand(graph: Graph, active: Active, id: string): Active {
  const { path, ri } = at(graph, active, id);
  let outer = ri; // the run on the path itself
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

/** The id of the node at which the path ends: the parentId of what comes next. It is "" for an empty graph. */
export function tip(graph: Graph, active: Active = {}): string {
  const path = new Path(graph.state, active);
  const last = path.steps().at(-1);
  if (last === undefined) return "";
  if (last.cut !== none) return path.item(last.cut).content.id;
  const end = find(path.s, `${path.id(last.run)}:harness_end`);
  if (end !== none && path.item(end).run === last.run) return path.item(end).content.id; // results can come later
  return path.item(runAt(path.s, last.run).last).content.id;
}
