// Values that the page asks for again and again, because no stream reports what other users do.
import { type Signal, signal } from "@preact/signals";
import { ApiError, getExact } from "../net/api.js";
import { signedOut } from "./app.js";

/** Since when the server has not answered. */
export const lost = signal<Date | undefined>(undefined);

export interface Polled<T> {
  /** The last answer; undefined until there is one. */
  readonly value: Signal<T | undefined>;
  /** Why there is nothing for the reader. */
  readonly error: Signal<string | undefined>;
  /** Asks now. */
  readonly look: () => Promise<void>;
  /** Asks repeatedly until the returned function is called. */
  readonly watch: () => () => void;
}

/** Asks for a path, with a pause after each answer, in milliseconds. */
export function polled<T>(path: string, pause: number): Polled<T> {
  const value = signal<T | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  let asked = 0;
  const look = async (): Promise<void> => {
    const nth = ++asked;
    try {
      const answer = await getExact<T>(path);
      if (nth !== asked) return; // a later question has a later answer
      value.value = answer;
      lost.value = undefined;
      error.value = undefined;
    } catch (wrong) {
      if (!(wrong instanceof ApiError)) throw wrong;
      if (nth !== asked) return;
      if (wrong.status === 401) signedOut.value = true;
      else if (wrong.status === 403 || wrong.status === 404) error.value = wrong.message;
      else lost.value ??= new Date();
    }
  };
  const watch = (): (() => void) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    const next = async (): Promise<void> => {
      if (!document.hidden) await look();
      if (!stopped && error.value === undefined && !signedOut.value) timer = setTimeout(() => void next(), pause);
    };
    void next();
    return () => {
      stopped = true;
      clearTimeout(timer);
      asked++; // no other caller waits for the result
      value.value = lost.value = undefined;
    };
  };
  return { value, error, look, watch };
}
