// The course of a log in time: where turns begin, where nothing happened for long, and where it can
// be forked. It grows with the log and looks at each event once.
import { timeOf } from "../ui/line.js";
import { checkpointAt } from "./checkpoint.js";
import type { Log } from "./log.js";

/** Nothing happened between an event and the next one. */
export interface Pause {
  readonly after: number;
  readonly ms: number;
}

/** A pause above this length is folded, in milliseconds. */
export const folded = 10_000;

export class Course {
  /** Positions of the user's messages. */
  readonly turns: number[] = [];
  readonly pauses: Pause[] = [];
  private done = 0;

  constructor(readonly log: Log) {}

  grow(): this {
    const { events } = this.log;
    for (; this.done < events.length; this.done++) {
      const event = events[this.done]!;
      if (event.type === "user") this.turns.push(event.seq ?? 0);
      const [a, b] = [timeOf(events[this.done - 1]), timeOf(event)];
      if (a !== undefined && b !== undefined && b - a > folded) this.pauses.push({ after: (event.seq ?? 0) - 1, ms: b - a });
    }
    return this;
  }

  /** The turn of a position, from 1 for the first that is loaded; 0 before it. */
  turnAt(seq: number): number {
    let n = 0;
    while (n < this.turns.length && this.turns[n]! <= seq) n++;
    return n;
  }

  /** Where the turn before or after a position begins; the end of the log after the last one. */
  turn(seq: number, way: 1 | -1): number {
    if (way > 0) return this.turns.find((t) => t > seq) ?? this.log.end.seq;
    return this.turns.findLast((t) => t < seq) ?? this.log.from;
  }

  /** The next checkpoint in a direction, the position itself left out. */
  beside(seq: number, way: 1 | -1): number {
    let at = seq + way;
    while (at > this.log.from && at < this.log.end.seq && checkpointAt(this.log, at) !== at) at += way;
    return Math.max(this.log.from, Math.min(at, this.log.end.seq));
  }
}
