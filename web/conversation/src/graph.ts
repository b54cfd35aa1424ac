import { quote } from "./json.js";
import type { Node } from "./node.js";
import { type State, at, childrenOf, find, findRun, inRun, noState, none, parentOf, runAt } from "./state.js";

/** A graph as JSON: what `arbor conversation reduce --project graph --json` prints. */
export interface Flat {
  /** In the order in which they were first seen. */
  readonly nodes: readonly Node[];
  /** The ids of the children of each node that has some, by its id. The object has no prototype, so that any id is safe as a key. */
  readonly edges: Readonly<Record<string, readonly string[]>>;
  /** This object has no prototype either. */
  readonly lastNodeByRunId: Readonly<Record<string, string>>;
}

/**
 * An immutable graph of events. {@link empty} is the first one, and reduce returns
 * larger ones. A node has at most one parent, and there are no cycles.
 */
export class Graph {
  /** @internal */
  constructor(
    /** @internal */
    readonly state: State,
  ) {}

  /** The number of nodes. */
  get size(): number {
    return this.state.size;
  }

  /** Returns the node with an id, or undefined. */
  node(id: string): Node | undefined {
    const place = find(this.state, id);
    return place === none ? undefined : this.nodeAt(place);
  }

  private nodeAt(place: number): Node {
    return at(this.state, place).content.node();
  }

  /** Reports whether a node's text is incomplete so far. */
  isStreaming(id: string): boolean {
    const place = find(this.state, id);
    return place !== none && !at(this.state, place).complete;
  }

  /** Yields all nodes in the order in which they were first seen. */
  *nodes(): Generator<Node, void> {
    for (const place of this.places()) yield this.nodeAt(place);
  }

  private *places(): Generator<number, void> {
    const { nodes } = this.state;
    for (let place = 0; place < nodes.length; place++) {
      if (nodes.get(place)) yield place;
    }
  }

  /** Yields the ids of all runs that have nodes, in the order in which they were first seen. */
  *runs(): Generator<string, void> {
    const { runs } = this.state;
    for (let place = 0; place < runs.length; place++) {
      const run = runAt(this.state, place);
      if (run.first !== none) yield run.id;
    }
  }

  /** Returns the children of a node, in the order in which they were first seen. */
  children(id: string): Node[] {
    const place = find(this.state, id);
    return place === none ? [] : childrenOf(this.state, at(this.state, place)).map((child) => this.nodeAt(child));
  }

  /** Returns the parents of a node: none or one. */
  parents(id: string): Node[] {
    const place = find(this.state, id);
    const parent = place === none ? none : parentOf(this.state, at(this.state, place));
    return parent === none ? [] : [this.nodeAt(parent)];
  }

  /** Returns the nodes of a run in their order. */
  run(runId: string): Node[] {
    const run = findRun(this.state, runId);
    return run === none ? [] : Array.from(inRun(this.state, run), ([, item]) => item.content.node());
  }

  /** Returns the last node of a run, or undefined if it has none. */
  last(runId: string): Node | undefined {
    const run = findRun(this.state, runId);
    const last = run === none ? none : runAt(this.state, run).last;
    return last === none ? undefined : this.nodeAt(last);
  }

  /** Returns the text of a run: the content of its text nodes, joined. */
  text(runId: string): string {
    const run = findRun(this.state, runId);
    let out = "";
    if (run !== none) {
      for (const [, { content }] of inRun(this.state, run)) {
        if (content.kind === "text") out += content.text();
      }
    }
    return out;
  }

  /** Returns the tool_call nodes of a run in their order. */
  toolCalls(runId: string): Extract<Node, { kind: "tool_call" }>[] {
    return this.run(runId).filter((node) => node.kind === "tool_call");
  }

  /**
   * Yields a node and its descendants, depth first, each node once and every parent
   * before its children. It yields nothing for an unknown id.
   */
  *walk(id: string): Generator<Node, void> {
    const start = find(this.state, id);
    if (start !== none) yield* this.walkFrom(start);
  }

  // It uses a stack in place of recursion, because conversations can be long.
  private *walkFrom(start: number): Generator<Node, void> {
    const stack = [start];
    for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
      yield this.nodeAt(place);
      const children = childrenOf(this.state, at(this.state, place));
      for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]!);
    }
  }

  /**
   * Yields all nodes, each once and every parent before its children: depth first,
   * starting at the roots in the order in which they were first seen.
   */
  *topological(): Generator<Node, void> {
    for (const place of this.places()) {
      if (parentOf(this.state, at(this.state, place)) === none) yield* this.walkFrom(place);
    }
  }

  /** Returns a node and its ancestors, up to the root. */
  pathToRoot(id: string): Node[] {
    const path: Node[] = [];
    for (let place = find(this.state, id); place !== none; place = parentOf(this.state, at(this.state, place))) {
      path.push(this.nodeAt(place));
    }
    return path;
  }

  /** Returns the graph as plain data. */
  flat(): Flat {
    const edges = Object.create(null) as Record<string, string[]>;
    for (const [id, children] of this.edges()) edges[id] = children;
    const lastNodeByRunId = Object.create(null) as Record<string, string>;
    for (const runId of this.runs()) lastNodeByRunId[runId] = this.last(runId)!.id;
    return { nodes: [...this.nodes()], edges, lastNodeByRunId };
  }

  /** Returns what JSON.stringify writes. */
  toJSON(): Flat {
    return this.flat();
  }

  /** @internal */
  *edges(): Generator<[string, string[]], void> {
    for (const place of this.places()) {
      const item = at(this.state, place);
      const children = childrenOf(this.state, item);
      if (children.length > 0) yield [item.content.id, children.map((child) => at(this.state, child).content.id)];
    }
  }

  /** @internal */
  *contents(): Generator<string, void> {
    for (const place of this.places()) yield at(this.state, place).content.json();
  }
}

/** The graph without nodes. */
export const empty: Graph = new Graph(noState);

/**
 * Returns a graph as the command arbor writes it. The text is the same, byte for byte,
 * if its events came through reduceJSON: payloads are unchanged, and members are in the
 * order of the events. JSON.stringify(graph) writes the same data, but with
 * JavaScript's numbers, and with ids that are integers before others.
 */
export function stringify(graph: Graph): string {
  const edges = Array.from(graph.edges(), ([id, children]) => `${quote(id)}:[${children.map(quote).join(",")}]`);
  const last = Array.from(graph.runs(), (runId) => `${quote(runId)}:${quote(graph.last(runId)!.id)}`);
  return `{"nodes":[${[...graph.contents()].join(",")}],"edges":{${edges.join(",")}},"lastNodeByRunId":{${last.join(",")}}}`;
}
