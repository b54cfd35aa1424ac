import { deeper, isDeeper, members, wellFormed } from "./json.js";
import { type Kind, isBlock, payloadNames } from "./node.js";
import { utc } from "./time.js";

/**
 * An event as JSON.parse returns it. The reducer reads the members that are
 * named here and the payload's; a member of the wrong type counts as absent. An
 * event must not change after it was reduced: the graph keeps its values.
 */
export interface Event {
  readonly type: string;
  /** Events without one are left out. */
  readonly runId?: string;
  readonly id?: string;
  /** The node or the run that the first event of a run hangs on. */
  readonly parentId?: string;
  readonly agent?: string;
  readonly path?: string;
  /** The position in the stored log, a safe integer from 1 on. */
  readonly seq?: number;
  /** RFC 3339. */
  readonly time?: string;
  /** Says that more of this text is to come. */
  readonly partial?: boolean;
  /** The payload. */
  readonly [field: string]: unknown;
}

/** A member of a payload. */
export interface Field {
  readonly name: string;
  readonly value: unknown;
  /**
   * Its JSON, only where JSON.stringify would write the value in another way, such
   * as 2.50 or a number of twenty digits. Of words it is what stands between the
   * quotes.
   */
  readonly json: string | undefined;
  /** Whether words end in the first half of a surrogate pair; undefined if these are none. */
  readonly half: boolean | undefined;
}

/** What the reducer reads of an event. Strings are empty if absent. */
export interface Read {
  type: string;
  kind: Kind | undefined; // of an event that makes a node
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

/** Says whether words end in the first half of a surrogate pair. */
export function endsInHalf(words: string): boolean {
  const code = words.charCodeAt(words.length - 1);
  return code >= 0xd800 && code < 0xdc00;
}

// str returns a string as Go would read it.
function str(value: unknown): string {
  return typeof value === "string" ? wellFormed(value) : "";
}

// The levels of the deepest event that a store holds. One that is deeper is read as
// one of a type that makes no node.
const maxDepth = 1002;

/** Reads an event. raw has its members as they were written, if that is known. */
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
    fields: fields.slice(), // which is as short as can be; there is room for 17 in what was pushed to
    relayId: type === "relay_resolved" ? str(e["relayId"]) : "",
    approved: type === "relay_resolved" && e["approved"] === true,
    ids: Array.isArray(ids) ? ids.map(str) : [],
    void: type === "notice" && e["code"] === "taken_over",
  };
}

// sequence returns a position, 0 if there is none. Where the text is known, 1e3
// and 7.0 are none, as for the server.
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
  // Most senders write what JSON.stringify would write; only for others is it
  // worth while to look at the text of each member.
  return JSON.stringify(event) === text ? readEvent(event) : readEvent(event, members(text));
}
