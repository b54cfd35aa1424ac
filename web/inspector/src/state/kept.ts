// Short lists of texts that a browser keeps, such as filters, over reloads. They never leave the browser.
import { type ReadonlySignal, signal } from "@preact/signals";
import { store, stored } from "../stored.js";

export interface Kept {
  readonly all: ReadonlySignal<readonly string[]>;
  /** Puts a text at the end, unless it is there. */
  keep(text: string): void;
  forget(text: string): void;
}

/** The list of a name in the browser's store. One that cannot be read counts as empty. */
export function kept(name: string): Kept {
  const all = signal(read(name));
  const write = (next: readonly string[]): void => {
    all.value = next;
    store(name, JSON.stringify(next));
  };
  return {
    all,
    keep: (text) => write([...all.value.filter((one) => one !== text), text]),
    forget: (text) => write(all.value.filter((one) => one !== text)),
  };
}

function read(name: string): readonly string[] {
  try {
    const found: unknown = JSON.parse(stored(name) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}
