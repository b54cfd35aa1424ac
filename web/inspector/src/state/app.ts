// What the page knows besides sessions: who is signed in, what is served, and what was told.
import { effect, signal } from "@preact/signals";
import { ApiError, type Schemas, get, signIn as enter, signInKey, signOut as leave } from "../net/api.js";
import { OpenSession, open } from "./open.js";
import { go, route } from "./route.js";

export type Me = Schemas["Me"];
export type Agent = Schemas["Agent"];

/** Who the caller is; undefined until the server has said so. */
export const me = signal<Me | undefined>(undefined);
/** Whether somebody has to sign in before anything else. */
export const signedOut = signal(false);
/** The tree that is served. */
export const tree = signal<Schemas["Agents"] | undefined>(undefined);
/** The version of the server that this page came from; another one asks for a reload. */
export const outdated = signal(false);

/** One sentence about something that did not work, or was done. */
export interface Told {
  readonly id: number;
  readonly text: string;
  readonly failed: boolean;
}
export const told = signal<readonly Told[]>([]);
let count = 0;

/** Tells the reader one sentence, until it is put away. */
export function tell(text: string, failed = false): void {
  told.value = [...told.value.filter((t) => t.text !== text).slice(-2), { id: ++count, text, failed }];
}

export function putAway(id: number): void {
  told.value = told.value.filter((t) => t.id !== id);
}

/** Does something that asks the server, and tells what went wrong. */
export async function attempt<T>(what: () => Promise<T>): Promise<T | undefined> {
  try {
    return await what();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) signedOut.value = true;
    else tell(error instanceof Error ? error.message : String(error), true);
    return undefined;
  }
}

export function may(right: Me["rights"][number]): boolean {
  return me.value?.rights.includes(right) ?? false;
}

/** Asks who is signed in and what is served. Called at the start, and after each sign-in. */
export async function refresh(): Promise<void> {
  await attempt(async () => {
    const now = await get<Me>("/me");
    if (me.value !== undefined && me.value.version !== now.version) outdated.value = true;
    me.value = now;
    signedOut.value = false;
    tree.value = await get<Schemas["Agents"]>("/agents");
  });
}

/** Signs in with the code of the address, if it has one, which works once. */
export async function begin(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    await attempt(() => enter({ code }));
  }
  await refresh();
  effect(() => {
    const { value } = route;
    const key = value.screen === "session" && me.value !== undefined && !signedOut.value ? { id: value.id, user: value.user } : undefined;
    const now = open.peek();
    if (now?.key.id === key?.id && now?.key.user === key?.user) return;
    now?.close();
    open.value = key === undefined ? undefined : new OpenSession({ id: key.id, ...(key.user !== undefined && { user: key.user }) });
  });
}

export async function signIn(token: string): Promise<void> {
  await attempt(() => enter({ token }));
  await refresh();
}

export async function signOut(): Promise<void> {
  await attempt(leave);
  signInKey.drop();
  me.value = undefined;
  signedOut.value = true;
  go({ screen: "sessions" });
}

/** The agent at a path of the tree, such as support/billing, or the first of a name. */
export function agentAt(where: string, from: Agent | undefined = tree.value?.root): Agent | undefined {
  if (from === undefined) return undefined;
  if (from.path === where || from.name === where) return from;
  for (const child of [...(from.subAgents ?? []), ...(from.agents ?? [])]) {
    const found = agentAt(where, child);
    if (found !== undefined) return found;
  }
  return undefined;
}
