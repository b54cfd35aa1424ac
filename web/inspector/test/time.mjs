// Logs for tests of what follows from them.

/** A log of turns with transfers, calls and inner runs, each write with a time of its own. */
export function turns(n, { words = 40 } = {}) {
  const events = [];
  let time = Date.parse("2026-03-01T10:00:00Z");
  const add = (ms, ...some) => {
    time += ms;
    for (const e of some) events.push({ ...e, seq: events.length + 1, time: new Date(time).toISOString() });
  };
  let active = "support";
  for (let t = 1; events.length < n; t++) {
    const turnId = `t${t}`;
    const at = (runId, agent, more = {}) => ({ turnId, runId, agent, ...more });
    add(t % 7 === 0 ? 3_600_000 : 2000, { ...at(`u${t}`, "user"), type: "user", content: `Question ${t}`, ...(t > 1 && { parentId: `a${t - 1}:harness_end` }) });
    const next = active === "support" ? "billing" : "support";
    const a = at(`h${t}`, active, { parentId: `u${t}:user` });
    add(3, { ...a, type: "harness_start", agentId: active });
    add(900, { ...a, id: `x${t}`, type: "tool_call", name: "transfer_to_agent", input: { agent_name: next } }, { ...a, type: "usage", inputTokens: 100, outputTokens: 5, model: "m" });
    add(1, { ...a, id: `x${t}`, type: "tool_result", name: "transfer_to_agent", output: "Transferred." }, { ...a, type: "transfer", from: active, to: next, outcome: "committed", reason: "charged" }, { ...a, type: "harness_end", agentId: active, finishReason: "transfer", target: next });
    active = next;
    const b = at(`a${t}`, active, { parentId: `h${t}:harness_end` });
    add(2, { ...b, type: "harness_start", agentId: active });
    add(1200, { ...b, id: `c${t}`, type: "tool_call", name: "ask", input: { n: t } }, { ...b, type: "usage", inputTokens: 200, outputTokens: 9, model: "m" });
    const inner = at(`i${t}`, "tech", { scope: `in${t}`, parentId: `c${t}` });
    add(1, { ...inner, type: "harness_start", agentId: "tech" });
    add(700, { ...inner, id: `it${t}`, type: "text", content: "word ".repeat(words) }, { ...inner, type: "usage", inputTokens: 50, outputTokens: 20, model: "m" }, { ...inner, type: "harness_end", agentId: "tech", finishReason: "stop" });
    add(1, { ...b, id: `c${t}`, type: "tool_result", name: "ask", output: "done" });
    add(1500, { ...b, id: `w${t}`, type: "text", content: "answer ".repeat(words) }, { ...b, type: "usage", inputTokens: 260, outputTokens: 30, model: "m" }, { ...b, type: "harness_end", agentId: active, finishReason: "stop" });
  }
  return events.slice(0, n);
}
