// The page's state besides sessions: the user, what the server serves, and notices.
import { computed, effect, signal, untracked } from "@preact/signals";
import { ApiError, type Schemas, get, pageVersion, send, signIn as enter, signInKey, signOut as leave } from "../net/api.js";
import { texts } from "../texts.js";
import { sessionOfDesk } from "./desk.js";
import { SessionList, list, parseFilter } from "./list.js";
import { OpenSession, open } from "./open.js";
import { lost } from "./polled.js";
import { go, route } from "./route.js";

export type Me = Schemas["Me"];
export type Agent = Schemas["Agent"];

/** The user of this page; undefined until the server has reported it. */
export const me = signal<Me | undefined>(undefined);
/** Whether the user has to sign in first. */
export const signedOut = signal(false);
/** Why the last sign-in was refused; "" if it was not. */
export const refused = signal("");
/** The tree that is served. */
export const tree = signal<Schemas["Agents"] | undefined>(undefined);
/** Whether the server has another page now than this one. */
export const outdated = signal(false);
/** Since when the server has not answered. */
export const lostSince = computed(() => open.value?.lostSince.value ?? list.value?.lostSince.value ?? lost.value);

/** One sentence about something that did not work, or was done. */
export interface Told {
  readonly id: number;
  readonly text: string;
  readonly failed: boolean;
}
export const told = signal<readonly Told[]>([]);
let count = 0;

/** Shows a notice until the reader dismisses it. */
export function tell(text: string, failed = false): void {
  told.value = [...told.value.filter((t) => t.text !== text).slice(-2), { id: ++count, text, failed }];
}

export function putAway(id: number): void {
  told.value = told.value.filter((t) => t.id !== id);
}

/** Runs a function that asks the server, and shows its error, with the text that `plain` has for it. */
export async function attempt<T>(what: () => Promise<T>, plain: Readonly<Record<number, string>> = {}): Promise<T | undefined> {
  try {
    return await what();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) signedOut.value = true;
    else tell((error instanceof ApiError && plain[error.status]) || (error instanceof Error ? error.message : String(error)), true);
    return undefined;
  }
}

export function may(right: Me["rights"][number]): boolean {
  return me.value?.rights.includes(right) ?? false;
}

/** Whether the reader may write in the sessions of a user; undefined is the reader. */
export function mayWrite(user: string | undefined): boolean {
  return user === undefined || user === me.value?.user || may("act");
}

let treeTag = "";

/** Loads the signed-in user and what the server serves. Called at the start, and after each sign-in. */
export async function refresh(): Promise<void> {
  await attempt(async () => {
    me.value = await get<Me>("/me");
    signedOut.value = false;
    await refreshTree();
  });
}

/** Asks for the tree again, which is a short answer if it is the one that is known. */
export async function refreshTree(): Promise<void> {
  try {
    const answer = await send("/agents", { headers: treeTag === "" ? {} : { "If-None-Match": treeTag } });
    treeTag = answer.headers.get("ETag") ?? "";
    const before = tree.value;
    const now = (await answer.json()) as Schemas["Agents"];
    tree.value = now;
    if (before !== undefined && now.changed !== undefined && now.changed !== before.changed) {
      tell(texts.frame.reloaded);
    }
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 304)) throw error;
  }
}

/** Sees what changed while there was no connection: the tree, or the page itself. */
async function cameBack(own: string): Promise<void> {
  await attempt(async () => {
    await refreshTree();
    const now = await pageVersion();
    outdated.value = own !== "" && now !== "" && now !== own;
  });
}

/** Signs in with the code of the address, if it has one, which works once. `own` is the page's version. */
export async function begin(own: string): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    await attempt(() => entering({ code }, texts.signIn.wrongCode));
  }
  // What the address names is opened as soon as the user is known, while the tree is loading.
  effect(openSession);
  effect(openList);
  // A session whose stream was refused has no reader any more; they sign in where they are.
  effect(() => {
    const error = open.value?.error.value ?? list.value?.error.value;
    if (error?.status === 401) signedOut.value = true;
  });
  let lost = false;
  effect(() => {
    const now = lostSince.value !== undefined;
    if (lost && !now && !signedOut.peek()) void cameBack(own);
    lost = now;
  });
  effect(() => {
    const said = (open.value?.trees.value ?? 0) + (list.value?.trees.value ?? 0);
    if (said > 0) void attempt(refreshTree);
  });
  await refresh();
}

const entered = computed(() => me.value !== undefined && !signedOut.value);

/** Has the session of the address open, if it is one's or that of a handoff. */
function openSession(): void {
  const { value } = route;
  const named = value.screen === "session" ? { id: value.id, user: value.user } : sessionOfDesk();
  const key = entered.value ? named : undefined;
  const now = open.peek();
  if (now?.key.id === key?.id && now?.key.user === key?.user) return;
  now?.close();
  open.value = key === undefined ? undefined : untracked(() => new OpenSession({ id: key.id, ...(key.user !== undefined && { user: key.user }) }));
}

/** Follows the sessions of a user as long as a screen shows them. */
function openList(): void {
  const { value } = route;
  const filter = parseFilter(value.screen === "sessions" ? value.filter : "");
  const shown = value.screen === "sessions" && entered.value;
  const now = list.peek();
  if (shown && now !== undefined && now.user === value.user) return untracked(() => now.search(filter));
  now?.close();
  list.value = shown ? untracked(() => new SessionList(value.user, filter)) : undefined;
}

export async function signIn(token: string): Promise<void> {
  await attempt(async () => {
    await entering({ token }, texts.signIn.wrongToken);
    await refresh();
  });
}

/** Signs in, or keeps the reason of a refusal to show next to the field. */
async function entering(by: { code: string } | { token: string }, why: string): Promise<void> {
  refused.value = "";
  try {
    await enter(by);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) refused.value = why;
    throw error;
  }
}

export async function signOut(): Promise<void> {
  await attempt(leave);
  signInKey.drop();
  me.value = undefined;
  signedOut.value = true;
  go({ screen: "sessions" });
}

/** Whether the model that needs no network answers for an agent of the tree. */
export const offline = computed(() => signedOut.value === false && usesOffline(tree.value?.root));

function usesOffline(agent: Agent | undefined): boolean {
  return agent !== undefined && (agent.model === "offline" || [...(agent.subAgents ?? []), ...(agent.agents ?? [])].some(usesOffline));
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
