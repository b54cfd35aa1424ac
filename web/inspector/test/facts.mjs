// Takes in logs that come as lines, as the page does, and answers with what it says after each event.
import { createInterface } from "node:readline";
import { load } from "./bundle.mjs";

const { nothing, step } = await load("state/session.ts");
for await (const line of createInterface({ input: process.stdin })) {
  let facts = nothing;
  const all = JSON.parse(line).map((event) => {
    facts = step(facts, event);
    const { id, open, finish } = facts.run;
    return {
      Active: facts.active,
      Turn: facts.turn,
      Run: `${id} ${open} ${finish}`,
      Questions: facts.questions.map((q) => `${q.callId} ${q.kind}`),
      Spent: facts.spent.map((s) => [s.agent, s.model, s.answers, s.inputTokens, s.outputTokens, s.cachedTokens].join(" ")),
    };
  });
  process.stdout.write(JSON.stringify(all) + "\n");
}
