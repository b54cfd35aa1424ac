// The runs of a turn on a line of time. All times are those of the log: an answer lies between what
// was recorded before it in its run and its own record, a call between itself and its result.
import { texts } from "../texts-behind.js";
import { timeOf } from "../ui/line.js";
import { folded } from "./course.js";
import type { LogEvent } from "./events.js";

export interface Bar {
  readonly kind: "answer" | "call" | "wait";
  readonly name: string;
  /** In milliseconds. */
  readonly from: number;
  readonly to: number;
  /** Whether nothing has ended it yet. */
  readonly open: boolean;
  readonly failed: boolean;
  /** Positions of the events that it lies between. */
  readonly first: number;
  readonly last: number;
  readonly callId?: string;
}

/** What one agent does in one conversation of a turn: a run, and the runs that resume it after a pause. */
export interface Lane {
  readonly run: string;
  readonly agent: string;
  /** How deeply it is nested. */
  readonly depth: number;
  readonly seq: number;
  readonly from: number;
  readonly to: number;
  readonly finish: string;
  readonly bars: readonly Bar[];
}

/** A transfer from one lane to another. */
export interface Hop {
  readonly from: number;
  readonly to: number;
  readonly time: number;
  readonly seq: number;
}

export interface Fold {
  readonly from: number;
  readonly to: number;
}

export interface Waterfall {
  readonly seq: number;
  readonly from: number;
  readonly to: number;
  readonly lanes: readonly Lane[];
  readonly hops: readonly Hop[];
  /** Pauses in which nothing was done, above 10 s. */
  readonly folds: readonly Fold[];
}

type Open<T> = { -readonly [K in keyof T]: T[K] };
interface Work extends Open<Omit<Lane, "bars">> {
  bars: Open<Bar>[];
  scope: string;
  /** When the last event of the lane was recorded, and its position. */
  last: { time: number; seq: number };
  calls: Map<string, Open<Bar>>;
  /** The answer that the last events are parts of. */
  answer: Open<Bar> | undefined;
}

const answers: readonly string[] = ["text", "reasoning", "tool_call", "usage"];

/** Arranges the events of one turn. */
export function waterfall(events: readonly LogEvent[]): Waterfall {
  const w = new Worker(events);
  for (const event of events) w.take(event);
  return w.end();
}

class Worker {
  private readonly lanes: Work[] = [];
  private readonly hops: Hop[] = [];
  private readonly byRun = new Map<string, Work>();
  private readonly byScope = new Map<string, Work>(); // the last one
  private readonly byCall = new Map<string, Work>();
  private readonly asked = new Map<string, string>(); // calls by questions about them
  private readonly handed = new Map<string, { lane: number; time: number; seq: number }>(); // by scope
  private now: number;
  private readonly begin: number;

  constructor(private readonly events: readonly LogEvent[]) {
    this.begin = this.now = timeOf(events.find((e) => timeOf(e) !== undefined)) ?? 0;
  }

  take(event: LogEvent): void {
    const seq = event.seq ?? 0;
    this.now = Math.max(this.now, timeOf(event) ?? this.now); // clocks may go back
    if (event.type === "user") return;
    if (event.type === "harness_start") this.start(event, seq);
    const lane = this.byRun.get(event.runId ?? "") ?? this.byScope.get(event.scope ?? "");
    if (lane === undefined) return;
    this.inLane(lane, event, seq);
    if (!answers.includes(event.type)) lane.answer = undefined;
    lane.last = { time: this.now, seq };
    lane.to = this.now;
  }

  private start(event: Extract<LogEvent, { type: "harness_start" }>, seq: number): void {
    const scope = event.scope ?? "";
    const run = event.runId ?? "";
    const before = this.byScope.get(scope);
    if (before?.agent === event.agent && before?.finish === "input_required") {
      const open = [...before.calls.values()].some((bar) => bar.kind === "wait");
      if (!open && this.now > before.last.time) before.bars.push(this.bar("wait", texts.runs.kinds.wait, before.last, seq));
      before.finish = "";
      this.byRun.set(run, before);
      return;
    }
    const opener = scope === "" ? undefined : (this.byRun.get(parentRun(scope)) ?? this.byCall.get(event.parentId ?? ""));
    const lane: Work = {
      run,
      agent: event.agent ?? event.agentId,
      depth: before?.depth ?? (scope === "" ? 0 : (opener?.depth ?? 0) + 1),
      seq,
      from: this.now,
      to: this.now,
      finish: "",
      bars: [],
      scope,
      last: { time: this.now, seq },
      calls: new Map(),
      answer: undefined,
    };
    this.lanes.push(lane);
    this.byRun.set(run, lane);
    this.byScope.set(scope, lane);
    const hop = this.handed.get(scope);
    if (hop !== undefined) this.hops.push({ from: hop.lane, to: this.lanes.length - 1, time: hop.time, seq: hop.seq });
    this.handed.delete(scope);
  }

  private bar(kind: Bar["kind"], name: string, since: { time: number; seq: number }, seq: number): Open<Bar> {
    return { kind, name, from: since.time, to: this.now, open: false, failed: false, first: since.seq, last: seq };
  }

