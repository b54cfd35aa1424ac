// The conversation graph as boxes in layers, in three zooms: messages (a box a turn), blocks (a box a run) and chunks (a
// box a node). What follows is below, in the same column, and each agent has a lane of the column; branches have their
// own columns.
import { texts } from "../texts-behind.js";
import { type Active, type Graph, type Node, hypergraph, thread } from "@agentarbor/conversation";

export type Zoom = "messages" | "blocks" | "chunks";

export interface Box {
  readonly id: string;
  /** The first node of it. */
  readonly node: Node;
  /** The runs of which there is something in it. */
  readonly runs: ReadonlySet<string>;
  readonly agent: string;
  readonly label: string;
  /** The box that it hangs on, by its place. */
  readonly parent: number;
  readonly column: number;
  /** The place of its agent in the column. */
  readonly lane: number;
  readonly layer: number;
  /** How many tools its runs call. */
  readonly calls: number;
  /** Whether the path of the address leads through it. */
  readonly onPath: boolean;
}

export interface Boxes {
  readonly boxes: readonly Box[];
  /** The number of lanes of each column. */
  readonly columns: readonly number[];
  /** The agents in the lanes of the first column; "" is the user. The last lane has all agents for which there is no other. */
  readonly lanes: readonly string[];
  readonly layers: number;
}

type Making = { -readonly [K in keyof Box]: Box[K] } & { runs: Set<string>; kids: number[]; inside: boolean };

/** Lays a graph out, in which a path leads through a part, `own`. It takes time in proportion to the nodes. */
export function boxesOf(graph: Graph, zoom: Zoom, active: Active, own = graph): Boxes {
  const path = runsOn(own, active);
  const partOf = tierOf(graph, zoom);
  const boxes: Making[] = [];
  const places = new Map<string, number>(); // of boxes, by what they show
  const byNode = new Map<string, number>();
  for (const node of graph.nodes()) {
    const id = partOf(node);
    let place = places.get(id);
    if (place === undefined) {
      place = boxes.length;
      places.set(id, place);
      boxes.push({ id, node, runs: new Set(), agent: "", label: "", parent: -1, column: 0, lane: 0, layer: 0, calls: 0, onPath: false, kids: [], inside: false });
    }
    const box = boxes[place]!;
    box.runs.add(node.runId);
    box.onPath ||= path.has(node.runId);
    if (zoom !== "chunks" && node.kind === "tool_call" && node.name !== "transfer_to_agent") box.calls++;
    byNode.set(node.id, place);
  }
  boxes.forEach((box, i) => {
    const above = graph.parents(box.node.id)[0];
    const parent = above === undefined ? -1 : (byNode.get(above.id) ?? -1);
    const speaker = zoom === "messages" ? speakerOf(graph, box.runs, path) : box.node;
    box.agent = speaker.kind === "user" ? "" : (speaker.agent ?? "");
    box.label = zoom === "chunks" ? nodeLabel(speaker) : runLabel(graph, speaker);
    if (parent < 0 || parent === i || circles(boxes, parent, i)) return;
    box.parent = parent;
    // A sub-agent is next to the call that opened it, although it is on the path as well.
    box.inside = above!.kind === "tool_call" && box.node.kind === "harness_start";
    boxes[parent]!.kids.push(i);
  });
  return place(boxes);
}

/** Returns what a node is a part of, by its id. */
function tierOf(graph: Graph, zoom: Zoom): (node: Node) => string {
  if (zoom === "chunks") return (node) => node.id;
  const tiers = new Map<string, string>(); // what each chunk and each block is a part of
  for (const { kind, from, to } of hypergraph(graph).edges) if (kind !== "parent_message") for (const part of from) tiers.set(part, to);
  return ({ id }) => (zoom === "blocks" ? tiers.get(id)! : tiers.get(tiers.get(id)!)!);
}

/** The first node of the run that speaks for a message: the first one with words, on the path and not inside of a call if possible. */
function speakerOf(graph: Graph, runs: ReadonlySet<string>, path: ReadonlySet<string>): Node {
  const all = Array.from(runs, (run) => graph.run(run)[0]!);
  const speaks = all.filter((node) => node.kind === "user" || graph.text(node.runId).trim() !== "");
  const outside = speaks.filter((node) => graph.parents(node.id)[0]?.kind !== "tool_call");
  return outside.find((node) => path.has(node.runId)) ?? outside[0] ?? speaks[0] ?? all[0]!;
}

