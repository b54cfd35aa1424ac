// What follows from the events of a session besides its graph, as one pure function. It gives what
// session.Fold gives in Go, which the tests hold it against.
import type { Schemas } from "../net/api.js";
import { type LogEvent, words } from "./events.js";

/** A question about a call. */
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
  /** Identifies what is asked; "" if the log does not say. */
  readonly digest: string;
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

/** A call without a result, and its question to a person. */
interface Pending {
  readonly id: string;
  readonly asks?: Question;
}

/** The last run of a scope. */
interface Run {
  readonly id: string;
  readonly turnId: string;
  readonly open: boolean;
  readonly finish: string;
}

/** A conversation, "" for the user's own, else one inside of a call or of a workflow's run. */
interface Scope {
  readonly run: Run;
  /** Runs whose work the last one takes up. */
  readonly before: readonly string[];
  readonly pending: readonly Pending[];
  /** The workflow's run, or the call, that opened it. */
  readonly opener: string;
  /** The position of its first run's start. */
  readonly first: number;
}

/** A session at one position of its log. It does not grow with the log. */
export interface Facts {
  readonly seq: number;
  /** Of the last event that has one; "" of an empty log. */
  readonly time: string;
  /** The agent that has the conversation; "" before the first one. */
  readonly active: string;
  /** The status of the handoff to a person; "" before the first one. */
  readonly handoff: string;
  /** Whether the last turn is running, waits for a person, or is over. */
  readonly turn: "none" | "open" | "waiting" | "over";
  readonly turnId: string;
  /** The user's messages so far. */
  readonly turns: number;
  /** Agents in the order in which they first spoke, which gives them their colours. */
  readonly spoke: readonly string[];
  /** The open questions of all scopes, in the order of the log. */
  readonly questions: readonly Question[];
  readonly spent: readonly Spent[];
  /** Whether events are left out, so that a call that is asked about may be one of them. */
  readonly gaps: boolean;
  /** The last run of the conversation itself. */
  readonly run: Run;
  /** The conversation and what is not over inside of it; only the next step looks at it. */
  readonly scopes: ReadonlyMap<string, Scope>;
}

const noRun: Run = { id: "", turnId: "", open: false, finish: "" };
const noScope: Scope = { run: noRun, before: [], pending: [], opener: "", first: 0 };

export const nothing: Facts = {
  seq: 0,
  time: "",
  active: "",
  handoff: "",
  turn: "none",
  turnId: "",
  turns: 0,
  spoke: [],
  questions: [],
  spent: [],
  gaps: false,
  run: noRun,
  scopes: new Map([["", noScope]]),
};

const overHandoff: readonly string[] = ["completed", "ended", "cancelled", "failed"];
const human = "human";
/** A larger number of tokens than any model reads or writes at once is not counted. */
const implausible = 2 ** 30;

type Next = { -readonly [K in keyof Facts]: Facts[K] };

/** Applies the next stored event. Deltas and known events change nothing. */
export function step(facts: Facts, event: LogEvent): Facts {
  const { seq } = event;
  if (event.partial || seq === undefined || seq <= facts.seq) return facts;
  const next: Next = { ...facts, seq, time: event.time ?? facts.time };
  apply(next, event, seq);
  next.run = next.scopes.get("")!.run;
  next.turn = turnOf(next);
  if (next.scopes !== facts.scopes && (facts.questions.length > 0 || event.type === "relay")) next.questions = questionsOf(next.scopes);
  return next;
}

function turnOf({ turnId, run }: Facts): Facts["turn"] {
  if (turnId === "") return "none";
  if (run.turnId !== turnId || run.open || run.finish === "transfer") return "open";
  return run.id !== "" && run.finish === "input_required" ? "waiting" : "over";
}

function questionsOf(scopes: Facts["scopes"]): readonly Question[] {
  const all = [...scopes.values()].flatMap(({ pending }) => pending.flatMap((c) => c.asks ?? []));
  return all.sort((a, b) => a.seq - b.seq);
}

function apply(next: Next, event: LogEvent, seq: number): void {
  const name = event.scope ?? "";
  const agent = event.agent ?? "";
  const damaged = event as { readonly type: string; readonly was?: unknown };
  if (event.type === "user" || (damaged.type === "unreadable" && damaged.was === "user")) {
    next.turnId = event.turnId ?? "";
    next.turns++;
    if (next.scopes.size > 1) next.scopes = new Map([["", next.scopes.get("")!]]);
    return;
  }
  const scope = next.scopes.get(name) ?? noScope;
  switch (event.type) {
    case "harness_start":
      if (agent !== "" && !next.spoke.includes(agent)) next.spoke = [...next.spoke, agent];
      if (name === "" && next.active === "") next.active = agent;
      put(next, name, started(scope, event, seq));
      return;
    case "harness_end":
      put(next, name, { ...scope, run: { ...scope.run, open: false, finish: event.finishReason ?? "" } });
      if (event.finishReason === "input_required") return;
      for (const opener of [scope.run.id, ...scope.before]) drop(next, opener);
      if (name !== "" && event.finishReason !== "transfer") forget(next, name);
      return;
    case "transfer":
      if (name === "" && event.outcome === "committed") next.active = event.to;
      return;
    case "handoff_status":
      if (name !== "") return;
      next.handoff = event.status;
      if (!overHandoff.includes(event.status)) next.active = human;
      else if (event.targetAgent && next.active === human) next.active = event.targetAgent;
      return;
    case "notice":
      if (name === "" && event.code === "forked") leave(next);
      return;
    case "tool_call":
      put(next, name, { ...scope, pending: [...scope.pending, { id: event.id ?? "" }] });
      return;
    case "relay": {
      const i = scope.pending.findIndex((c) => c.id === event.toolCallId);
      if (i < 0 && !next.gaps) return;
      const id = event.id ?? "";
      const call = { id: event.toolCallId, ...(id !== "" && { asks: asked(event, id, seq) }) };
      put(next, name, { ...scope, pending: i < 0 ? [...scope.pending, call] : scope.pending.with(i, call) });
      return;
    }
    case "relay_resolved":
      if (scope.pending.some((c) => c.asks?.relayId === event.relayId))
        put(next, name, { ...scope, pending: scope.pending.map((c) => (c.asks?.relayId === event.relayId ? { id: c.id } : c)) });
      return;
    case "tool_result":
      settle(next, name, event.id ?? "");
      return;
    case "usage":
      next.spent = spend(next.spent, agent, event, 1);
      return;
    case "discard":
      if (event.usage !== undefined) next.spent = spend(next.spent, agent, event.usage, 0);
      return;
    default:
      if (damaged.type === "hidden") next.gaps = true;
      if (damaged.type === "unreadable") settle(next, name, (event as { readonly id?: string }).id ?? "");
  }
}

