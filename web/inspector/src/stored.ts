// Texts that the browser stores for the page, such as choices and drafts. A browser may refuse: the page works without.

/** Where texts are: in the browser, or in one window until it is closed. */
type Store = "localStorage" | "sessionStorage";

/** The text of a name; null if there is none or the browser refuses. */
export function stored(name: string, where: Store = "localStorage"): string | null {
  try {
    return globalThis[where].getItem(name);
  } catch {
    return null;
  }
}

/** Stores a text, or removes it if it is null. If the browser refuses or its store is full, what was stored stays. */
export function store(name: string, text: string | null, where: Store = "localStorage"): void {
  try {
    if (text === null) globalThis[where].removeItem(name);
    else globalThis[where].setItem(name, text);
  } catch {
    // The page then keeps the value in memory only.
  }
}
