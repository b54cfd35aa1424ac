// What many sessions have used, summed up.
import { texts } from "../texts-behind.js";
import type { Schemas } from "../net/api.js";

export type Column = "cost" | "inputTokens" | "cachedTokens" | "readAnew" | "outputTokens" | "answers" | "seconds";

/** A sum. Its cost is null if a part of it has no price; its seconds are absent where they are not counted. */
export interface Total {
  readonly name: string;
  readonly title?: string;
  readonly cost: number | null;
  /** What the parts cost that have a price. */
  readonly known: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  /** The part of the input that models read again because of transfers. */
  readonly readAnew: number;
  readonly outputTokens: number;
  readonly answers: number;
  readonly seconds?: number;
}

type Kind = "agent" | "model" | "session" | "day";

function plus(sum: Total | undefined, name: string, s: Partial<Schemas["Spent"]>, title?: string): Total {
  const used = (s.answers ?? 0) + (s.inputTokens ?? 0) + (s.outputTokens ?? 0) > 0;
  const old: Total = sum ?? { name, ...(title !== undefined && { title }), cost: 0, known: 0, inputTokens: 0, cachedTokens: 0, readAnew: 0, outputTokens: 0, answers: 0 };
  const seconds = s.seconds === undefined ? old.seconds : (old.seconds ?? 0) + s.seconds;
  return {
    ...old,
    cost: !used ? old.cost : old.cost === null || s.cost === null || s.cost === undefined ? null : old.cost + s.cost,
    known: old.known + (s.cost ?? 0),
    inputTokens: old.inputTokens + (s.inputTokens ?? 0),
    cachedTokens: old.cachedTokens + (s.cachedTokens ?? 0),
    readAnew: old.readAnew + (s.readAnew ?? 0),
    outputTokens: old.outputTokens + (s.outputTokens ?? 0),
    answers: old.answers + (s.answers ?? 0),
    ...(seconds !== undefined && { seconds }),
  };
}

function less(cost: number | null, shared: number | null): number | null {
  return cost === null || shared === null ? null : Math.max(0, cost - shared);
}

function minus(s: Schemas["Spent"], shared: Schemas["Spent"] | undefined): Schemas["Spent"] {
  if (shared === undefined) return s;
  return {
    answers: s.answers - shared.answers,
    inputTokens: s.inputTokens - shared.inputTokens,
    cachedTokens: s.cachedTokens - shared.cachedTokens,
    readAnew: s.readAnew - shared.readAnew,
    outputTokens: s.outputTokens - shared.outputTokens,
    cost: less(s.cost, shared.cost),
    readAnewCost: less(s.readAnewCost, shared.readAnewCost),
  };
}

export class Totals {
  constructor(
    readonly sessions = 0,
    readonly failed = 0,
    readonly all: Total = plus(undefined, "all", {}),
    private readonly by: ReadonlyMap<string, Total> = new Map(),
  ) {}

  /**
   * With one more session: a new value. What a fork shares with the session that it was forked from
   * is that one's, and is not counted again.
   */
  add(session: Schemas["Session"], usage: Schemas["SessionUsage"], shared?: Schemas["SessionUsage"]): Totals {
    const by = new Map(this.by);
    const put = (kind: Kind, name: string, s: Partial<Schemas["Spent"]>, title?: string): void => {
      const key = `${kind} ${name}`;
      by.set(key, plus(by.get(key), name, s, title));
    };
    const day = dayOf(session.updated);
    let all = this.all;
    put("session", session.id, {}, session.title);
    for (const m of usage.models) {
      const own = minus(m.session, shared?.models.find((s) => s.agent === m.agent && s.model === m.model)?.session);
      put("agent", m.agent, own);
      put("model", m.model || texts.cost.noModel, own);
      put("session", session.id, own);
      put("day", day, own);
      all = plus(all, "all", own);
    }
    for (const a of usage.agents) {
      put("agent", a.agent, { seconds: a.seconds - (shared?.agents.find((s) => s.agent === a.agent)?.seconds ?? 0) });
    }
    const time = { seconds: Math.max(0, (usage.session.seconds ?? 0) - (shared?.session.seconds ?? 0)) };
    put("session", session.id, time);
    put("day", day, time);
    return new Totals(this.sessions + 1, this.failed, plus(all, "all", time), by);
  }

  /** With one more session that could not be read. */
  miss(): Totals {
    return new Totals(this.sessions, this.failed + 1, this.all, this.by);
  }

  rows(kind: Kind): readonly Total[] {
    return [...this.by].filter(([key]) => key.startsWith(`${kind} `)).map(([, total]) => total);
  }
}

/** The day of a time where the reader is, as 2026-03-01. */
export function dayOf(time: string): string {
  const t = new Date(time);
  const two = (n: number): string => String(n).padStart(2, "0");
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
}
