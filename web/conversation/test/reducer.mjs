// Reduces streams for the Go test: a line with {"events": [text, …], "graph": text,
// "views": [{"active", "options", "thread", "messages"}, …]} comes in, and a line
// with what differs goes out, "" if nothing does.
import { createInterface } from "node:readline";
import { empty, messages, reduce, reduceJSON, stringify, thread } from "../dist/index.js";
import { difference, unreadable } from "./compare.mjs";

function compare({ events, graph, views }) {
  let asText = empty;
  let asValues = empty;
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
    asValues = reduce(asValues, JSON.parse(event));
  }
  if (stringify(asText) !== graph) return `the graph: ${stringify(asText)}`;
  let wrong = difference(JSON.parse(graph), asValues.flat());
  if (wrong !== "") return `the graph of values, ${wrong}`;
  for (const view of views ?? []) {
    wrong = difference(view.thread, thread(asText, view.active, view.options));
    if (wrong !== "") return `the thread of ${JSON.stringify(view)}, ${wrong}`;
    wrong = difference(view.messages, messages(asText, view.active));
    if (wrong !== "") return `the messages of ${JSON.stringify(view)}, ${wrong}`;
  }
  return "";
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  console.log(JSON.stringify(compare(JSON.parse(line))));
}
