import { Path } from "../dist/path.js";
import { Strands } from "../dist/strands.js";

/** The thread of a graph as a first call makes it. */
export function fresh(graph, active = {}, options = {}) {
  return new Strands(new Path(graph.state, active), options).at(graph.state);
}

/** All view nodes and calls of a thread, by what they say. */
export function* parts(nodes) {
  for (const node of nodes) {
    yield [`node ${JSON.stringify(node)}`, node];
    for (const branch of node.branches ?? []) yield* parts(branch);
    for (const call of node.toolCalls ?? []) {
      yield [`call of ${node.runId} ${JSON.stringify(call)}`, call];
      for (const branch of call.branches ?? []) yield* parts(branch);
    }
  }
}
