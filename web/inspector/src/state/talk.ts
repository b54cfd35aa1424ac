// The rows of a conversation, in the order of the log: the messages of the graph and, between
// them, events that are no nodes of it, such as transfers.
import { type Active, type Graph, type ViewNode, thread } from "@agentarbor/conversation";
import type { LogEvent } from "./events.js";
import type { Log, Moment } from "./log.js";

export type Event<T extends LogEvent["type"]> = Extract<LogEvent, { type: T }>;
type Between = "transfer" | "route" | "handoff_status" | "compaction" | "notice" | "discard" | "file" | "relay";

export type Row = {
  /** The same as long as the row is about the same. */
  readonly key: string;
  /** Where it begins in the log; absent as long as it is not stored. */
  readonly seq?: number;
} & (
  | {
      readonly kind: "said";
      readonly view: ViewNode;
      /** Whether another row, or nothing, is before it: its agent is named. */
      readonly named: boolean;
      /** Whether its block begins with it. */
      readonly begins: boolean;
      /** The block's summary, if it is folded: this row is all of it. */
      readonly folded?: readonly ViewNode[];
      /** The id of the node with which the next message of the same run begins. */
      readonly next?: string;
    }
  | { readonly kind: "event"; readonly event: Event<Exclude<Between, "relay">>; readonly route?: Event<"route"> }
  | { readonly kind: "question"; readonly event: Event<"relay">; readonly resolved?: Event<"relay_resolved">; readonly open: boolean }
  | { readonly kind: "unkept"; readonly agent: string; readonly text: string }
);

/** The rows with the texts that were not stored, at their places. */
export function withUnkept(rows: readonly Row[], { unkept }: Log, { seq }: Moment): readonly Row[] {
  if (unkept.length === 0) return rows;
  const out = [...rows];
  for (const { id, agent, text, seq: end } of unkept) {
    if (end > seq) continue;
    const at = out.findIndex((row) => (row.seq ?? Infinity) > end);
    out.splice(at < 0 ? out.length : at, 0, { kind: "unkept", key: `unkept ${id}`, seq: end, agent, text });
  }
  return out;
}

/** Events of a log that are shown between messages, by scope; kept up to date as the log grows. */
class Marks {
  private done = 0;
  private readonly scopes = new Map<string, LogEvent[]>();
  readonly resolved = new Map<string, Event<"relay_resolved">>();
  /** Calls that a transfer replaces, and the place of the transfer. */
  readonly transfers = new Map<string, number>();
  /** The rows of the conversation that were made last. */
  last: Made | undefined;

  constructor(private readonly log: Log) {}

  update(): this {
    const { events } = this.log;
    for (; this.done < events.length; this.done++) this.take(events[this.done]!);
    return this;
  }

  of(scope: string): readonly LogEvent[] {
    return this.scopes.get(scope) ?? [];
  }

  private take(event: LogEvent): void {
    switch (event.type) {
      case "relay_resolved":
        this.resolved.set(event.relayId, event);
        return;
      case "transfer":
        if (event.toolCallId !== undefined) this.transfers.set(event.toolCallId, event.seq ?? 0);
        break;
      case "relay": // the person who is asked has to see it, however deep it was asked
        return this.put("", event);
      case "route":
      case "handoff_status":
      case "compaction":
      case "notice":
      case "discard":
      case "file":
        break;
      default:
        return;
    }
    this.put(event.scope ?? "", event);
  }

  private put(scope: string, event: LogEvent): void {
    const list = this.scopes.get(scope);
    if (list === undefined) this.scopes.set(scope, [event]);
    else list.push(event);
  }
}

/** Rows, and how they were made. */
interface Made {
  readonly views: readonly ViewNode[];
  readonly seq: number;
  readonly rows: readonly Row[];
  readonly places: readonly Place[]; // for each view
  readonly counts: Map<string, number>; // of views, by run; the next ones are made of it
}

/** How far rows were made when it was a view's turn. */
interface Place {
  readonly rows: number;
  readonly done: number; // how many events came before
  readonly nth: number; // of its run
  readonly hidden: boolean;
  readonly stored: boolean;
}

const known = new WeakMap<Log, Marks>();

function marksOf(log: Log): Marks {
  let marks = known.get(log);
  if (marks === undefined) known.set(log, (marks = new Marks(log)));
  return marks.update();
}

