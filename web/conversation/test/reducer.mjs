// Reduces streams for the Go test: a line with {"events": [text, …], "want": text}
// comes in, and a line goes out with the graph of these events as text, and with
// what is wrong when they are reduced as values.
import { createInterface } from "node:readline";
import { empty, reduce, reduceJSON, stringify } from "../dist/index.js";
import { difference, unreadable } from "./compare.mjs";

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { events, want } = JSON.parse(line);
  let asText = empty;
  let asValues = empty;
  for (const event of events) {
    if (unreadable(event)) {
      try {
        asText = reduceJSON(asText, event);
        throw new Error(`no error for ${event}`);
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
      }
      continue;
    }
    asText = reduceJSON(asText, event);
    asValues = reduce(asValues, JSON.parse(event));
  }
  console.log(JSON.stringify({ graph: stringify(asText), values: difference(JSON.parse(want), asValues.flat()) }));
}
