import type { Graph } from "./graph.js";
import { type Active, Path } from "./path.js";
import { at, none, runAt } from "./state.js";

/**
 * A graph in three tiers. A chunk is a node: a text, a call, a result and so on. A
 * block is one run: all of its chunks. A message is one turn of the conversation: what
 * the user said, or the answer to it, with the blocks of all agents that take part.
 * Each tier is in the order of its first chunks.
 */
export interface Hypergraph {
  /** Ids of nodes. */
  readonly chunks: readonly string[];
  /** block:RUN. */
  readonly blocks: readonly string[];
  /** message:RUN, after the run with which the message begins. */
  readonly messages: readonly string[];
  readonly edges: readonly Hyperedge[];
}

/** Leads from the parts of something to it, or from a message to the one that it replies to. */
export interface Hyperedge {
  readonly kind: "chunk_to_block" | "block_to_message" | "parent_message";
  readonly from: readonly string[];
  readonly to: string;
}

/**
 * Derives the three tiers of the whole graph. As long as nothing is discarded and
 * parents come before their children, they only grow with the graph: a chunk stays in
 * its block, and a block in its message. It takes time in proportion to the graph;
 * nothing is kept between calls.
 */
export function hypergraph(graph: Graph): Hypergraph {
  return derive(new Path(graph.state, {}), () => true);
}

/**
 * Derives the three tiers of what is on the path, with the sub-agents inside of it.
 * Of a collapsed run only the words are left, and nothing of what a summary replaces.
 * Blocks and messages have the ids that they have in the whole graph.
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

// beginOf returns the run with which the message of a run begins, and notes it for all
// runs on the way.
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
