// Conversations that wait for a person or are with one.
import { computed, effect, signal } from "@preact/signals";
import { type Schemas, get, path, post } from "../net/api.js";
import { once } from "./actions.js";
import { attempt, may, me } from "./app.js";
import type { Key } from "./open.js";
import { polled } from "./polled.js";
import { route } from "./route.js";

export type Handoff = Schemas["Handoff"];

export const desk = polled<Schemas["Handoffs"]>("/desk/handoffs", 2000);
/** The open handoffs, the oldest first; undefined until the server has reported them. */
export const handoffs = computed(() => desk.value.value?.handoffs);
/** All handoffs that were seen, those that are over included. */
const seen = new Map<string, Handoff>();
effect(() => handoffs.value?.forEach((h) => seen.set(h.id, h)));

/** The users' first messages by session, for people who may read the conversations of others. */
const titles = signal<ReadonlyMap<string, string>>(new Map());
effect(() => {
  for (const { session, user } of handoffs.value ?? []) {
    const key = JSON.stringify([user, session]);
    if (titles.peek().has(key) || !(may("inspect") || user === me.value?.user)) continue;
    titles.value = new Map(titles.peek()).set(key, ""); // it is asked for once
    get<Schemas["Session"]>(path("sessions", session), { query: { user } }).then(
      ({ title }) => (titles.value = new Map(titles.peek()).set(key, title)),
      () => {}, // the reason of the handoff is shown instead
    );
  }
});

export function firstWords({ session, user }: Handoff): string {
  return titles.value.get(JSON.stringify([user, session])) ?? "";
}

/** The handoff of the address, and whether it is over. */
export const handoff = computed((): { readonly is: Handoff; readonly over: boolean } | undefined => {
  const now = route.value;
  const all = handoffs.value ?? [];
  if (now.screen !== "desk" || now.handoff === undefined) return undefined;
  const is = all.find((h) => h.id === now.handoff);
  if (is !== undefined) return { is, over: false };
  const old = seen.get(now.handoff);
  return old === undefined ? undefined : { is: old, over: true };
});

/** The session of the handoff of the address. */
export function sessionOfDesk(): Key | undefined {
  const of = handoff.value?.is;
  return of === undefined ? undefined : { id: of.session, ...(of.user !== me.value?.user && { user: of.user }) };
}

type Word = "accept" | "hold" | "messages" | "complete";

/**
 * Does something at the desk. It waits for a running turn, such as that of the user's last message.
 * It returns whether the server took it.
 */
export async function atDesk(of: Handoff, word: Word, body?: Schemas["DeskMessage"] | Schemas["DeskEnd"], key = once()): Promise<boolean> {
  const done = await attempt(() => post<Handoff>(`/desk/handoffs${path(of.id)}/${word}`, body, { key, headers: { Prefer: "wait=30" } }));
  if (done !== undefined) await desk.look();
  return done !== undefined;
}
