import type { Graph } from "./graph.js";
import { nothing } from "./keep.js";
import { type Active, Path } from "./path.js";
import { Strands } from "./strands.js";

export type Status = "streaming" | "complete" | "error";

/**
 * One part of a message in a chat window: what the user said, or one response of a
 * model with its calls and their results. Members without a value are absent.
 */
export interface ViewNode {
  /** That of the first graph node that it shows. */
  readonly id: string;
  readonly runId: string;
  /**
   * That of the message in the hypergraph: an answer consists of the view nodes that
   * share one, and runId tells the agents' parts of it apart.
   */
  readonly messageId: string;
  readonly role: "user" | "assistant" | "summary";
  readonly agent?: string;
  readonly text?: string;
  /** The user's content as it was received, if it is not just text. */
  readonly content?: unknown;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ViewCall[];
  /** The runs that began inside of this one without a call, such as the children of a workflow. */
  readonly branches?: readonly (readonly ViewNode[])[];
  readonly status: Status;
  readonly error?: string;
  /** If several runs can stand here: their first nodes, this one's among them, from the oldest to the newest. */
  readonly alternatives?: readonly string[];
}

/** A call of a tool. */
export interface ViewCall {
  readonly id: string;
  readonly name: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly isError?: true;
  readonly progress?: readonly unknown[];
  /** There if somebody is asked. */
  readonly approval?: "pending" | "approved" | "denied";
  /** What sub-agents do inside of the call, one list a run and those that follow it. */
  readonly branches?: readonly (readonly ViewNode[])[];
  readonly status: Status;
}

export interface ThreadOptions {
  /** Leaves out what models thought. */
  readonly hideReasoning?: boolean;
  /** Keeps of calls their ids, names and status. */
  readonly collapseTools?: boolean;
}

/**
 * Returns the conversation on the path as a chat window shows it. An agent that
 * has begun and said nothing yet has a view node without words.
 *
 * What is returned is frozen, and what says the same as in the last call with an
 * equal path and equal options is the same object, for graphs that have grown from
 * the same first event: view nodes, calls, and lists of them. After a delta the
 * message that grew is another one, and the lists that it is in.
 *
 * The first call takes time in proportion to the graph, and later ones in proportion
 * to what has changed since: after a delta, to the message that grew and to the
 * copying of the lists; after another event, to the nodes of its run. For that the
 * last results for four paths are kept, as long as any graph from the same first
 * event is.
 */
export function thread(graph: Graph, active: Active = {}, options: ThreadOptions = {}): readonly ViewNode[] {
  const { family } = graph.state;
  if (family === null) return nothing;
  const path = new Path(graph.state, active);
  const { hideReasoning = false, collapseTools = false } = options;
  const key = JSON.stringify([path.active(), hideReasoning, collapseTools]);
  let kept = shown.get(family);
  if (kept === undefined) shown.set(family, (kept = new Map()));
  const strands = kept.get(key) ?? new Strands(path, { hideReasoning, collapseTools });
  kept.delete(key);
  const out = strands.at(graph.state);
  kept.set(key, strands); // behind all others
  for (const oldest of kept.keys()) {
    if (kept.size <= 4) break;
    kept.delete(oldest);
  }
  return out;
}

// What was shown last, by the family of graphs, the path and the options.
const shown = new WeakMap<object, Map<string, Strands>>();
