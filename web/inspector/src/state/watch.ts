// Something that the server makes of a session's log, asked for again when the log grows.
import { get } from "../net/api.js";
import { follow } from "../net/stream.js";
import { attempt, refreshTree } from "./app.js";

export interface Watched<T> {
  readonly value?: T;
  /** Why there is no value, or no newer one. */
  readonly error?: string;
}

export interface Watch {
  /** Whether the page is visible: a hidden one asks for nothing. */
  readonly seen: (yes: boolean) => void;
  readonly close: () => void;
}

/** Asks for a path below a session, and again after each change of its log, until it is closed. */
export function watch<T extends { readonly seq: number }>(
  session: string,
  path: string,
  user: string | undefined,
  tell: (now: Watched<T>) => void,
): Watch {
  const stop = new AbortController();
  let last: Watched<T> = {};
  let hangUp: (() => void) | undefined;
  let [shown, asking, again] = [false, false, false];
  const say = (now: Watched<T>): void => {
    if (!stop.signal.aborted) tell((last = now));
  };
  const fail = (error: unknown): void => say({ ...last, error: error instanceof Error ? error.message : String(error) });
  const ask = async (): Promise<T> => {
    const value = await get<T>(`${session}${path}`, { query: { user }, signal: stop.signal });
    say({ value });
    return value;
  };
  // One question at a time, and no more of them than the browser draws pictures.
  const grown = (): void => {
    again = true;
    if (asking) return;
    asking = true;
    requestAnimationFrame(async () => {
      again = false;
      await ask().catch(fail);
      asking = false;
      if (again && !stop.signal.aborted) grown();
    });
  };
  const begin = async (): Promise<void> => {
    const { seq } = await ask();
    if (stop.signal.aborted || !shown || hangUp !== undefined) return;
    hangUp = follow({
      path: `${session}/events`,
      query: { user, media: "omit", clip: 1024 },
      after: String(seq),
      frames: (frames) => {
        if (frames.some((f) => f.type === "" && f.id !== "")) grown();
        if (frames.some((f) => f.type === "tree")) void attempt(refreshTree).then(grown);
      },
      connected: (now) => now && void attempt(refreshTree),
      failed: fail,
    });
  };
  const end = (): void => {
    hangUp?.();
    hangUp = undefined;
  };
  return {
    seen: (yes) => {
      if (yes === shown) return;
      shown = yes;
      if (yes) begin().catch(fail);
      else end();
    },
    close: () => {
      stop.abort();
      end();
    },
  };
}

/** Follows whether the tree answers otherwise, where no session and no list of them says so. */
export function watchTree(): Watch {
  let hangUp: (() => void) | undefined;
  const end = (): void => {
    hangUp?.();
    hangUp = undefined;
  };
  return {
    seen: (yes) => {
      if (!yes) return end();
      hangUp ??= follow({
        path: "/changes",
        frames: (frames) => frames.some((f) => f.type === "tree") && void attempt(refreshTree),
        connected: (now) => now && void attempt(refreshTree),
        failed: () => {},
      });
    },
    close: end,
  };
}
