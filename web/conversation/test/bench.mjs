// Prints what is said of costs in the README: npm run bench.
import { empty, reduce, reduceMany, thread } from "../dist/index.js";

/** The events of so many turns: a message, and an answer with a call, of ten events together. */
function turns(count) {
  const out = [];
  const add = (e) => out.push({ path: "desk/support", agent: "support", seq: out.length + 1, time: "2026-01-02T03:04:05.123Z", ...e });
  for (let i = 0; i < count; i++) {
    const runId = `run-${i}`;
    add({ type: "user", id: `e${i}-0`, runId: `user-${i}`, ...(i > 0 && { parentId: `run-${i - 1}:harness_end` }), content: "How much is it?" });
    add({ type: "harness_start", id: `e${i}-1`, runId, parentId: `user-${i}:user`, agentId: "support" });
    add({ type: "reasoning", id: `e${i}-2`, runId, content: "The price is in the catalogue." });
    add({ type: "text", id: `e${i}-3`, runId, content: "Let me look." });
    add({ type: "tool_call", id: `call-${i}`, runId, name: "lookup", input: { item: 1 } });
    add({ type: "usage", id: `e${i}-5`, runId, inputTokens: 10, outputTokens: 5 });
    add({ type: "tool_result", id: `call-${i}`, runId, name: "lookup", output: 5 });
    add({ type: "text", id: `e${i}-7`, runId, content: "It is five." });
    add({ type: "usage", id: `e${i}-8`, runId, inputTokens: 20, outputTokens: 5 });
    add({ type: "harness_end", id: `e${i}-9`, runId, agentId: "support", finishReason: "stop" });
  }
  return out;
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

// measure runs things in turn, so that what else the machine does hits all of them.
function measure(rounds, things) {
  const times = things.map(() => []);
  for (let i = 0; i < rounds + 10; i++) {
    things.forEach((thing, k) => {
      const before = process.cpuUsage();
      thing();
      const { user, system } = process.cpuUsage(before);
      if (i >= 10) times[k].push((user + system) / 1000); // the code is compiled by then
    });
  }
  return times.map(median);
}

const log = turns(1000);
const deltas = Array.from({ length: 10_000 }, (_, i) => ({ type: "text", id: "t", runId: "r", content: `word ${i} `, partial: true }));
for (const [what, events] of [["10,000 stored events", log], ["10,000 deltas of one text", deltas]]) {
  const [one, many] = measure(30, [() => events.reduce(reduce, empty), () => reduceMany(empty, events)]);
  console.log(`${what}: reduce ${one.toFixed(1)} ms, reduceMany ${many.toFixed(1)} ms of processor time, ${(one / many).toFixed(1)} times as fast`);
}
for (const count of [1000, 10_000]) {
  const events = turns(count);
  const graphs = Array.from({ length: 20 }, () => reduceMany(empty, events)); // none has grown from another one
  const [first] = measure(10, [() => thread(graphs.pop())]);
  let graph = reduceMany(empty, events);
  const times = { delta: [], event: [] };
  for (let i = 0; i < 1000; i++) {
    const what = i % 10 === 0 ? "event" : "delta";
    const runId = `new-${Math.floor(i / 100)}`;
    const parentId = `run-${count - 1}:harness_end`;
    const e = what === "delta" ? { type: "text", partial: true, id: runId, content: "word " } : { type: "tool_call", id: `c${i}`, name: "look", input: {} };
    graph = reduce(graph, { runId, parentId, ...e });
    const start = performance.now();
    thread(graph);
    times[what].push(performance.now() - start);
  }
  console.log(`thread of ${(count * 10).toLocaleString("en")} events: first ${first.toFixed(1)} ms of processor time, after a delta ${median(times.delta).toFixed(3)} ms, after another event ${median(times.event).toFixed(3)} ms`);
}
