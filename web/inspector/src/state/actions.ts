// The actions of a reader on sessions. Each is one request; its result appears in the log.
import { type Schemas, get, path, post, send } from "../net/api.js";
import { texts } from "../texts.js";
import { attempt, tree } from "./app.js";
import { allowRuns, askFirst, mayRun } from "./forking.js";
import type { LogEvent } from "./events.js";
import type { OpenSession } from "./open.js";
import { go, route } from "./route.js";

/** A key that makes a request happen once, however often it is sent. */
export function once(): string {
  return crypto.randomUUID();
}

/** Sends a message to an open session. It reports whether the server accepted it. */
export async function say(session: OpenSession, content: Schemas["Content"], key: string): Promise<boolean> {
  if (!(await mayRun(session, texts.composer.send))) return false;
  const turn = await attempt(() => post<Schemas["Turn"]>(`${session.path}/turns`, { content }, { query: session.query, key }));
  return turn !== undefined;
}

const again = new Map<string, string>();

/** Sends the user's last message again, as it was stored. */
export async function sayAgain(session: OpenSession): Promise<void> {
  const seq = session.stored.value.events.findLast((e) => e.type === "user")?.seq;
  if (seq === undefined) return;
  const whole = await attempt(() => get<LogEvent>(session.path + path("events", seq), { query: session.query }));
  // One key for each failed turn: two presses send one message.
  const name = JSON.stringify([session.path, session.key.user, seq]);
  const key = again.get(name) ?? once();
  again.set(name, key);
  if (whole?.type === "user") await say(session, whole.content as Schemas["Content"], key);
}

/** Begins a session and shows it. */
export async function start(content: Schemas["Content"], key: string): Promise<void> {
  const { user } = route.value;
  const turn = await attempt(() => post<Schemas["Turn"]>("/sessions", { content }, { key, query: { user } }));
  if (turn !== undefined) go({ screen: "session", id: turn.session, middle: "talk", ...(user !== undefined && { user }) });
}

/** Where a session is in the native API, and a function that loads its questions again. An open session is one. */
export type Place = Pick<OpenSession, "path" | "query"> & { readonly refresh?: () => Promise<void> };

/**
 * Answers the question that the reader has seen, which its digest names. The server takes the first answer, from
 * whatever window it comes.
 */
export async function decide(session: Place, turnId: string, decision: Schemas["Decision"], key: string): Promise<boolean> {
  const to = `${session.path}/turns/${encodeURIComponent(turnId)}/decisions`;
  const { notYours, gone, moved } = texts.actions;
  const notDecided = { 403: notYours, 404: gone, 409: moved, 412: moved };
  const done = await attempt(() => post(to, { decisions: [decision] }, { query: session.query, key }).then(() => true), notDecided);
  await session.refresh?.();
  return done === true;
}

/** Stops, resumes or cancels a turn. */
export async function control(session: OpenSession, turnId: string, what: "stop" | "resume" | "cancel"): Promise<void> {
  if (what === "resume" && !(await mayRun(session, texts.composer.resume))) return;
  await attempt(() => post(`${session.path}/turns/${encodeURIComponent(turnId)}/${what}`, undefined, { query: session.query }));
}

/** Forks a session at a position, or replaces the user's message there in the fork, and shows the new session. */
export async function branch(session: OpenSession, at: number, content?: Schemas["Content"], key = once()): Promise<boolean> {
  const said = content !== undefined;
  const plan = said
    ? { title: texts.actions.instead, what: texts.actions.insteadWhat, does: texts.actions.sayIt }
    : { title: texts.actions.forkAt(at), what: texts.actions.forkWhat(at), does: texts.actions.fork };
  const { agent, at: where } = asksAt(session, at, said);
  if (!(await askFirst({ ...plan, session, agent, at: where, runs: said }))) return false;
  const body = content === undefined ? { at } : { at, content, resume: true };
  const to = `${session.path}/${content === undefined ? "forks" : "edits"}`;
  const made = await attempt(() => post<Schemas["Session"]>(to, body, { query: session.query, key }));
  if (made === undefined) return false;
  if (said) allowRuns({ ...session.key, id: made.id });
  go({ screen: "session", id: made.id, middle: "talk", ...session.query });
  return true;
}

/** The agent that would be asked first if a session continued from a position, or with another message there. */
function asksAt(session: OpenSession, at: number, said: boolean): { readonly agent: string; readonly at: number } {
  const where = said ? at - 1 : at;
  const agent = session.stored.value.at(where).facts.active || (tree.value?.root.name ?? "");
  return { agent, at };
}

/** Forks a session at a checkpoint, sends a message to the new one, and shows it. */
export async function branchAndSay(session: OpenSession, at: number, content: Schemas["Content"], key: string): Promise<boolean> {
  const { forkAndSay, forkAndSayWhat, fork: does } = texts.actions;
  if (!(await askFirst({ title: forkAndSay(at), what: forkAndSayWhat(at), does, session, ...asksAt(session, at, false), runs: true }))) return false;
  const made = await attempt(async () => {
    const fork = await post<Schemas["Session"]>(`${session.path}/forks`, { at }, { query: session.query, key });
    await post(path("sessions", fork.id, "turns"), { content }, { query: session.query, key });
    return fork;
  });
  if (made !== undefined) allowRuns({ ...session.key, id: made.id });
  if (made !== undefined) go({ screen: "session", id: made.id, middle: "talk", ...session.query });
  return made !== undefined;
}

/** Deletes a session for good. It returns whether the server has done so. */
export async function remove(id: string): Promise<boolean> {
  return (await attempt(() => send(path("sessions", id), { method: "DELETE", query: { user: route.value.user } }))) !== undefined;
}
