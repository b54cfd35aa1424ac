// Reduces streams for the Go test: a line with {"events": [text, …], "graph": text,
// "views": [{"change", "id", "active", "tip", "options", "thread", "messages"}, …]}
// comes in, where each path is the one before it after a change, and a line with
// what differs goes out, "" if nothing does.
import { createInterface } from "node:readline";
import { branch, collapse, dag, edit, empty, expand, hypergraph, hypergraphOf, messages, reduce, reduceJSON, reduceMany, stringify, summarize, switchTo, thread, tip } from "../dist/index.js";
import { difference, unreadable } from "./compare.mjs";
import { fresh } from "./fresh.mjs";

const changes = { switchTo, branch, collapse, expand, summarize: (graph, active, id) => summarize(graph, active, id, "In short.") };

function compare({ events, graph, views }) {
  let asText = empty;
  let asValues = empty;
  const all = [];
  const values = [];
  for (const event of events) {
    if (unreadable(event)) {
      try {
        asText = reduceJSON(asText, event);
        return `no error for ${event}`;
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
      continue;
    }
    asText = reduceJSON(asText, event);
    all.push(asText);
    values.push(JSON.parse(event));
    asValues = reduce(asValues, values.at(-1));
  }
  if (stringify(asText) !== graph) return `the graph: ${stringify(asText)}`;
  let wrong = difference(JSON.parse(graph), asValues.flat());
  if (wrong !== "") return `the graph of values, ${wrong}`;
  for (const half of [0, values.length >> 1]) {
    const many = reduceMany(reduceMany(empty, values.slice(0, half)), values.slice(half));
    if (stringify(many) !== stringify(asValues)) return `the graph of many values: ${stringify(many)}, and one by one: ${stringify(asValues)}`;
  }
  let active = {};
  for (const view of views ?? []) {
    if (view.change === "edit") {
      ({ graph: asText, active } = edit(asText, active, view.id, view.run, "Again."));
    } else if (view.change !== "") {
      active = changes[view.change](asText, active, view.id);
    }
    wrong = difference(view.active, active) || difference(view.tip, tip(asText, active));
    if (wrong !== "") return `the path of ${JSON.stringify(view)}, ${wrong}`;
    wrong = difference(view.thread, thread(asText, active, view.options));
    if (wrong !== "") return `the thread of ${JSON.stringify(view)}, ${wrong}`;
    wrong = difference(view.messages, messages(asText, active));
    if (wrong !== "") return `the messages of ${JSON.stringify(view)}, ${wrong}`;
    wrong = difference(view.dag, dag(asText, active));
    if (wrong !== "") return `the drawing of ${JSON.stringify(view)}, ${wrong}`;
    wrong = difference(view.hypergraphs, [hypergraph(asText), hypergraphOf(asText, active)]);
    if (wrong !== "") return `the hypergraphs of ${JSON.stringify(view)}, ${wrong}`;
  }
  return views === undefined || all.length % 2 === 0 ? growing(all, {}, {}) : growing(all, active, views.at(-1).options);
}

// What is shown after every event must be what a first call shows there.
function growing(graphs, active, options) {
  for (const [i, graph] of graphs.entries()) {
    const want = JSON.stringify(fresh(graph, active, options));
    const got = JSON.stringify(thread(graph, active, options));
    if (got !== want) return `after ${i + 1} events the path ${JSON.stringify(active)} shows ${got}, and at first sight ${want}`;
  }
  return "";
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  console.log(JSON.stringify(compare(JSON.parse(line))));
}
