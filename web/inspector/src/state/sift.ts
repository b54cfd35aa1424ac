// What the feed shows of a log: the filter as it is written in the address, and the events that it
// lets through, which grow with the log.
import { line, whose } from "../ui/line.js";
import { type LogEvent, isHidden } from "./events.js";
import type { Log } from "./log.js";

/** What is asked of events: any of the types, any of the agents, and all of the words. */
export interface Sift {
  readonly types: readonly string[];
  readonly agents: readonly string[];
  readonly texts: readonly string[];
}

/** Reads a filter such as: type:transfer agent:billing text:"charged twice" refund */
export function parseSift(text: string): Sift {
  const types: string[] = [];
  const agents: string[] = [];
  const texts: string[] = [];
  for (const [, name = "", quoted, word] of text.matchAll(/(?:(type|agent|text):)?(?:"([^"]*)"?|([^\s"]+))/gu)) {
    const value = (quoted ?? word ?? "").toLowerCase();
    if (value === "") continue;
    if (name === "type") types.push(...value.split(",").filter((v) => v !== ""));
    else if (name === "agent") agents.push(...value.split(",").filter((v) => v !== ""));
    else texts.push(value);
  }
  return { types, agents, texts };
}

export function passes({ types, agents, texts }: Sift, event: LogEvent): boolean {
  if (types.length > 0 && !types.includes(event.type.toLowerCase())) return false;
  if (agents.length > 0 && !agents.includes(whose(event).toLowerCase())) return false;
  if (texts.length === 0) return true;
  const said = `${event.type} ${whose(event)} ${line(event, 2000)}`.toLowerCase();
  return texts.every((t) => said.includes(t));
}

/** The positions of the events of a log that pass a filter. It looks at each event once. */
export class Sifted {
  readonly seqs: number[] = [];
  private done = 0;
  private readonly sift: Sift;

  constructor(
    readonly log: Log,
    readonly filter: string,
  ) {
    this.sift = parseSift(filter);
  }

  /** Adds the new events of the log. */
  grow(): this {
    const { events } = this.log;
    for (; this.done < events.length; this.done++) {
      const event = events[this.done]!;
      if (!isHidden(event) && passes(this.sift, event)) this.seqs.push(event.seq ?? 0);
    }
    return this;
  }
}