/** Parts of one box can hang on each other's successors, which would be a circle. */
function circles(boxes: readonly Making[], from: number, to: number): boolean {
  if (from < to) return false; // parents come first, but in streams of strangers
  for (let i = from, n = 0; i >= 0 && n <= boxes.length; i = boxes[i]!.parent, n++) if (i === to) return true;
  return false;
}

function runsOn(graph: Graph, active: Active): ReadonlySet<string> {
  const runs = new Set<string>();
  const stack = [...thread(graph, active)];
  for (let view = stack.pop(); view !== undefined; view = stack.pop()) {
    runs.add(view.runId);
    for (const branch of view.branches ?? []) stack.push(...branch);
    for (const call of view.toolCalls ?? []) for (const branch of call.branches ?? []) stack.push(...branch);
  }
  return runs;
}

/** The most lanes of a column. */
const most = 8;

function place(boxes: readonly Making[]): Boxes {
  const taken: { from: number; to: number }[][] = [];
  const columns: number[] = [];
  let layers = 0;
  // A chain goes down in one column; its branches are placed later, in order.
  const waiting: { box: number; layer: number; after: number }[] = [];
  const roots = boxes.flatMap((b, i) => (b.parent < 0 ? [i] : []));
  const lanes = lanesOf(boxes, roots.flatMap((root) => chainOf(boxes, root)));
  let below = 0; // conversations without a common root are below each other
  for (const root of roots) {
    waiting.push({ box: root, layer: below, after: -1 });
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const chain = chainOf(boxes, next.box);
      const agents = next.after < 0 ? lanes : lanesOf(boxes, chain);
      const from = next.layer;
      const to = from + chain.length - 1;
      let column = next.after + 1;
      while (taken[column]?.some((c) => c.from <= to && from <= c.to)) column++;
      (taken[column] ??= []).push({ from, to });
      columns[column] = Math.max(columns[column] ?? 0, agents.length);
      layers = Math.max(layers, to + 1);
      chain.forEach((i, n) => {
        const lane = agents.indexOf(boxes[i]!.agent);
        Object.assign(boxes[i]!, { column, lane: lane < 0 ? agents.length - 1 : lane, layer: from + n });
      });
      for (let n = 0; n < chain.length; n++) {
        for (const kid of boxes[chain[n]!]!.kids) if (kid !== chain[n + 1]) waiting.push({ box: kid, layer: from + n + 1, after: column });
      }
    }
    below = layers;
  }
  return { boxes, columns, lanes, layers };
}

/** The agents of a chain, in the order in which they come. */
function lanesOf(boxes: readonly Making[], chain: readonly number[]): readonly string[] {
  return [...new Set(chain.map((i) => boxes[i]!.agent))].slice(0, most);
}

function chainOf(boxes: readonly Making[], first: number): readonly number[] {
  const chain = [first];
  for (let i = first; ; ) {
    const kids = boxes[i]!.kids;
    const next = kids.findLast((k) => boxes[k]!.onPath && !boxes[k]!.inside) ?? kids.find((k) => !boxes[k]!.inside);
    if (next === undefined) return chain;
    chain.push(next);
    i = next;
  }
}

function runLabel(graph: Graph, node: Node): string {
  if (node.kind === "user") return contentLabel(node.content);
  const said = graph.text(node.runId).slice(0, 200);
  if (said.trim() !== "") return said;
  const calls = graph.toolCalls(node.runId).map((c) => c.name);
  return texts.graph.calls(calls.slice(0, 4).join(", "));
}

function nodeLabel(node: Node): string {
  switch (node.kind) {
    case "user":
      return contentLabel(node.content);
    case "text":
    case "reasoning":
      return node.content.slice(0, 200);
    case "tool_call":
    case "tool_result":
    case "tool_progress":
      return node.name;
    case "relay":
      return `${node.tool} ${node.state ?? texts.decide.asksIt}`;
    case "error":
      return node.message;
    case "usage":
      return texts.talk.tokens(node.inputTokens + node.outputTokens);
    case "harness_end":
      return texts.lines.end(node.finishReason ?? "stop");
    default:
      return texts.lines.begin;
  }
}

function contentLabel(content: string | readonly unknown[]): string {
  if (typeof content === "string") return content.slice(0, 200);
  const parts = content as readonly { readonly type?: string; readonly text?: unknown }[];
  return parts.map((p) => (typeof p.text === "string" ? p.text.slice(0, 200) : `[${p.type ?? "part"}]`)).join(" ");
}
