// Keys of the page. A view names what its keys do as long as it is shown; the newest view has the
// first say, and one within another before that. Single letters do nothing in fields, and nothing at
// all where they are switched off.
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { store, stored } from "../stored.js";

/** What a key does. It returns false if it does not apply now, so that others may have the key. */
export type Does = () => void | false;

/** The name of a key is its `key`, after "shift+", "alt+" and "mod+" (Control, or Command on a Mac). */
export type Keys = Readonly<Record<string, readonly [what: string, does: Does]>>;

interface View {
  keys: Keys;
  /** Whether the views below have no keys: a sheet covers them. */
  readonly alone: boolean;
}

const views: View[] = [];

/** Whether single letters are keys; kept in the browser. */
export const letters = signal(stored("arbor-letters") !== "off");

export function setLetters(on: boolean): void {
  letters.value = on;
  store("arbor-letters", on ? "on" : "off");
}

/** Registers keys for a view, until the view is removed. */
export function give(keys: Keys, alone = false): { keys: Keys; readonly take: () => void } {
  const view = { keys, alone, take: () => void views.splice(views.indexOf(view), 1) };
  views.push(view);
  return view;
}

/** Registers keys while the component is shown; alone, if it covers all others. */
export function useKeys(keys: Keys, alone = false): void {
  // Keys are registered when the component is first drawn: inner components come after outer ones.
  const given = useRef<ReturnType<typeof give> | undefined>(undefined);
  given.current ??= give(keys, alone);
  given.current.keys = keys;
  // A layout effect: another one would not take the keys back if the view is closed before it is painted.
  useLayoutEffect(() => given.current!.take, []);
}

export interface Command {
  readonly key: string;
  readonly what: string;
  readonly does: Does;
}

/** All keys that do something now but for what covers the page, the newest view's first. */
export function commands(): Command[] {
  const seen = new Map<string, Command>();
  for (const { keys, alone } of [...views].reverse()) {
    if (alone) continue;
    for (const [key, [what, does]] of Object.entries(keys)) if (!seen.has(key)) seen.set(key, { key, what, does });
  }
  return [...seen.values()];
}

/** All keys that do something now, for the list of them. */
export function allKeys(): (readonly [key: string, what: string])[] {
  return commands().map(({ key, what }) => [key, what] as const);
}

const mac = /Mac|iP(hone|ad)/.test(globalThis.navigator?.platform ?? "");
const signs: Readonly<Record<string, string>> = {
  "mod": mac ? "⌘" : "Ctrl",
  "shift": "⇧",
  "alt": mac ? "⌥" : "Alt",
  "ArrowLeft": "←",
  "ArrowRight": "→",
  "ArrowUp": "↑",
  "ArrowDown": "↓",
  "Escape": "Esc",
};

/** The name of a key as a keyboard shows it. */
export function shown(key: string): string {
  const parts = key === "+" ? ["+"] : key.split("+");
  return parts.map((part) => signs[part] ?? (part.length === 1 && parts.length > 1 ? part.toUpperCase() : part)).join(" ");
}

function nameOf(e: KeyboardEvent): string {
  const key = e.key === " " ? "Space" : e.key;
  const mod = e.metaKey || e.ctrlKey ? "mod+" : "";
  const shift = e.shiftKey && key.length > 1 ? "shift+" : "";
  return mod + (e.altKey ? "alt+" : "") + shift + key;
}

/** Whether what has the focus wants a key for itself. */
function wants(target: EventTarget | null, name: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && /^(range|checkbox|radio|button|submit)$/.test(target.type)) return name.length > 1;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

window.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.isComposing) return;
  const name = nameOf(e);
  const plain = !name.startsWith("mod+") && name !== "Escape";
  if (plain && wants(e.target, name)) return;
  if (e.key.length === 1 && e.key !== " " && plain && !letters.value) return;
  // In a field it submits the field's form, and nothing elsewhere.
  if (name === "mod+Enter" && e.target instanceof HTMLElement && wants(e.target, name)) {
    e.preventDefault();
    return e.target.closest("form")?.requestSubmit();
  }
  // Buttons and links have Enter and the space bar for themselves.
  if ((name === "Enter" || name === "Space") && e.target instanceof HTMLElement && e.target.closest("button,a,summary,[role=button]")) return;
  for (const { keys, alone } of [...views].reverse()) {
    const found = keys[name];
    if (found !== undefined && found[1]() !== false) {
      e.preventDefault();
      return;
    }
    if (alone) return;
  }
});
