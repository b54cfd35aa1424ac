import type { JSX } from "preact";
import type { Sign } from "./page.js";

/** How the server says that a session stands, in words. */
export const states: Readonly<Record<string, string>> = {
  running: "at work",
  waiting: "waits",
  cut_off: "was cut off",
  done: "done",
  failed: "failed",
  canceled: "canceled",
};

const signs: Readonly<Record<string, string>> = { running: "▸", waiting: "●", cut_off: "‖", done: "✓", failed: "✗", canceled: "–" };

/** The state of a session as a sign and a word; a fork without a turn of its own is new. */
export function State({ state }: { readonly state: string | undefined }): JSX.Element {
  const style = state === "waiting" ? "asked" : state === "failed" ? "failed" : "soft";
  return (
    <span class={`state ${style}`}>
      <span aria-hidden="true">{signs[state ?? ""] ?? "○"}</span> {states[state ?? ""] ?? "new"}
    </span>
  );
}

/** What the browser's tab shows of a state. */
export function signOf(state: string | undefined): Sign {
  return state === "running" || state === "waiting" || state === "failed" ? state : "";
}
