import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { tell } from "../state/app.js";
import { texts } from "../texts.js";
import { Icon } from "./icons.js";

/** Copies a text. Browsers allow that on pages of this machine or under https only. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    tell(texts.copies.failed, true);
    return false;
  }
}

interface Props {
  /** What is copied, or how it is made when it is. */
  readonly text: string | (() => string);
  /** What is copied, such as "the id", of a small button without words. */
  readonly what?: string;
  /** The words of a button that has some. */
  readonly label?: string;
}

/** A button that copies, and says so in its own place for a moment. */
export function Copy({ text, what, label }: Props): JSX.Element {
  const [done, set] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => set(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const name = label === undefined ? texts.copies.copy(what ?? "") : undefined;
  return (
    <button
      class={label === undefined ? "button plain copy" : "button"}
      aria-label={name}
      title={name}
      onClick={() => void copy(typeof text === "string" ? text : text()).then(set)}
    >
      <Icon name={done ? "check" : "copy"} />{" "}
      <span role="status" class={label === undefined ? "hidden-words" : ""}>
        {done ? texts.copies.done : label}
      </span>
    </button>
  );
}
