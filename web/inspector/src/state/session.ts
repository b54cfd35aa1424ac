// What follows from the events of a session besides its graph, as one pure function. It gives what
// session.Fold gives in Go, which the tests hold it against.
import type { Schemas } from "../net/api.js";
import { type LogEvent, words } from "./events.js";

/** Somebody is asked about a call. */
export interface Question {
  readonly relayId: string;
  readonly callId: string;
  readonly kind: "permission" | "input";
  readonly tool: string;
  readonly params: unknown;
  readonly message: string;
  readonly schema?: unknown;
  readonly agent: string;
  readonly seq: number;
  readonly scope: string;
}

/** What an agent has used with one model. */
export interface Spent {
  readonly agent: string;
  readonly model: string;
  readonly answers: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens: number;
}

/** A session at one position of its log. It does not grow with the log. */
export interface Facts {
  readonly seq: number;
  /** Of the last event; "" of an empty log. */
  readonly time: string;
  /** Who has the conversation; "" before anybody had it. */
  readonly active: string;
  /** Whether the last turn is under way, waits for somebody, or is over. */
  readonly turn: "none" | "open" | "waiting" | "over";
  readonly turnId: string;
  /** The user's messages so far. */
  readonly turns: number;
  /** Agents in the order in which they first spoke, which gives them their colours. */
  readonly spoke: readonly string[];
  readonly questions: readonly Question[];
  readonly spent: readonly Spent[];
  /** The last run of the conversation itself. */
  readonly run: { readonly id: string; readonly turnId: string; readonly open: boolean; readonly finish: string };
}

export const nothing: Facts = {
  seq: 0,
  time: "",
  active: "",
  turn: "none",
  turnId: "",
  turns: 0,
  spoke: [],
  questions: [],
  spent: [],
  run: { id: "", turnId: "", open: false, finish: "" },
};

const overHandoff: readonly string[] = ["completed", "ended", "cancelled", "failed"];
const human = "human";

/** Takes in the next stored event. Deltas and events that are known change nothing. */
export function step(facts: Facts, event: LogEvent): Facts {
  const { seq } = event;
  if (event.partial || seq === undefined || seq <= facts.seq) return facts;
  const next: { -readonly [K in keyof Facts]: Facts[K] } = { ...facts, seq, time: event.time ?? facts.time };
  apply(next, event, seq);
  const { run } = next;
  if (next.turnId !== "") {
    const here = run.turnId === next.turnId;
    if (here && !run.open && run.finish === "input_required") next.turn = "waiting";
    else next.turn = !here || run.open || run.finish === "transfer" ? "open" : "over";
  }
  return next;
}

function apply(next: { -readonly [K in keyof Facts]: Facts[K] }, event: LogEvent, seq: number): void {
  const scope = event.scope ?? "";
  const agent = event.agent ?? "";
  switch (event.type) {
    case "user":
      next.turnId = event.turnId ?? "";
      next.turns++;
      next.questions = [];
      return;
    case "harness_start":
      if (agent !== "" && !next.spoke.includes(agent)) next.spoke = [...next.spoke, agent];
      if (scope === "") {
        next.run = { id: event.runId ?? "", turnId: event.turnId ?? "", open: true, finish: "" };
        if (next.active === "") next.active = agent;
      }
      return;
    case "harness_end":
      if (scope === "") next.run = { ...next.run, open: false, finish: event.finishReason };
      if (event.finishReason !== "input_required") next.questions = next.questions.filter((q) => q.scope !== scope);
      return;
    case "transfer":
      if (scope === "" && event.outcome === "committed") next.active = event.to;
      return;
    case "handoff_status":
      if (scope !== "") return;
      if (!overHandoff.includes(event.status)) next.active = human;
      else if (event.targetAgent !== undefined && event.targetAgent !== "" && next.active === human) next.active = event.targetAgent;
      return;
    case "relay":
      next.questions = [
        ...next.questions.filter((q) => q.callId !== event.toolCallId || q.scope !== scope),
        {
          relayId: event.id ?? "",
          callId: event.toolCallId,
          kind: event.kind === "input" ? "input" : "permission",
          tool: event.tool,
          params: event.params,
          message: words(event.message).text,
          ...(event.schema !== undefined && { schema: event.schema }),
          agent,
          seq,
          scope,
        },
      ];
      return;
    case "relay_resolved":
      next.questions = next.questions.filter((q) => q.relayId !== event.relayId);
      return;
    case "tool_result":
      if (next.questions.length > 0) next.questions = next.questions.filter((q) => q.callId !== event.id || q.scope !== scope);
      return;
    case "usage":
      next.spent = spend(next.spent, agent, event, 1);
      return;
    case "discard":
      if (event.usage !== undefined) next.spent = spend(next.spent, agent, event.usage, 0);
      return;
  }
}

function spend(all: readonly Spent[], agent: string, use: Schemas["EventUsage"], answers: number): readonly Spent[] {
  const model = use.model ?? "";
  const i = all.findIndex((s) => s.agent === agent && s.model === model);
  const old = all[i] ?? { agent, model, answers: 0, inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
  const now: Spent = {
    agent,
    model,
    answers: old.answers + answers,
    inputTokens: old.inputTokens + use.inputTokens,
    outputTokens: old.outputTokens + use.outputTokens,
    cachedTokens: old.cachedTokens + (use.cachedTokens ?? 0),
  };
  return i < 0 ? [...all, now] : all.with(i, now);
}

/** All tokens of a session, and how many of them the endpoint had in its cache. */
export function tokens(facts: Facts): { readonly all: number; readonly cached: number } {
  return facts.spent.reduce(
    (sum, s) => ({ all: sum.all + s.inputTokens + s.outputTokens, cached: sum.cached + s.cachedTokens }),
    { all: 0, cached: 0 },
  );
}
