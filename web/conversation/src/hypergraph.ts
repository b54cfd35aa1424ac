import type { Graph } from "./graph.js";
import { type Active, Path } from "./path.js";
import { type State, at, none, runAt } from "./state.js";

/**
 * A graph in three tiers. A chunk is a node. A block is what belongs together in one
 * place: a block of text, a call, a result, or all that a run has used. A message is
 * what one run says: the user's message, or an agent's answer. Everything is in the
 * order of first sight.
 */
export interface Hypergraph {
  /** Ids of nodes. */
  readonly chunks: readonly string[];
  /** block:NODE, or usage:RUN. */
  readonly blocks: readonly string[];
  /** message:RUN. */
  readonly messages: readonly string[];
  readonly edges: readonly Hyperedge[];
}

/** Leads from the parts of something to it, or from a message to the one that it follows or is a part of. */
export interface Hyperedge {
  readonly kind: "chunk_to_block" | "block_to_message" | "parent_message";
  readonly from: readonly string[];
  readonly to: string;
}

/**
 * Derives the three tiers of the whole graph. As long as nothing is discarded they
 * only grow with the graph: a chunk stays in its block, and a block in its message.
 * It takes time in proportion to the graph; nothing is kept between calls.
 */
export function hypergraph(graph: Graph): Hypergraph {
  return derive(graph.state, () => true);
}

/**
 * Derives the three tiers of what is on the path, with the sub-agents inside of it.
 * Of a collapsed run only the words are left, and nothing of what a summary replaces.
 */
export function hypergraphOf(graph: Graph, active: Active): Hypergraph {
  const path = new Path(graph.state, active);
  const shown = new Set<number>();
  path.visit(path.summarized().steps, (step, collapsed) => {
    for (const [place, { content }] of path.inStep(step)) {
      if (!collapsed || content.kind === "text" || content.kind === "user") shown.add(place);
    }
  });
  return derive(graph.state, (place) => shown.has(place));
}

function derive(s: State, has: (place: number) => boolean): Hypergraph {
  const chunks: string[] = [];
  const messages: string[] = [];
  const edges: Hyperedge[] = [];
  const inBlock = new Map<string, string[]>(); // chunks
  const inRun = new Map<number, string[]>(); // blocks
  for (let place = 0; place < s.nodes.length; place++) {
    const item = s.nodes.get(place);
    if (!item || !has(place)) continue;
    const { id, runId, kind } = item.content;
    const block = kind === "usage" ? `usage:${runId}` : `block:${id}`;
    chunks.push(id);
    const others = inBlock.get(block);
    if (others !== undefined) {
      others.push(id);
      continue;
    }
    inBlock.set(block, [id]);
    const blocks = inRun.get(item.run);
    if (blocks === undefined) inRun.set(item.run, [block]);
    else blocks.push(block);
  }
  for (const [block, from] of inBlock) edges.push({ kind: "chunk_to_block", from, to: block });
  for (let ri = 0; ri < s.runs.length; ri++) {
    const blocks = inRun.get(ri);
    if (blocks === undefined) continue;
    const { id, parent } = runAt(s, ri);
    const message = `message:${id}`;
    messages.push(message);
    edges.push({ kind: "block_to_message", from: blocks, to: message });
    const above = parent === none ? none : at(s, parent).run;
    if (inRun.has(above)) edges.push({ kind: "parent_message", from: [message], to: `message:${runAt(s, above).id}` });
  }
  return { chunks, blocks: [...inBlock.keys()], messages, edges };
}