/** The rows of the conversation at a moment, on a path through it. */
export function rowsAt(log: Log, moment: Moment, active: Active = {}): readonly Row[] {
  const marks = marksOf(log);
  const { last } = marks;
  marks.last = undefined; // it is used up
  marks.last = make(marks, moment, thread(moment.graph, active), "", last);
  return marks.last.rows;
}

function isSaid(row: Row): row is Extract<Row, { kind: "said" }> {
  return row.kind === "said";
}

/** Returns the rows with one row for each folded block. Open questions and transfers stay. */
export function foldRows(rows: readonly Row[], folded: ReadonlySet<string>): readonly Row[] {
  if (folded.size === 0) return rows;
  const out: Row[] = [];
  let views: ViewNode[] = [];
  let run = ""; // the run of the folded block that is being read, "" if there is none
  for (const row of rows) {
    if (row.kind === "said") {
      if (row.begins) run = folded.has(row.view.runId) ? row.view.runId : "";
      if (row.begins && run !== "") out.push({ ...row, folded: (views = [row.view]) });
      else if (run !== "") views.push(row.view);
      else out.push(row);
    } else if (run === "" || !isInside(row, run)) out.push(row);
  }
  return out;
}

// isInside reports whether a row between the responses of a folded block is hidden with it.
function isInside(row: Exclude<Row, { kind: "said" }>, run: string): boolean {
  if (row.kind === "unkept") return false;
  if (row.kind === "question") return !row.open;
  const { event } = row;
  return event.runId === run && event.type !== "transfer" && event.type !== "route" && event.type !== "handoff_status";
}

/** The rows of messages in one scope. */
export function rowsOf(log: Log, moment: Moment, views: readonly ViewNode[], scope = scopeOf(log, moment.graph, views)): readonly Row[] {
  return make(marksOf(log), moment, views, scope).rows;
}

/** Makes rows. Those before the first view that has changed since the last time stay the same objects. */
function make(marks: Marks, moment: Moment, views: readonly ViewNode[], scope: string, last?: Made): Made {
  const open = new Set(moment.facts.questions.map((q) => q.relayId));
  const between = marks.of(scope);
  const same = last === undefined ? 0 : unchanged(last, views, marks, moment.seq);
  const kept = last?.places[same] ?? { rows: 0, done: 0 };
  const rows: Row[] = [];
  for (let i = 0; i < kept.rows; i++) {
    const row = last!.rows[i]!;
    rows.push(row.kind === "question" ? asked(row, marks, open, moment.seq) : row);
  }
  const places = last?.places.slice(0, same) ?? [];
  const counts = last?.counts ?? new Map<string, number>();
  for (let i = (last?.places.length ?? 0) - 1; i >= same; i--) counts.set(last!.views[i]!.runId, last!.places[i]!.nth);
  let { done } = kept;
  const pass = (until: number): void => {
    for (; done < between.length; done++) {
      const event = between[done]!;
      if ((event.seq ?? 0) >= until || (event.seq ?? 0) > moment.seq) return;
      put(rows, event, marks, open, moment.seq);
    }
  };
  for (let i = same; i < views.length; i++) {
    const view = views[i]!;
    const seq = moment.graph.node(view.id)?.seq;
    const nth = counts.get(view.runId) ?? 0;
    const hidden = isHandOver(view, marks, moment.seq);
    places.push({ rows: rows.length, done, nth, hidden, stored: seq !== undefined });
    pass(seq ?? Infinity);
    counts.set(view.runId, nth + 1);
    if (hidden) continue;
    const before = rows.at(-1);
    const next = views[i + 1]?.runId === view.runId ? views[i + 1]!.id : undefined;
    rows.push({
      kind: "said",
      key: `${view.runId}#${nth}`,
      ...(seq !== undefined && { seq }),
      view,
      named: before?.kind !== "said" || before.view.runId !== view.runId,
      begins: rows.findLast(isSaid)?.view.runId !== view.runId,
      ...(next !== undefined && { next }),
    });
  }
  pass(Infinity);
  return { views, seq: moment.seq, rows, places, counts };
}

/** For how many views the rows before them, and their own, are still those of the last time. */
function unchanged({ views: old, seq, rows, places }: Made, views: readonly ViewNode[], marks: Marks, until: number): number {
  let same = 0;
  while (same < old.length && same < views.length && old[same] === views[same]) {
    const { hidden, stored } = places[same]!;
    // What is not stored yet comes after all events, and a transfer can hide a message of calls alone.
    if (until !== seq && (!stored || isHandOver(views[same]!, marks, until) !== hidden)) break;
    same++;
  }
  same = Math.max(0, same - 1); // the last one that is the same knows what follows it
  // A transfer may have joined the route that was the last row.
  for (; same > 0; same--) {
    const before = rows[places[same]!.rows - 1];
    if (before?.kind !== "event" || (before.event.type !== "route" && before.event.type !== "transfer")) break;
  }
  return same;
}

