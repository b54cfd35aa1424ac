// The reader's decisions about questions. The page sends each decision once, after a few seconds in which the reader can
// undo it. All views of a question show the same.
import { signal } from "@preact/signals";
import type { Schemas } from "../net/api.js";
import { type Place, decide, once } from "./actions.js";

/** How long a decision can be undone, in milliseconds. */
export const grace = 3000;

export type Decision = Omit<Schemas["Decision"], "callId">;

interface Held {
  readonly decision: Decision;
  /** Whether it can no longer be undone, because it was sent. */
  readonly sent: boolean;
  readonly send: () => void;
}

const all = signal<ReadonlyMap<string, Held>>(new Map());
const timers = new Map<string, ReturnType<typeof setTimeout>>();
// One key for each question and decision, so that a decision that is sent again counts once.
const keys = new Map<string, string>();

/** What a decision is about: the call, in its session, as the reader has seen it. */
export function questionOf(place: Place, call: Pick<Schemas["Call"], "callId" | "digest">): string {
  return JSON.stringify([place.path, place.query.user, call.callId, call.digest]);
}

/** What the reader has decided about a question; undefined if nothing. */
export function decidedAbout(question: string): Held | undefined {
  return all.value.get(question);
}

/** Records a decision, and sends it unless it is undone. A second decision about a question is ignored. */
export function take(place: Place, turnId: string, call: Schemas["Call"], decision: Decision): void {
  const question = questionOf(place, call);
  if (!call.mayDecide || all.peek().has(question)) return;
  const name = question + JSON.stringify(decision);
  const send = (): void => {
    clearTimeout(timers.get(question));
    timers.delete(question);
    put(question, { decision, sent: true, send });
    const key = keys.get(name) ?? once();
    keys.set(name, key);
    const said = { callId: call.callId, ...(call.digest !== undefined && { digest: call.digest }), ...decision };
    // An accepted decision stays until the log shows it. After a refusal the reader can decide again.
    void decide(place, turnId, said, key).then((taken) => taken || put(question, undefined));
  };
  put(question, { decision, sent: false, send });
  timers.set(question, setTimeout(send, grace));
}

/** Undoes a decision, or the last one that can be undone. It returns false if there is none. */
export function undo(question = [...timers.keys()].at(-1)): void | false {
  const timer = timers.get(question ?? "");
  if (question === undefined || timer === undefined) return false;
  clearTimeout(timer);
  timers.delete(question);
  put(question, undefined);
}

function put(question: string, held: Held | undefined): void {
  const next = new Map(all.peek());
  if (held === undefined) next.delete(question);
  else next.set(question, held);
  all.value = next;
}

// Leaving the page sends the decisions that still wait.
window.addEventListener("pagehide", () => {
  for (const question of [...timers.keys()]) all.peek().get(question)?.send();
});
