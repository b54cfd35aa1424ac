import { signal } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { tell } from "../state/app.js";

/** A component whose script is loaded when it is first shown. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => JSX.Element {
  const loaded = signal<ComponentType<P> | undefined>(undefined);
  return function Later(props: P): JSX.Element {
    const { value: Loaded } = loaded;
    useEffect(() => {
      if (Loaded !== undefined) return;
      load().then(
        (component) => (loaded.value = component),
        () => tell("A part of the page could not be loaded. Reload the page.", true),
      );
    }, [Loaded]);
    return Loaded === undefined ? <p class="screen soft">Loading…</p> : <Loaded {...props} />;
  };
}
