// The positions at which a session can be forked.
import type { Log } from "./log.js";

/**
 * The checkpoint at a position or before it: the end of a write, whose events share a time that no
 * other write has, or the place before or after a message of the user.
 */
export function checkpointAt(log: Log, at: number): number {
  for (let seq = Math.min(at, log.end.seq); seq >= log.from; seq--) {
    const here = log.event(seq);
    const next = log.event(seq + 1);
    if (here === undefined || next === undefined || here.time !== next.time || here.type === "user" || next.type === "user") return seq;
  }
  return log.from - 1;
}
