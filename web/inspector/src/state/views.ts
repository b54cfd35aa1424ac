// Requests to the server about a position: what a model was shown there, what it cost, and
// what it says when it is asked again. Everything is asked once and kept; nothing that costs money
// is asked without a click.
import { type Signal, signal } from "@preact/signals";
import { type Schemas, get, getExact, path, post } from "../net/api.js";
import { once } from "./actions.js";
import { attempt, tree } from "./app.js";
import { allowRuns } from "./forking.js";
import type { OpenSession } from "./open.js";
import { type Entry, entriesOf } from "./values.js";
import { texts } from "../texts.js";

export type View = Schemas["View"];

/** What was asked for: neither value nor error means that the server has not answered yet. */
export interface Fetched<T> {
  readonly value?: T;
  readonly error?: string;
}

/** How long something must be looked at before it is asked for, in milliseconds: a slider passes many positions. */
const pause = 120;
/** How many answers are kept. */
const most = 128;

const kept = new Map<string, Signal<Fetched<unknown>>>();

/** Asks when the value is read, keeps the answer, and asks again after an error. */
function fetched<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Fetched<T> {
  let held = kept.get(key) as Signal<Fetched<T>> | undefined;
  if (held === undefined) {
    let stop: (() => void) | undefined;
    const made = signal<Fetched<T>>(
      {},
      {
        watched: () => {
          if (made.peek().value !== undefined) return;
          const abort = new AbortController();
          const timer = setTimeout(() => {
            load(abort.signal).then(
              (value) => (made.value = { value }),
              (error: unknown) => {
                if (!abort.signal.aborted) made.value = { error: error instanceof Error ? error.message : String(error) };
              },
            );
          }, pause);
          stop = () => {
            clearTimeout(timer);
            abort.abort();
          };
        },
        unwatched: () => stop?.(),
      },
    );
    held = made;
    kept.set(key, held as Signal<Fetched<unknown>>);
    for (const old of kept.keys()) {
      if (kept.size <= most) break;
      kept.delete(old);
    }
  }
  return held.value;
}

function keyOf(session: OpenSession, ...what: (string | number)[]): string {
  return JSON.stringify([session.key.user, session.key.id, ...what]);
}

/** What the model of an agent would be asked at a position, by the tree as it is now. */
export function viewAt(session: OpenSession, agent: string, at: number): Fetched<View> {
  return fetched(keyOf(session, "view", agent, at, tree.value?.revision ?? ""), (signal) =>
    get<View>(session.path + path("views", agent), { query: { ...session.query, at }, signal }),
  );
}

/** What a session had used up to a position. */
export function usageAt(session: OpenSession, at: number): Fetched<Schemas["SessionUsage"]> {
  return fetched(keyOf(session, "usage", at), (signal) => get(`${session.path}/usage`, { query: { ...session.query, at }, signal }));
}

/** How many of the last writes of a session's state are read to find the writer of a value. */
const writes = 2000;

/** The state of a session at a position. Its numbers stay as they are written. */
export function stateAt(session: OpenSession, at: number): Fetched<readonly Entry[]> {
  return fetched(keyOf(session, "state", at), async (signal) => {
    const [{ values }, { events }] = await Promise.all([
      getExact<Schemas["SessionDetail"]>(session.path, { query: { ...session.query, at }, signal }),
      getExact<Schemas["Events"]>(`${session.path}/events`, { query: { ...session.query, types: "state", before: at + 1, limit: writes }, signal }),
    ]);
    return entriesOf(values, events as readonly Schemas["StateEvent"][]);
  });
}

/** The files of a session, as the server knew them when its log ended at a position. */
export function filesAt(session: OpenSession, at: number): Fetched<readonly Schemas["File"][]> {
  return fetched(keyOf(session, "files", at), async (signal) => (await get<Schemas["Files"]>(`${session.path}/files`, { query: session.query, signal })).files);
}

/** The runs of graphs up to a position. */
export function graphsAt(session: OpenSession, at: number): Fetched<Schemas["GraphRuns"]> {
  return fetched(keyOf(session, "graphs", at), (signal) => get(`${session.path}/graphs`, { query: { ...session.query, at }, signal }));
}

/** The last position, up to another one, at which the session can be forked. */
export function forkable(session: OpenSession, at: number): Fetched<Schemas["Checkpoint"]> {
  return fetched(keyOf(session, "checkpoint", at), async (signal) => {
    for (const reach of [200, at]) {
      const query = { ...session.query, after: Math.max(0, at - reach), limit: 5000 };
      const { checkpoints } = await get<Schemas["Checkpoints"]>(`${session.path}/checkpoints`, { query, signal });
      const found = checkpoints.findLast((c) => c.seq <= at);
      if (found !== undefined) return found;
    }
    throw new Error(texts.errors.noFork(at));
  });
}

/** Answers that an agent gave when it was asked again at a position. */
export interface Asked {
  readonly asking: number;
  readonly samples: readonly Schemas["Sample"][];
  /** The revision of the tree that was asked last, if the server reports it. */
  readonly revision?: string;
}

const nobody: Asked = { asking: 0, samples: [] };
const asked = new Map<string, Signal<Asked>>();

function held(session: OpenSession, agent: string, at: number): Signal<Asked> {
  const key = keyOf(session, agent, at);
  let found = asked.get(key);
  if (found === undefined) asked.set(key, (found = signal(nobody)));
  return found;
}

export function askedAgain(session: OpenSession, agent: string, at: number): Asked {
  return held(session, agent, at).value;
}

/** Asks the model of an agent n times what it was asked at a position. This costs money and stores nothing. */
export async function askAgain(session: OpenSession, agent: string, at: number, n: number): Promise<void> {
  const state = held(session, agent, at);
  if (state.peek().asking > 0) return;
  state.value = { ...state.peek(), asking: n };
  const made = await attempt(() => post<Schemas["Samples"]>(`${session.path}/samples`, { at, agent, n }, { query: session.query }));
  const { samples, revision } = state.peek();
  const now = made?.revision ?? revision;
  state.value = { asking: 0, samples: [...samples, ...(made?.samples ?? [])], ...(now !== undefined && { revision: now }) };
}

/** Creates a session that continues from a position at once, after the reader has agreed, with another text there or a changed agent, if they are given. */
export async function fork(session: OpenSession, at: number, other: { readonly content?: string; readonly change?: Schemas["Change"]; readonly id?: string }): Promise<Schemas["Session"] | undefined> {
  const to = `${session.path}/${other.content === undefined ? "forks" : "edits"}`;
  const body = { at, resume: true, ...other };
  const made = await attempt(() => post<Schemas["Session"]>(to, body, { query: session.query, key: once() }));
  if (made !== undefined) allowRuns({ ...session.key, id: made.id });
  return made;
}
