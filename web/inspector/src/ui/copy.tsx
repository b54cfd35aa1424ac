import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { tell } from "../state/app.js";
import { Icon } from "./icons.js";

/** Copies a text. Browsers allow that on pages of this machine or under https only. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    tell("The browser does not let this page copy. Select the text and copy it yourself.", true);
    return false;
  }
}

interface Props {
  readonly text: string;
  /** What is copied, such as "the id". */
  readonly what: string;
}

/** A small button that copies, and says so for a moment. */
export function Copy({ text, what }: Props): JSX.Element {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button class="button plain copy" aria-label={`Copy ${what}`} title={`Copy ${what}`} onClick={() => void copy(text).then(setDone)}>
      <Icon name={done ? "check" : "copy"} />
      <span role="status" class="hidden-words">
        {done ? "Copied" : ""}
      </span>
    </button>
  );
}