function put(next: Next, name: string, scope: Scope): void {
  next.scopes = new Map(next.scopes).set(name, scope);
}

function started(scope: Scope, event: Schemas["HarnessStartEvent"], seq: number): Scope {
  const turnId = event.turnId ?? "";
  const last = scope.run;
  const takesUp = last.turnId === turnId && (last.open || last.finish === "input_required");
  const begins = scope.first === 0 && { first: seq, opener: event.scope ? parentRun(event.scope) || (event.parentId ?? "") : "" };
  return {
    ...scope,
    ...begins,
    run: { id: event.runId ?? "", turnId, open: true, finish: "" },
    before: takesUp ? [...scope.before, last.id] : [],
    pending: takesUp ? scope.pending : [],
  };
}

function asked(event: Schemas["RelayEvent"], relayId: string, seq: number): Question {
  return {
    relayId,
    callId: event.toolCallId,
    kind: event.kind === "input" ? "input" : "permission",
    tool: event.tool,
    params: event.params,
    message: words(event.message).text,
    ...(event.schema !== undefined && { schema: event.schema }),
    agent: event.agent ?? "",
    seq,
    scope: event.scope ?? "",
    digest: event.digest ?? "",
  };
}

/** The run of a workflow that opened a scope, from the scope's name; "" if a call opened it. */
function parentRun(scope: string): string {
  const slash = scope.indexOf("/");
  const dot = slash < 0 ? -1 : scope.lastIndexOf(".", slash);
  return dot > 0 ? scope.slice(0, dot) : "";
}

/** A call has its result: what it has opened is over. */
function settle(next: Next, name: string, call: string): void {
  const scope = next.scopes.get(name) ?? noScope;
  const i = scope.pending.findIndex((c) => c.id === call);
  if (i >= 0) put(next, name, { ...scope, pending: scope.pending.toSpliced(i, 1) });
  drop(next, call);
}

/** What may have opened scopes inside of a scope: its run, those that it takes up, and its calls. */
function opens(scope: Scope): readonly string[] {
  return [scope.run.id, ...scope.before, ...scope.pending.map((c) => c.id)];
}

/** Forgets the scopes that something has opened, and all inside of them. */
function drop(next: Next, opener: string): void {
  if (opener === "") return;
  for (const [name, scope] of next.scopes) {
    if (scope.opener !== opener || !next.scopes.has(name)) continue;
    forget(next, name);
    for (const id of opens(scope)) drop(next, id);
  }
}

function forget(next: Next, name: string): void {
  const scopes = new Map(next.scopes);
  scopes.delete(name);
  next.scopes = scopes;
}

/** A fork begins: of the inner runs of its parent, it continues only those that its own run has opened. */
function leave(next: Next): void {
  const within = new Set(opens(next.scopes.get("")!));
  const scopes = new Map([["", next.scopes.get("")!]]);
  const inner = [...next.scopes].filter(([name]) => name !== "").sort(([, a], [, b]) => a.first - b.first);
  for (const [name, scope] of inner) {
    if (scope.opener === "" || !within.has(scope.opener)) continue;
    scopes.set(name, scope);
    for (const id of opens(scope)) within.add(id);
  }
  next.scopes = scopes;
}

function spend(all: readonly Spent[], agent: string, use: Schemas["EventUsage"], answers: number): readonly Spent[] {
  const model = use.model ?? "";
  const i = all.findIndex((s) => s.agent === agent && s.model === model);
  const old = all[i] ?? { agent, model, answers: 0, inputTokens: 0, outputTokens: 0, cachedTokens: 0 };
  const counts = plausible(use.inputTokens) && plausible(use.outputTokens);
  const now: Spent = {
    agent,
    model,
    answers: old.answers + answers,
    inputTokens: old.inputTokens + (counts ? use.inputTokens : 0),
    outputTokens: old.outputTokens + (counts ? use.outputTokens : 0),
    cachedTokens: old.cachedTokens + (counts && plausible(use.cachedTokens ?? 0) ? (use.cachedTokens ?? 0) : 0),
  };
  return i < 0 ? [...all, now] : all.with(i, now);
}

function plausible(tokens: number): boolean {
  return tokens >= 0 && tokens <= implausible;
}

/** All tokens of a session, and how many of them the endpoint had in its cache. */
export function tokens(facts: Facts): { readonly all: number; readonly cached: number } {
  return facts.spent.reduce(
    (sum, s) => ({ all: sum.all + s.inputTokens + s.outputTokens, cached: sum.cached + s.cachedTokens }),
    { all: 0, cached: 0 },
  );
}