  private inLane(lane: Work, event: LogEvent, seq: number): void {
    switch (event.type) {
      case "text":
      case "reasoning":
      case "tool_call":
      case "usage":
        if (lane.answer === undefined) lane.bars.push((lane.answer = this.bar("answer", texts.runs.kinds.answer, lane.last, seq)));
        else Object.assign(lane.answer, { to: this.now, last: seq });
        if (event.type === "usage") lane.answer = undefined;
        if (event.type === "tool_call") {
          this.byCall.set(event.id ?? "", lane);
          this.segment(lane, event.id ?? "", "call", event.name, seq);
        }
        return;
      case "error":
        lane.answer ??= this.bar("answer", texts.runs.kinds.answer, lane.last, seq);
        if (!lane.bars.includes(lane.answer)) lane.bars.push(lane.answer);
        lane.answer.failed = true;
        return;
      case "relay":
        if (this.settle(event.toolCallId, seq) === undefined) return;
        this.asked.set(event.id ?? "", event.toolCallId);
        this.segment(this.byCall.get(event.toolCallId)!, event.toolCallId, "wait", texts.runs.kinds.wait, seq);
        return;
      case "relay_resolved": {
        const id = this.asked.get(event.relayId) ?? "";
        const owner = this.byCall.get(id);
        if (owner === undefined || this.settle(id, seq) === undefined) return;
        this.segment(owner, id, "call", owner.bars.find((b) => b.callId === id)!.name, seq);
        return;
      }
      case "tool_result": {
        const bar = this.settle(event.id ?? "", seq);
        if (bar !== undefined) bar.failed = event.isError === true;
        return;
      }
      case "transfer":
        if (event.outcome === "committed") this.handed.set(event.scope ?? "", { lane: this.lanes.indexOf(lane), time: this.now, seq });
        return;
      case "harness_end":
        lane.finish = event.finishReason ?? "";
        return;
    }
  }

  private segment(lane: Work, callId: string, kind: "call" | "wait", name: string, seq: number): void {
    const bar: Open<Bar> = { ...this.bar(kind, name, { time: this.now, seq }, seq), open: true, callId };
    lane.bars.push(bar);
    lane.calls.set(callId, bar);
  }

  /** Ends what is open of a call. */
  private settle(callId: string, seq: number): Open<Bar> | undefined {
    const bar = this.byCall.get(callId)?.calls.get(callId);
    if (bar === undefined) return undefined;
    bar.to = this.now;
    bar.last = seq;
    bar.open = false;
    this.byCall.get(callId)!.calls.delete(callId);
    return bar;
  }

  end(): Waterfall {
    for (const lane of this.lanes) {
      for (const bar of lane.calls.values()) bar.to = this.now;
      lane.bars = lane.bars.filter((b) => b.kind !== "wait" || b.open || b.to > b.from);
    }
    return { seq: this.events[0]?.seq ?? 0, from: this.begin, to: this.now, lanes: this.lanes, hops: this.hops, folds: this.folds() };
  }

  /** The long times in which a turn only waits. */
  private folds(): Fold[] {
    const busy = this.lanes.flatMap((l) => l.bars.filter((b) => b.kind !== "wait").map((b) => ({ from: b.from, to: b.to })));
    busy.sort((a, b) => a.from - b.from);
    const folds: Fold[] = [];
    let until = this.begin;
    for (const { from, to } of [...busy, { from: this.now, to: this.now }]) {
      if (from - until > folded) folds.push({ from: until, to: from });
      until = Math.max(until, to);
    }
    return folds;
  }
}

function parentRun(scope: string): string {
  const slash = scope.indexOf("/");
  const dot = slash < 0 ? -1 : scope.lastIndexOf(".", slash);
  return dot > 0 ? scope.slice(0, dot) : "";
}

/** The share of the width that one folded pause takes. */
const foldShare = 0.1;

/** Returns the places of times on a line from 0 to 1, with folded pauses of one width. */
export function scaleOf({ from, to, folds }: Pick<Waterfall, "from" | "to" | "folds">): (time: number) => number {
  const away = folds.reduce((sum, f) => sum + f.to - f.from, 0);
  const share = folds.length === 0 ? 0 : Math.min(foldShare, 0.5 / folds.length);
  const rest = Math.max(1, to - from - away);
  const room = 1 - share * folds.length;
  return (time) => {
    let x = 0;
    let passed = 0;
    for (const f of folds) {
      if (time < f.from) break;
      if (time < f.to) return ((f.from - from - passed) / rest) * room + x + ((time - f.from) / (f.to - f.from)) * share;
      passed += f.to - f.from;
      x += share;
    }
    return Math.min(1, ((time - from - passed) / rest) * room + x);
  };
}

/** Moments for the marks below a turn: whole steps of 1, 2 or 5 between folded pauses. */
export function ticksOf(w: Waterfall): readonly number[] {
  const at = scaleOf(w);
  const shown = w.to - w.from - w.folds.reduce((sum, f) => sum + f.to - f.from, 0);
  if (shown <= 0) return [w.from];
  const rough = shown / 5;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= rough) ?? ten * 10);
  const ticks: number[] = [];
  let last = -1;
  for (let t = w.from; t <= w.to; t += step) {
    const inside = w.folds.find((f) => t > f.from && t < f.to);
    if (inside !== undefined) {
      t = w.from + Math.floor((inside.to - w.from) / step) * step;
      continue;
    }
    if (at(t) - last > 0.08 && at(t) < 0.86) ticks.push(t);
    last = at(ticks.at(-1) ?? w.from);
  }
  return ticks;
}
