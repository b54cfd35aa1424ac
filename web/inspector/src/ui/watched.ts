import { useEffect, useState } from "preact/hooks";
import { path as pathOf } from "../net/api.js";
import { type Watch, type Watched, watch, watchTree } from "../state/watch.js";

/** Watches as long as the page is seen, until the returned function is called. */
function whileSeen(w: Watch): () => void {
  const stop = new AbortController();
  const look = (): void => w.seen(!document.hidden);
  document.addEventListener("visibilitychange", look, { signal: stop.signal });
  look();
  return () => {
    stop.abort();
    w.close();
  };
}

/** What the server makes of a session's log, as long as the component is shown and the page is seen. */
export function useWatched<T extends { readonly seq: number }>(id: string | undefined, path: string, user: string | undefined): Watched<T> {
  const [watched, set] = useState<Watched<T>>({});
  useEffect(() => {
    set({});
    return id === undefined ? undefined : whileSeen(watch<T>(pathOf("sessions", id), path, user, set));
  }, [id, path, user]);
  return watched;
}

/** Keeps the tree as the server has it, as long as the component is shown and the page is seen. */
export function useTree(needed = true): void {
  useEffect(() => (needed ? whileSeen(watchTree()) : undefined), [needed]);
}
