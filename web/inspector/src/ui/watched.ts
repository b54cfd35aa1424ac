import { useEffect, useState } from "preact/hooks";
import { path as pathOf } from "../net/api.js";
import { type Watched, watch } from "../state/watch.js";

/** What the server makes of a session's log, as long as the component is shown and the page is seen. */
export function useWatched<T extends { readonly seq: number }>(id: string | undefined, path: string, user: string | undefined): Watched<T> {
  const [watched, set] = useState<Watched<T>>({});
  useEffect(() => {
    set({});
    if (id === undefined) return;
    const stop = new AbortController();
    const w = watch<T>(pathOf("sessions", id), path, user, set);
    const look = (): void => w.seen(!document.hidden);
    document.addEventListener("visibilitychange", look, { signal: stop.signal });
    look();
    return () => {
      stop.abort();
      w.close();
    };
  }, [id, path, user]);
  return watched;
}
