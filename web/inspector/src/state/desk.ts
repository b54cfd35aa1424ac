// Conversations that wait for a person or are with one. No stream tells of other users' handoffs, so
// they are asked for again and again as long as the desk is shown.
import { computed, signal } from "@preact/signals";
import { ApiError, type Schemas, get, path, post } from "../net/api.js";
import { once } from "./actions.js";
import { attempt, me, signedOut } from "./app.js";
import type { Key } from "./open.js";
import { route } from "./route.js";

export type Handoff = Schemas["Handoff"];

/** How long it takes until the handoffs are asked for again, in milliseconds. */
const pause = 2000;

/** The handoffs that are under way, the oldest first; undefined until the server has said so. */
export const handoffs = signal<readonly Handoff[] | undefined>(undefined);
/** Since when the server has not answered. */
export const deskLost = signal<Date | undefined>(undefined);
/** Why there is no desk for the reader. */
export const deskError = signal<string | undefined>(undefined);
/** All handoffs that were seen, those that are over included. */
const seen = new Map<string, Handoff>();

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

async function look(): Promise<void> {
  try {
    const answer = await get<Schemas["Handoffs"]>("/desk/handoffs");
    for (const h of answer.handoffs) seen.set(h.id, h);
    handoffs.value = answer.handoffs;
    deskLost.value = undefined;
    deskError.value = undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) signedOut.value = true;
    else if (error.status === 403 || error.status === 404) deskError.value = error.message;
    else deskLost.value ??= new Date();
  }
}

/** Asks for the handoffs as long as they are shown, until the returned function is called. */
export function watchDesk(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;
  const next = async (): Promise<void> => {
    if (!document.hidden) await look();
    if (!stopped && deskError.value === undefined && !signedOut.value) timer = setTimeout(() => void next(), pause);
  };
  void next();
  return () => {
    stopped = true;
    clearTimeout(timer);
    deskLost.value = undefined;
  };
}

type Word = "accept" | "hold" | "messages" | "complete";

/**
 * Says something at the desk. It waits for a turn under way, such as the one by which the user's last words came.
 * It returns whether the server took it.
 */
export async function atDesk(of: Handoff, word: Word, body?: Schemas["DeskMessage"] | Schemas["DeskEnd"], key = once()): Promise<boolean> {
  const done = await attempt(() => post<Handoff>(`/desk/handoffs${path(of.id)}/${word}`, body, { key, headers: { Prefer: "wait=30" } }));
  if (done !== undefined) await look();
  return done !== undefined;
}
