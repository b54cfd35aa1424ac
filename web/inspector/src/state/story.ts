// The answers, tool calls and transfers of a log, found once as the log grows.
import type { Schemas } from "../net/api.js";
import type { LogEvent } from "./events.js";
import type { Log } from "./log.js";
import type { Selection } from "./route.js";

/** One answer of a model, a remote agent or a person: all events from its first to its usage. */
export interface Answer {
  readonly agent: string;
  readonly runId: string;
  readonly scope: string;
  readonly turnId: string;
  /** The number of this answer among those of its agent, from 1. */
  readonly no: number;
  readonly first: number;
  last: number;
  /** The position at which the model was asked. */
  readonly at: number;
  /** When what came before in the run was recorded, and when the answer was. */
  readonly begun: string;
  ended: string;
  /** The difference of the two, in milliseconds. */
  ms: number;
  usage?: Schemas["UsageEvent"];
  readonly events: LogEvent[];
}

/** A call of a tool. Without an end it is open. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly agent: string;
  readonly runId: string;
  readonly scope: string;
  readonly seq: number;
  readonly begun: string;
  end?: number;
  ended?: string;
  /** How long it took, in milliseconds; 0 while it is open. */
  ms: number;
  /** Whether a person was asked about it, so that its time is not the tool's alone. */
  asked: boolean;
  isError: boolean;
}

export interface Run {
  readonly id: string;
  readonly agent: string;
  readonly scope: string;
  readonly start: number;
  last: number;
}

/** A transfer, or an attempt at one, with the router's decision that led to it. */
export interface HandOver {
  readonly seq: number;
  readonly transfer?: Schemas["TransferEvent"];
  readonly route?: Schemas["RouteEvent"];
  /** How a person gave the conversation back. */
  readonly back?: Schemas["HandoffStatusEvent"];
}

const over: readonly string[] = ["completed", "ended", "cancelled", "failed"];

export class Story {
  readonly answers: Answer[] = [];
  readonly calls: ToolCall[] = [];
  readonly handOvers: HandOver[] = [];
  readonly runs = new Map<string, Run>();
  readonly users: Schemas["UserEvent"][] = [];
  private read = 0;
  private readonly said = new Map<string, number>(); // by agent
  private readonly open = new Map<string, Answer>(); // by run
  private readonly times = new Map<string, string>(); // of the last event of a run
  private readonly pending = new Map<string, ToolCall>();

  constructor(private readonly log: Log) {}

  /** Adds the new events of the log. */
  update(): this {
    const { events, from } = this.log;
    for (; this.read < events.length; this.read++) this.take(events[this.read]!, from + this.read);
    return this;
  }

  private take(event: LogEvent, seq: number): void {
    const { runId = "", scope = "", agent = "", time = "" } = event;
    switch (event.type) {
      case "harness_start":
        this.runs.set(runId, { id: runId, agent, scope, start: seq, last: seq });
        this.open.delete(runId);
        break;
      case "user":
        if (scope === "") this.users.push(event);
        break;
      case "text":
      case "reasoning":
      case "tool_call":
        this.answer(event, seq);
        if (event.type === "tool_call") this.call(event, seq);
        break;
      case "usage": {
        const answer = this.answer(event, seq);
        answer.usage = event;
        this.open.delete(runId);
        break;
      }
      case "tool_result":
        this.settle(event, seq);
        this.open.delete(runId);
        break;
      case "relay": {
        const call = this.pending.get(`${scope}/${event.toolCallId}`);
        if (call !== undefined) call.asked = true;
        break;
      }
      case "route":
        this.handOvers.push({ seq, route: event });
        this.open.delete(runId);
        break;
      case "transfer":
        this.transfer(event, seq);
        this.open.delete(runId);
        break;
      case "handoff_status":
        if (over.includes(event.status) && event.targetAgent) this.handOvers.push({ seq, back: event });
        break;
      case "harness_end":
      case "discard":
      case "error":
        this.open.delete(runId);
        break;
    }
    const run = this.runs.get(runId);
    if (run !== undefined) run.last = seq;
    this.times.set(runId, time);
  }

  private answer(event: LogEvent, seq: number): Answer {
    const { runId = "", scope = "", agent = "", turnId = "", time = "" } = event;
    let answer = this.open.get(runId);
    if (answer === undefined) {
      const no = (this.said.get(agent) ?? 0) + 1;
      this.said.set(agent, no);
      const begun = this.times.get(runId) ?? time;
      answer = { agent, runId, scope, turnId, no, first: seq, last: seq, at: seq - 1, begun, ended: time, ms: 0, events: [] };
      this.open.set(runId, answer);
      this.answers.push(answer);
    }
    answer.events.push(event);
    answer.last = seq;
    if (answer.ended !== time || answer.events.length === 1) answer.ms = between(answer.begun, time);
    answer.ended = time;
    return answer;
  }

  private call(event: Schemas["ToolCallEvent"], seq: number): void {
    const { id = "", runId = "", scope = "", agent = "", time = "" } = event;
    const call = { id, name: event.name, agent, runId, scope, seq, begun: time, ms: 0, asked: false, isError: false };
    this.calls.push(call);
    this.pending.set(`${scope}/${id}`, call);
  }

  private settle(event: Schemas["ToolResultEvent"], seq: number): void {
    const key = `${event.scope ?? ""}/${event.id ?? ""}`;
    const call = this.pending.get(key);
    if (call === undefined) return;
    call.end = seq;
    call.ended = event.time ?? "";
    call.ms = between(call.begun, call.ended);
    call.isError = event.isError ?? false;
    this.pending.delete(key);
  }

