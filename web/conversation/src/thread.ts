import type { Graph } from "./graph.js";
import { nothing } from "./keep.js";
import { type Active, Path } from "./path.js";
import { Strands } from "./strands.js";

export type Status = "streaming" | "complete" | "error";

/**
 * A part of a message in a chat window: the user's message, or one response of a model
 * with its calls and their results. Members without a value are absent.
 */
export interface ViewNode {
  /** The id of the first graph node that it shows. */
  readonly id: string;
  readonly runId: string;
  /**
   * The id of the message in the hypergraph. The view nodes of one answer share it,
   * and runId tells the agents' parts of the answer apart.
   */
  readonly messageId: string;
  readonly role: "user" | "assistant" | "summary";
  readonly agent?: string;
  readonly text?: string;
  /** The user's content as it was received, if it is not just text. */
  readonly content?: unknown;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ViewCall[];
  /** The runs that began inside this one without a call, such as the children of a workflow. */
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
  /** Present if the call needs an approval. */
  readonly approval?: "pending" | "approved" | "denied";
  /** What sub-agents do inside the call: one list for each run and the runs that follow it. */
  readonly branches?: readonly (readonly ViewNode[])[];
  readonly status: Status;
}

export interface ThreadOptions {
  /** Omits the models' reasoning. */
  readonly hideReasoning?: boolean;
  /** Reduces calls to their ids, names and status. */
  readonly collapseTools?: boolean;
}

/**
 * Returns the conversation on the path as a chat window shows it. An agent that has
 * started but has not said anything yet has a view node without text.
 *
 * The result is frozen. Parts of it that are equal to those of the last call with an
 * equal path and equal options are the same objects, if the graphs have grown from the
 * same first event: view nodes, calls, and lists of them. After a delta, only the
 * message that grew and the lists that contain it are new objects.
 *
 * The first call takes time in proportion to the graph. Later calls take time in
 * proportion to the changes: after a delta, to the message that grew and to copying the
 * lists; after another event, to the nodes of its run. For this, the last results for
 * four paths are kept as long as any graph from the same first event exists.
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
  kept.set(key, strands); // as the newest
  for (const oldest of kept.keys()) {
    if (kept.size <= 4) break;
    kept.delete(oldest);
  }
  return out;
}

// The last results, by family of graphs, path and options.
const shown = new WeakMap<object, Map<string, Strands>>();
