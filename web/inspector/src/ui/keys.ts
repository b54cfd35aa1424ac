// Keys of the page. A view names what its keys do as long as it is shown; the newest view has the
// first say. Single letters do nothing in fields, and nothing at all where they are switched off.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** What a key does. It returns false if it does not apply now, so that others may have the key. */
export type Does = () => void | false;

/** The name of a key is its `key`, behind "shift+", "alt+" and "mod+" (Control, or Command on a Mac). */
export type Keys = Readonly<Record<string, readonly [what: string, does: Does]>>;

const views: Keys[] = [];

/** Whether single letters are keys; kept in the browser. */
export const letters = signal(localStorage.getItem("arbor-letters") !== "off");

export function setLetters(on: boolean): void {
  letters.value = on;
  localStorage.setItem("arbor-letters", on ? "on" : "off");
}

/** Has keys do something as long as the component is shown. */
export function useKeys(keys: Keys): void {
  useEffect(() => {
    views.push(keys);
    return () => {
      views.splice(views.lastIndexOf(keys), 1);
    };
  });
}

/** All keys that do something now, for the list of them. */
export function allKeys(): (readonly [key: string, what: string])[] {
  const seen = new Map<string, string>();
  for (const keys of [...views].reverse()) {
    for (const [key, [what]] of Object.entries(keys)) if (!seen.has(key)) seen.set(key, what);
  }
  return [...seen];
}

function nameOf(e: KeyboardEvent): string {
  const key = e.key === " " ? "Space" : e.key;
  const mod = e.metaKey || e.ctrlKey ? "mod+" : "";
  const shift = e.shiftKey && key.length > 1 ? "shift+" : "";
  return mod + (e.altKey ? "alt+" : "") + shift + key;
}

function inField(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

window.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.isComposing) return;
  const name = nameOf(e);
  const plain = !name.startsWith("mod+") && name !== "Escape";
  if (plain && inField(e.target)) return;
  if (e.key.length === 1 && plain && !letters.value) return;
  // Buttons and links have Enter and the space bar for themselves.
  if ((name === "Enter" || name === "Space") && e.target instanceof HTMLElement && e.target.closest("button,a,summary,[role=button]")) return;
  for (const keys of [...views].reverse()) {
    const found = keys[name];
    if (found === undefined || found[1]() === false) continue;
    e.preventDefault();
    return;
  }
});
