// Where the page is. Everything that is shown follows from its address.
import { signal } from "@preact/signals";
import { type Route, type SessionRoute, format, parse } from "./address.js";

export { type Middle, type Route, type Selection, type SessionRoute, type Tab, format } from "./address.js";

/** Where the page is. */
export const route = signal<Route>(parse(new URL(location.href)));

/** Browsers refuse more than some addresses a second: those that only replace the one before wait a little. */
const pause = 250;
let waiting: ReturnType<typeof setTimeout> | undefined;

function write(): void {
  clearTimeout(waiting);
  waiting = undefined;
  history.replaceState(null, "", format(route.value));
}

/** Goes somewhere, which makes an entry in the history, unless it only replaces where the page is. */
export function go(to: Route, how: { readonly replace?: boolean } = {}): void {
  const url = format(to);
  if (how.replace) waiting ??= setTimeout(write, pause);
  else if (url !== format(route.value)) {
    if (waiting !== undefined) write();
    history.pushState(null, "", url);
  }
  route.value = to;
}

/** Changes something about the session that is shown; undefined takes it out of the address. */
export function change(part: { readonly [K in keyof SessionRoute]?: SessionRoute[K] | undefined }, how: { readonly replace?: boolean } = {}): void {
  const now = route.value;
  if (now.screen !== "session") return;
  const next: Record<string, unknown> = { ...now, ...part };
  for (const name of Object.keys(next)) if (next[name] === undefined) delete next[name];
  go(next as unknown as Route, how);
}

window.addEventListener("pagehide", () => {
  if (waiting !== undefined) write();
});
window.addEventListener("popstate", () => {
  clearTimeout(waiting);
  waiting = undefined;
  route.value = parse(new URL(location.href));
});
