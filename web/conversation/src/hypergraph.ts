import type { Graph } from "./graph.js";
import { type Active, Path } from "./path.js";
import { at, none, runAt } from "./state.js";

/**
 * A graph in three tiers. A chunk is a node: a text, a call, a result and so on. A
 * block is one run with all its chunks. A message is one turn of the conversation: the
 * user's message, or the answer to it with the blocks of all its agents. Each tier is
 * in the order of its first chunks.
 */
export interface Hypergraph {
  /** The ids of nodes. */
  readonly chunks: readonly string[];
  /** The ids of blocks, block:RUN. */
  readonly blocks: readonly string[];
  /** The ids of messages, message:RUN with the run that begins the message. */
  readonly messages: readonly string[];
  readonly edges: readonly Hyperedge[];
}

/** Connects parts to the whole that they belong to, or a message to the one that it replies to. */
export interface Hyperedge {
  readonly kind: "chunk_to_block" | "block_to_message" | "parent_message";
  readonly from: readonly string[];
  readonly to: string;
}

/**
 * Returns the three tiers of the whole graph. While no event is discarded and parents
 * arrive before their children, the tiers only grow: a chunk stays in its block, and a
 * block in its message. It takes time in proportion to the graph, and keeps nothing
 * between calls.
 */
export function hypergraph(graph: Graph): Hypergraph {
  return derive(new Path(graph.state, {}), () => true);
}

/**
 * Returns the three tiers of the path and the sub-agents inside it. A collapsed run is
 * reduced to its text, and runs that a summary replaces are omitted. Blocks and
 * messages have the same ids as in the whole graph.
 */
export function hypergraphOf(graph: Graph, active: Active): Hypergraph {
  const path = new Path(graph.state, active);
  const shown = new Set<number>();
  path.visit(path.summarized().steps, (step, collapsed) => {
    for (const [place, { content }] of path.inStep(step)) {
      if (!collapsed || content.kind === "text" || content.kind === "user") shown.add(place);
    }
  });
  return derive(path, (place) => shown.has(place));
}

function derive(path: Path, has: (place: number) => boolean): Hypergraph {
  const { s } = path;
  const chunks: string[] = [];
  const inBlock = new Map<number, string[]>(); // chunks, by run
  const inMessage = new Map<number, string[]>(); // blocks, by the run that begins the message
  const begins = new Map<number, number>(); // that run, by run
  for (let place = 0; place < s.nodes.length; place++) {
    const item = s.nodes.get(place);
    if (!item || !has(place)) continue;
    chunks.push(item.content.id);
    const others = inBlock.get(item.run);
    if (others !== undefined) {
      others.push(item.content.id);
      continue;
    }
    inBlock.set(item.run, [item.content.id]);
    const begin = beginOf(path, item.run, begins);
    const blocks = inMessage.get(begin);
    if (blocks === undefined) inMessage.set(begin, [blockId(path, item.run)]);
    else blocks.push(blockId(path, item.run));
  }
  const edges: Hyperedge[] = [];
  for (const [ri, from] of inBlock) edges.push({ kind: "chunk_to_block", from, to: blockId(path, ri) });
  for (const [begin, from] of inMessage) edges.push({ kind: "block_to_message", from, to: path.messageId(begin) });
  for (const begin of inMessage.keys()) {
    const { parent } = runAt(s, begin);
    const above = parent === none ? none : beginOf(path, at(s, parent).run, begins);
    if (inMessage.has(above)) edges.push({ kind: "parent_message", from: [path.messageId(begin)], to: path.messageId(above) });
  }
  return { chunks, blocks: Array.from(inBlock.keys(), (ri) => blockId(path, ri)), messages: Array.from(inMessage.keys(), (ri) => path.messageId(ri)), edges };
}

function blockId(path: Path, ri: number): string {
  return `block:${path.id(ri)}`;
}

// beginOf returns the run that begins the message of a run, and stores it for all runs
// in between.
function beginOf(path: Path, ri: number, known: Map<number, number>): number {
  const way: number[] = [];
  for (let above = ri; ; above = at(path.s, runAt(path.s, above).parent).run) {
    way.push(above);
    const begin = known.get(above) ?? (path.beginsMessage(above) ? above : none);
    if (begin === none) continue;
    for (const run of way) known.set(run, begin);
    return begin;
  }
}