function asked(row: Extract<Row, { kind: "question" }>, marks: Marks, open: ReadonlySet<string>, until: number): Row {
  const resolved = marks.resolved.get(row.event.id ?? "");
  const decided = resolved !== undefined && (resolved.seq ?? 0) <= until ? resolved : undefined;
  const opened = open.has(row.event.id ?? "");
  if (decided === row.resolved && opened === row.open) return row;
  const { kind, key, seq, event } = row;
  return { kind, key, event, open: opened, ...(seq !== undefined && { seq }), ...(decided !== undefined && { resolved: decided }) };
}

function put(rows: Row[], event: LogEvent, marks: Marks, open: ReadonlySet<string>, until: number): void {
  const seq = event.seq!;
  const key = `ev${seq}`;
  const before = rows.at(-1);
  switch (event.type) {
    case "relay": {
      rows.push(asked({ kind: "question", key, seq, event, open: false }, marks, open, until));
      return;
    }
    case "transfer":
      // A router's decision and the transfer that it makes are one thing to a reader.
      if (before?.kind === "event" && before.event.type === "route" && before.event.to === event.to && before.event.from === event.from) {
        rows[rows.length - 1] = { kind: "event", key: before.key, seq, event, route: before.event };
        return;
      }
      rows.push({ kind: "event", key, seq, event });
      return;
    case "route":
    case "handoff_status":
    case "compaction":
    case "notice":
    case "discard":
    case "file":
      rows.push({ kind: "event", key, seq, event });
  }
}

// isHandOver reports whether a message consists of calls that transfers replace.
function isHandOver({ text, reasoning, error, branches, toolCalls, content }: ViewNode, marks: Marks, until: number): boolean {
  if (text !== undefined || reasoning !== undefined || error !== undefined || content !== undefined || branches !== undefined) return false;
  return toolCalls !== undefined && toolCalls.every(({ id }) => (marks.transfers.get(id) ?? Infinity) <= until);
}

/** The calls of a message that no transfer replaces. */
export function callsOf(log: Log, moment: Moment, view: ViewNode): NonNullable<ViewNode["toolCalls"]> {
  const { transfers } = marksOf(log);
  return (view.toolCalls ?? []).filter(({ id }) => (transfers.get(id) ?? Infinity) > moment.seq);
}

function scopeOf(log: Log, graph: Graph, views: readonly ViewNode[]): string {
  for (const { id } of views) {
    const seq = graph.node(id)?.seq;
    if (seq !== undefined) return log.event(seq)?.scope ?? "";
  }
  return "none"; // nothing of it is stored yet, so nothing can be between
}

/** What an answer took, by the times of the log, and what it used; and the events of its words. */
export interface Measured {
  readonly ms?: number;
  readonly tokens?: number;
  readonly words: readonly number[];
  readonly thoughts: readonly number[];
}

export function measure(graph: Graph, view: ViewNode, next: string | undefined): Measured {
  let before = "";
  let at = "";
  let tokens: number | undefined;
  let inside = false;
  const words: number[] = [];
  const thoughts: number[] = [];
  for (const node of graph.run(view.runId)) {
    if (node.id === view.id) inside = true;
    else if (node.id === next) break;
    if (!inside) {
      before = node.time ?? "";
      continue;
    }
    if (node.kind === "text" && node.seq !== undefined) words.push(node.seq);
    if (node.kind === "reasoning" && node.seq !== undefined) thoughts.push(node.seq);
    if (node.kind === "usage") {
      tokens = (tokens ?? 0) + node.inputTokens + node.outputTokens;
      at = node.time ?? "";
    }
  }
  const ms = before === "" || at === "" ? undefined : Date.parse(at) - Date.parse(before);
  return { words, thoughts, ...(ms !== undefined && { ms }), ...(tokens !== undefined && { tokens }) };
}

/** The row of a position: the last one that begins there or before. */
export function rowAt(rows: readonly Row[], seq: number): number {
  let found = -1;
  for (const [i, row] of rows.entries()) if (row.seq !== undefined && row.seq <= seq) found = i;
  return found;
}
