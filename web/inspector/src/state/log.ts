// A log and what follows from it: the graph and the facts at its end and, computed from a kept
// graph that is not far before, at any other position.
import { type Event, type Graph, empty, reduceMany } from "@agentarbor/conversation";
import { type Clip, type LogEvent, hiddenAt, isHidden, unclip } from "./events.js";
import { type Facts, nothing, step } from "./session.js";
import { texts } from "../texts.js";

/** A session at one position. */
export interface Moment {
  readonly seq: number;
  readonly graph: Graph;
  readonly facts: Facts;
}

/** How many events lie between kept moments. */
const kept = 64;

/** Events from the first that is loaded to the last that was received, and what follows from them. */
export class Log {
  /** Stored events, the first one at position `from`. Each that the reader does not see has one in its place. */
  readonly events: LogEvent[] = [];
  /** By position: words of which only the beginning was sent. */
  readonly clips = new Map<number, Clip>();
  private readonly marks: Moment[] = [];
  private stored: Moment; // what follows from stored events alone
  private live: Moment; // with deltas
  private flying: LogEvent[] = []; // deltas of what is not stored yet
  /** Words that came one by one and that no event of the log has, in their order. A reload loses them. */
  unkept: readonly Unkept[] = [];
  private past: Moment | undefined; // the last moment that was asked for

  /** With `gaps`, the server leaves events out that the reader does not see. */
  constructor(
    readonly from = 1,
    private readonly gaps = false,
  ) {
    this.stored = { seq: from - 1, graph: empty, facts: { ...nothing, seq: from - 1 } };
    this.live = this.stored;
    this.marks.push(this.stored);
  }

  /** The live end, deltas included. */
  get end(): Moment {
    return this.live;
  }

  /** Deltas of words that are not stored yet. */
  get deltas(): readonly LogEvent[] {
    return this.flying;
  }

  /** Whether the log is there from its beginning, so that all that follows from it is right. */
  get whole(): boolean {
    return this.from === 1;
  }

  event(seq: number): LogEvent | undefined {
    const event = this.events[seq - this.from];
    return isHidden(event) ? undefined : event;
  }

  /** Adds stored events and deltas in the order in which they arrived. Known ones are ignored. */
  add(events: readonly LogEvent[]): void {
    let { graph, facts } = this.stored;
    let live = this.live.graph;
    let whole: Event[] = []; // stored events that the graph does not have yet
    let news: Event[] = []; // what the live graph does not have yet
    const take = (): void => {
      graph = reduceMany(graph, whole);
      whole = [];
    };
    const store = (event: LogEvent): void => {
      this.events.push(event);
      facts = step(facts, event);
      whole.push(event as Event);
      if ((facts.seq - this.from + 1) % kept !== 0) return;
      take();
      this.marks.push({ seq: facts.seq, graph, facts });
    };
    try {
      for (const received of events) {
        let { event, clip } = unclip(received);
        if (event.partial) {
          if (this.flying.length === 0) {
            take();
            live = graph;
            news = [];
          }
          // A stop is shown to those who saw the text, and is not an event of the log.
          if (event.type === "discard") this.keep(this.flying.filter((delta) => settles(event, delta)), facts.seq);
          this.flying.push(event);
          news.push(event as Event);
          continue;
        }
        const { seq } = event;
        if (seq === undefined || seq <= facts.seq) continue;
        while (this.gaps && facts.seq + 1 < seq) store(hiddenAt(facts.seq + 1));
        if (seq !== facts.seq + 1) throw new Error(texts.errors.order(seq, facts.seq + 1));
        // Words that came one by one stay as they are if the stored event has only their beginning.
        const heard = clip === undefined ? undefined : this.heard(event, clip);
        if (heard !== undefined) event = { ...event, content: heard } as LogEvent;
        else if (clip !== undefined) this.clips.set(seq, clip);
        store(event);
        if (this.flying.length > 0) {
          news.push(event as Event);
          const over = this.flying.filter((delta) => settles(event, delta));
          if (over.length > 0) this.flying = this.flying.filter((delta) => !over.includes(delta));
          if (event.type === "harness_end") this.keep(over, seq); // a process that adopts the turn sends the text again
        }
      }
    } finally {
      take();
      live = this.flying.length === 0 ? graph : reduceMany(live, news);
      if (facts !== this.stored.facts) this.stored = { seq: facts.seq, graph, facts };
      this.live = live === graph ? this.stored : { seq: facts.seq, graph: live, facts };
    }
  }

  /** Keeps words that came and that no event of the log will have, once. */
  private keep(deltas: readonly LogEvent[], seq: number): void {
    const lost = unkeptOf(deltas, seq).filter(({ id }) => !this.unkept.some((u) => u.id === id));
    if (lost.length > 0) this.unkept = [...this.unkept, ...lost];
  }

  /** All words of a shortened event, if its deltas have them. */
  private heard(event: LogEvent, { bytes }: Clip): string | undefined {
    let words = "";
    for (const d of this.flying) {
      if (d.type === event.type && d.id === event.id && d.runId === event.runId && "content" in d && typeof d.content === "string") words += d.content;
    }
    return words.length <= bytes && new TextEncoder().encode(words).length === bytes ? words : undefined;
  }

  /** The session as it was at a position, of stored events only if it is in the past. */
  at(seq: number): Moment {
    if (seq >= this.live.seq) return this.live;
    const before = Math.max(0, Math.floor((seq - this.from + 1) / kept));
    let moment = this.marks[Math.min(before, this.marks.length - 1)]!;
    if (this.past !== undefined && this.past.seq <= seq && this.past.seq > moment.seq) moment = this.past;
    if (moment.seq < seq) {
      const events = this.events.slice(moment.seq + 1 - this.from, seq + 1 - this.from);
      const facts = events.reduce(step, moment.facts);
      moment = { seq: facts.seq, graph: reduceMany(moment.graph, events as Event[]), facts };
    }
    this.past = moment;
    return moment;
  }
}

/** What an agent was saying when its run ended before the words were stored. */
export interface Unkept {
  /** Where the log was when they ended. */
  readonly seq: number;
  readonly id: string;
  readonly agent: string;
  readonly text: string;
}

function unkeptOf(deltas: readonly LogEvent[], seq: number): Unkept[] {
  const all = new Map<string, Unkept>();
  for (const d of deltas) {
    if (d.type !== "text" || typeof d.content !== "string" || d.scope) continue;
    const id = d.id ?? "";
    all.set(id, { seq, id, agent: d.agent ?? "", text: (all.get(id)?.text ?? "") + d.content });
  }
  return [...all.values()].filter(({ text }) => text.trim() !== "");
}

/** Whether a stored event makes a delta obsolete: the whole text, a discard, the end of its run, or the adoption of the run by another process. */
function settles(event: LogEvent, delta: LogEvent): boolean {
  if (event.type === "discard" && event.ids?.includes(delta.id ?? "")) return true;
  if (event.runId !== delta.runId) return false;
  if (event.type === "notice" && event.code === "taken_over") return true;
  if (event.type === "harness_end" || event.type === "usage" || event.type === "discard") return delta.type !== "tool_progress" || event.type === "harness_end";
  if (event.type === "tool_result" && delta.type === "tool_progress") return event.id === delta.toolCallId;
  return event.type === delta.type && event.id === delta.id;
}
