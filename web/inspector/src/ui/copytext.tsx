import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { copy } from "./copy.js";
import { Icon } from "./icons.js";

/** A button with words that copies what `text` returns, and says so in its own place. */
export function CopyText({ label, text }: { readonly label: string; readonly text: () => string }): JSX.Element {
  const [done, set] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => set(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button class="button" onClick={() => void copy(text()).then(set)}>
      <Icon name={done ? "check" : "copy"} /> <span aria-live="polite">{done ? "Copied" : label}</span>
    </button>
  );
}
