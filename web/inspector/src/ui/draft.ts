import { useState } from "preact/hooks";

const drafts = new Map<string, unknown>();

/** A value that a form begins with, and that stays for its key until the page is reloaded: leaving the screen loses nothing. */
export function useDraft<T>(key: string, first: () => T): readonly [T, (value: T) => void] {
  const [, redraw] = useState(0);
  const set = (value: T): void => {
    drafts.set(key, value);
    redraw((n) => n + 1);
  };
  return [drafts.has(key) ? (drafts.get(key) as T) : first(), set];
}