  private transfer(event: Schemas["TransferEvent"], seq: number): void {
    // A route is stored in one write with the transfer that it leads to.
    const before = this.handOvers.at(-1);
    const route = before?.route;
    const one = route !== undefined && before?.transfer === undefined && route.runId === event.runId && route.to === event.to;
    if (one) this.handOvers[this.handOvers.length - 1] = { seq, transfer: event, route };
    else this.handOvers.push({ seq, transfer: event });
  }

  /** Where a selection is in the log; 0 if the log has no such thing. */
  place(sel: Selection): number {
    if (sel.kind === "ev") return this.log.event(sel.seq) === undefined ? 0 : sel.seq;
    if (sel.kind === "run") return this.runs.get(sel.id)?.start ?? 0;
    return this.calls.findLast((c) => c.id === sel.id)?.seq ?? 0;
  }

  /** The answer that an event belongs to, caused or followed; undefined if there is none. */
  answerOf(seq: number): Answer | undefined {
    const event = this.log.event(seq);
    if (event === undefined) return undefined;
    const { runId } = event;
    const own = (a: Answer): boolean => a.runId === runId;
    switch (event.type) {
      case "user":
        return this.answers.find((a) => a.first > seq && a.turnId === event.turnId);
      case "harness_start":
        return this.answers.find((a) => own(a) && a.first > seq);
      case "tool_result": {
        const call = this.calls.findLast((c) => c.end === seq);
        return call === undefined ? undefined : this.answerOf(call.seq);
      }
      default:
        return this.answers.findLast((a) => own(a) && a.first <= seq);
    }
  }

  /** The transfer that an event is part of. */
  handOverOf(seq: number): HandOver | undefined {
    const event = this.log.event(seq);
    return this.handOvers.findLast((h) => h.seq === seq || h.route?.seq === seq || (event !== undefined && partOf(h, event)));
  }

  /** The transfer that an answer asked for, the one that was done before others. */
  handOverBy(answer: Answer): HandOver | undefined {
    const ids = new Set(answer.events.map((e) => (e.type === "tool_call" ? e.id : undefined)));
    const all = this.handOvers.filter(({ transfer: t }) => t?.toolCallId !== undefined && t.runId === answer.runId && ids.has(t.toolCallId));
    return all.find(committed) ?? all[0];
  }

  /** The transfer that led to the run of an event. */
  handOverTo(seq: number): HandOver | undefined {
    const run = this.runs.get(this.log.event(seq)?.runId ?? "");
    if (run === undefined) return undefined;
    return this.handOvers.findLast((h) => h.seq < run.start && committed(h) && to(h) === run.agent && scopeOf(h) === run.scope);
  }

  /** The answer that an event is part of or led to; of a transfer the one that asked for it. */
  decisionAt(seq: number): Answer | undefined {
    const call = this.handOvers.findLast((h) => h.seq === seq)?.transfer?.toolCallId;
    const asked = call === undefined ? undefined : this.calls.findLast((c) => c.id === call && c.seq < seq);
    return this.answerOf(asked?.seq ?? seq);
  }

  /** The user's messages around a position, at most a number of them before it and after it. */
  messages(seq: number, most: number): readonly Schemas["UserEvent"][] {
    const place = this.users.findLastIndex((u) => (u.seq ?? 0) <= seq);
    return this.users.slice(Math.max(0, place - most), place + most + 1);
  }

  /** The user's last message at a position. */
  words(seq: number): Schemas["UserEvent"] | undefined {
    return this.users.findLast((u) => (u.seq ?? 0) <= seq);
  }
}

function partOf({ transfer }: HandOver, event: LogEvent): boolean {
  if (transfer?.toolCallId === undefined || (event.type !== "tool_call" && event.type !== "tool_result")) return false;
  return event.id === transfer.toolCallId && (event.scope ?? "") === (transfer.scope ?? "");
}

function scopeOf({ transfer, route, back }: HandOver): string {
  return (transfer ?? route ?? back)?.scope ?? "";
}

export function committed({ transfer, back }: HandOver): boolean {
  return transfer === undefined ? back !== undefined : transfer.outcome === "committed";
}

export function from({ transfer, route }: HandOver): string {
  return transfer?.from ?? route?.from ?? "human";
}

export function to({ transfer, route, back }: HandOver): string {
  return transfer?.to ?? route?.to ?? back?.targetAgent ?? "";
}

const stories = new WeakMap<Log, Story>();

/** The story of a log so far. Filter by position for a moment in the past. */
export function storyOf(log: Log): Story {
  let story = stories.get(log);
  if (story === undefined) stories.set(log, (story = new Story(log)));
  return story.update();
}

/** The text of a user's message, or of another event with words; what is no text is left out. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (content !== null && typeof content === "object" && "clipped" in content) return String(content.clipped);
  if (!Array.isArray(content)) return "";
  return content
    .map((part: { type?: string; text?: unknown; name?: string }) => (part.type === "text" ? textOf(part.text) : `[${part.type ?? "part"}${part.name ? ` ${part.name}` : ""}]`))
    .join(" ");
}

/** The difference of two times of the log, in milliseconds; 0 if one is missing. */
export function between(begun: string | undefined, ended: string | undefined): number {
  const ms = at(ended) - at(begun);
  return Number.isFinite(ms) && ms > 0 ? ms : 0;
}

/** A time in milliseconds. Times of the log are finer than those of JavaScript. */
function at(time = ""): number {
  const fraction = /\.(\d+)/.exec(time)?.[1] ?? "";
  return new Date(time).getTime() + Number(`0.${fraction.slice(3) || "0"}`);
}
