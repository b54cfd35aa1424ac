// A log and what follows from it: the graph and the facts at its end and, computed from a kept
// graph that is not far before, at any other position.
import { type Event, type Graph, empty, reduce } from "@agentarbor/conversation";
import { type Clip, type LogEvent, unclip } from "./events.js";
import { type Facts, nothing, step } from "./session.js";

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
  /** Stored events without a gap, the first one at position `from`. */
  readonly events: LogEvent[] = [];
  /** By position: words of which only the beginning was sent. */
  readonly clips = new Map<number, Clip>();
  private readonly marks: Moment[] = [];
  private now: Moment;
  private past: Moment | undefined; // the last moment that was asked for

  constructor(readonly from = 1) {
    this.now = { seq: from - 1, graph: empty, facts: { ...nothing, seq: from - 1 } };
    this.marks.push(this.now);
  }

  /** The live end, deltas included. */
  get end(): Moment {
    return this.now;
  }

  /** Whether the log is there from its beginning, so that all that follows from it is right. */
  get whole(): boolean {
    return this.from === 1;
  }

  event(seq: number): LogEvent | undefined {
    return this.events[seq - this.from];
  }

  /** Takes in stored events and deltas in the order in which they came. What is known is left out. */
  add(events: readonly LogEvent[]): void {
    let { graph, facts } = this.now;
    for (const received of events) {
      const { event, clip } = unclip(received);
      if (!event.partial) {
        if (event.seq === undefined || event.seq <= facts.seq) continue;
        if (event.seq !== facts.seq + 1) throw new Error(`event ${event.seq} came where ${facts.seq + 1} was to come`);
        if (clip !== undefined) this.clips.set(event.seq, clip);
        this.events.push(event);
        facts = step(facts, event);
      }
      graph = reduce(graph, event as Event);
      if (!event.partial && (facts.seq - this.from + 1) % kept === 0) this.marks.push({ seq: facts.seq, graph, facts });
    }
    this.now = { seq: facts.seq, graph, facts };
  }

  /** The session as it was at a position. */
  at(seq: number): Moment {
    if (seq >= this.now.seq) return this.now;
    const from = Math.max(0, Math.floor((seq - this.from + 1) / kept));
    let moment = this.marks[Math.min(from, this.marks.length - 1)]!;
    if (this.past !== undefined && this.past.seq <= seq && this.past.seq > moment.seq) moment = this.past;
    let { graph, facts } = moment;
    for (let n = moment.seq + 1; n <= seq; n++) {
      const event = this.event(n);
      if (event === undefined) break;
      graph = reduce(graph, event as Event);
      facts = step(facts, event);
    }
    this.past = { seq: facts.seq, graph, facts };
    return this.past;
  }
}
