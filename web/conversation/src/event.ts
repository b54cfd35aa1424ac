import { deeper, isDeeper, members, wellFormed } from "./json.js";
import { type Kind, isBlock, payloadNames } from "./node.js";
import { utc } from "./time.js";

/**
 * An event as JSON.parse returns it. The reducer reads the members that are named here
 * and those of the payload; a member of the wrong type counts as absent. An event must
 * not be changed after it was reduced, because the graph keeps its values.
 */
export interface Event {
  readonly type: string;
  /** Events without one are ignored. */
  readonly runId?: string;
  readonly id?: string;
  /** The parent of the run: a node or another run. It counts in the first event of a run. */
  readonly parentId?: string;
  readonly agent?: string;
  readonly path?: string;
  /** The position in the stored log, a safe integer, starting at 1. */
  readonly seq?: number;
  /** RFC 3339. */
  readonly time?: string;
  /** Whether more of this text follows. */
  readonly partial?: boolean;
  /** The payload. */
  readonly [field: string]: unknown;
}

/** A member of a payload. */
export interface Field {
  readonly name: string;
  readonly value: unknown;
  /**
   * The value as JSON, if JSON.stringify would write it in another way, such as 2.50
   * or a number of twenty digits. For the text of a block it is the part between the
   * quotes.
   */
  readonly json: string | undefined;
  /** Whether the text of a block ends in the first half of a surrogate pair; undefined for other members. */
  readonly half: boolean | undefined;
}

/** The parts of an event that the reducer reads. Strings are empty if absent. */
export interface Read {
  type: string;
  kind: Kind | undefined; // of an event that adds a node
  id: string;
  runId: string;
  parentId: string;
  agent: string;
  path: string;
  seq: number;
  time: string;
  partial: boolean;
  fields: readonly Field[];
  relayId: string; // of relay_resolved
  approved: boolean; // of relay_resolved
  ids: readonly string[]; // of discard
  void: boolean; // of a notice that the run was adopted
}

/** Reports whether a text ends in the first half of a surrogate pair. */
export function endsInHalf(words: string): boolean {
  const code = words.charCodeAt(words.length - 1);
  return code >= 0xd800 && code < 0xdc00;
}

// str returns a string as Go would decode it.
function str(value: unknown): string {
  return typeof value === "string" ? wellFormed(value) : "";
}

// The maximal nesting of an event that a store accepts. A deeper event is treated as
// one of a type that adds no node.
const maxDepth = 1002;

/** Reads an event. raw contains its members as they were written, if known. */
export function readEvent(event: object, raw?: Map<string, string>): Read {
  if (raw === undefined && isDeeper(event, maxDepth)) return readEvent({});
  const e = event as Readonly<Record<string, unknown>>;
  const type = str(e["type"]);
  const names = payloadNames.get(type);
  const fields: Field[] = [];
  for (const name of names ?? []) {
    const value = e[name];
    if (value === undefined) continue;
    let json = raw?.get(name);
    if (json !== undefined && json === JSON.stringify(value)) json = undefined;
    let half: boolean | undefined;
    if (typeof value === "string" && isBlock(type as Kind)) {
      half = endsInHalf(value);
      json = json?.slice(1, -1);
    }
    fields.push({ name, value, json, half });
  }
  const ids = type === "discard" ? e["ids"] : undefined;
  return {
    type,
    kind: names === undefined ? undefined : (type as Kind),
    id: str(e["id"]),
    runId: str(e["runId"]),
    parentId: str(e["parentId"]),
    agent: str(e["agent"]),
    path: str(e["path"]),
    seq: sequence(e["seq"], raw?.get("seq")),
    time: utc(str(e["time"])),
    partial: e["partial"] === true,
    fields: fields.slice(), // without the spare capacity of an array that grew
    relayId: type === "relay_resolved" ? str(e["relayId"]) : "",
    approved: type === "relay_resolved" && e["approved"] === true,
    ids: Array.isArray(ids) ? ids.map(str) : [],
    void: type === "notice" && e["code"] === "taken_over",
  };
}

// sequence returns a position, or 0 if there is none. If the text is known, 1e3 and 7.0
// are not positions, as on the server.
function sequence(value: unknown, json: string | undefined): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value === 0) return 0;
  return json === undefined || /^-?\d+$/.test(json) ? value : 0;
}

/** Reads an event from the text of one JSON object. Throws a SyntaxError for anything else. */
export function parseEvent(text: string): Read {
  if (deeper(text, maxDepth)) return readEvent({});
  const event: unknown = JSON.parse(text);
  if (typeof event !== "object" || event === null || Array.isArray(event)) {
    throw new SyntaxError("an event is a JSON object");
  }
  // Most senders write what JSON.stringify would write. Only for others are the texts
  // of the members needed.
  return JSON.stringify(event) === text ? readEvent(event) : readEvent(event, members(text));
}
