import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { tell } from "../state/app.js";
import { Icon } from "./icons.js";

/** Copies what `text` returns, and says so in its own place. */
export function CopyText({ label, text }: { readonly label: string; readonly text: () => string }): JSX.Element {
  const [done, set] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => set(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = (): void => {
    const failed = (): void => tell("The browser does not let the page copy. Select the words and copy them yourself.", true);
    if (navigator.clipboard === undefined) failed();
    else navigator.clipboard.writeText(text()).then(() => set(true), failed);
  };
  return (
    <button class="button" onClick={copy}>
      <Icon name={done ? "check" : "copy"} /> <span aria-live="polite">{done ? "Copied" : label}</span>
    </button>
  );
}
