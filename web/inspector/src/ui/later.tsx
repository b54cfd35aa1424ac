import { signal } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { texts } from "../texts.js";
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
        () => tell(texts.frame.partMissing, true),
      );
    }, [Loaded]);
    return Loaded === undefined ? <p class="screen soft">{texts.frame.loading}</p> : <Loaded {...props} />;
  };
}
