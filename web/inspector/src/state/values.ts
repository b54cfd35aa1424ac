// The state of a session with its writers, and its files with their versions.
import type { Schemas } from "../net/api.js";

/** A value of the state. */
export interface Entry {
  readonly key: string;
  readonly value: unknown;
  readonly scope: "session" | "turn" | "user" | "app";
  /** The event that wrote it last; undefined if it is not among those that were read. */
  readonly by?: Schemas["StateEvent"];
}

/**
 * The values of a session, by their keys. Those of the user and the app belong to all of their sessions, and are as
 * this session wrote them last.
 */
export function entriesOf(values: Readonly<Record<string, unknown>>, writes: readonly Schemas["StateEvent"][]): readonly Entry[] {
  const last = new Map<string, Schemas["StateEvent"]>();
  for (const e of writes) for (const key of Object.keys(e.delta ?? {})) last.set(key, e);
  const entry = (key: string, value: unknown): Entry => {
    const by = last.get(key);
    return { key, value, scope: scopeOf(key), ...(by !== undefined && { by }) };
  };
  const shared = [...last].flatMap(([key, e]) => {
    const value = e.delta?.[key];
    return value == null || !["user", "app"].includes(scopeOf(key)) ? [] : [entry(key, value)];
  });
  return [...Object.entries(values).map(([key, value]) => entry(key, value)), ...shared].sort((a, b) => (a.key < b.key ? -1 : 1));
}

function scopeOf(key: string): Entry["scope"] {
  for (const scope of ["turn", "user", "app"] as const) if (key.startsWith(`${scope}:`)) return scope;
  return "session";
}

/** A file, and which one of its name it is. */
export interface Version {
  readonly file: Schemas["File"];
  readonly version: number;
  /** How many files have its name. */
  readonly of: number;
}

/** The files up to a position, the last one first. */
export function versionsOf(files: readonly Schemas["File"][], at: number): readonly Version[] {
  const known = files.filter((f) => f.seq <= at);
  const counts = new Map<string, number>();
  const numbers = known.map(({ name }) => {
    const n = (counts.get(name) ?? 0) + 1;
    counts.set(name, n);
    return n;
  });
  return known.map((file, i) => ({ file, version: numbers[i]!, of: counts.get(file.name)! })).reverse();
}
