/**
 * The conversation graph of Arbor: a stream of events becomes an immutable graph,
 * by the same rules as in Go's package conversation.
 *
 * @packageDocumentation
 */
export { branch, collapse, edit, expand, summarize, switchTo, tip } from "./active.js";
export { type Box, type Edge, type Layout, dag } from "./dag.js";
export type { Event } from "./event.js";
export { type Flat, type Graph, empty, stringify } from "./graph.js";
export { type Hyperedge, type Hypergraph, hypergraph, hypergraphOf } from "./hypergraph.js";
export { type Call, type Message, messages, noResult } from "./messages.js";
export type { Kind, Node } from "./node.js";
export type { Active } from "./path.js";
export type { Part } from "./payload.js";
export { reduce, reduceJSON, reduceMany } from "./reduce.js";
export { type Status, type ThreadOptions, type ViewCall, type ViewNode, thread } from "./thread.js";
