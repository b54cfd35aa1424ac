import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { open as session } from "../state/open.js";

// What a reader has opened stays so when it leaves the document and comes back.
const opened = new WeakMap<object, Map<string, boolean>>();

interface Props {
  readonly id: string;
  readonly class?: string;
  /** Whether it is open unless the reader says otherwise. */
  readonly open?: boolean;
  readonly summary: ComponentChildren;
  readonly children: () => ComponentChildren;
}

/** A part that is folded until the reader opens it. Its content is created only then. */
export function Fold({ id, class: style, open = false, summary, children }: Props): JSX.Element {
  const owner = session.value ?? opened;
  const mine = opened.get(owner) ?? new Map<string, boolean>();
  opened.set(owner, mine);
  const [now, set] = useState(mine.get(id) ?? open);
  const toggle = (e: Event): void => {
    const yes = (e.currentTarget as HTMLDetailsElement).open;
    if (yes !== now) mine.set(id, yes);
    set(yes);
  };
  return (
    <details class={style} open={now} onToggle={toggle}>
      <summary>{summary}</summary>
      {now && children()}
    </details>
  );
}
