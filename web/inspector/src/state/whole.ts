// The whole texts and values of events that were sent shortened, loaded when the reader asks for them.
import { signal } from "@preact/signals";
import { get, path } from "../net/api.js";
import { attempt } from "./app.js";
import type { LogEvent } from "./events.js";
import type { OpenSession } from "./open.js";

const loaded = new WeakMap<OpenSession, ReturnType<typeof store>>();
const store = () => signal<ReadonlyMap<number, LogEvent>>(new Map());

function of(session: OpenSession): ReturnType<typeof store> {
  let found = loaded.get(session);
  if (found === undefined) loaded.set(session, (found = store()));
  return found;
}

/** The whole event at a position, if it was asked for. */
export function wholeEvent(session: OpenSession, seq: number): LogEvent | undefined {
  return of(session).value.get(seq);
}

/** Asks for whole events. */
export async function loadWhole(session: OpenSession, seqs: readonly number[]): Promise<void> {
  const events = await attempt(() =>
    Promise.all(seqs.map((seq) => get<LogEvent>(session.path + path("events", seq), { query: session.query }))),
  );
  if (events === undefined) return;
  const kept = of(session);
  kept.value = new Map([...kept.value, ...events.map((e, i) => [seqs[i]!, e] as const)]);
}
