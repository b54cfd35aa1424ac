// Before a fork runs anything, the page shows the models and tools that it uses. Tools run in it only after a yes.
import { signal } from "@preact/signals";
import type { Schemas } from "../net/api.js";
import { type Agent, agentAt, tree } from "./app.js";
import { store, stored } from "../stored.js";
import { texts } from "../texts.js";
import type { OpenSession } from "./open.js";

/** What is about to be done, of which the reader is asked first. */
export interface Plan {
  readonly session: OpenSession;
  readonly title: string;
  /** What comes of it, besides what runs. */
  readonly what: string;
  /** The text of the button that does it. */
  readonly does: string;
  /** The agent that would be asked first, and where in the log. */
  readonly agent: string;
  readonly at: number;
  /** Whether something runs at once. */
  readonly runs: boolean;
}

export interface Asking extends Plan {
  readonly answer: (yes: boolean) => void;
}

/** The plan that the reader is asked about. */
export const asking = signal<Asking | undefined>(undefined);

/** Shows what a plan would do. It returns true if the reader presses the button that does it. */
export function askFirst(plan: Plan): Promise<boolean> {
  asking.peek()?.answer(false);
  return new Promise((done) => {
    asking.value = {
      ...plan,
      answer: (yes) => {
        asking.value = undefined;
        done(yes);
      },
    };
  });
}

/** What may run: models with the agents that ask them, and tools. */
export interface Runs {
  readonly models: ReadonlyMap<string, readonly string[]>;
  readonly tools: readonly string[];
  /** Whether the server shows the reader neither models nor tools, or has another tree now. */
  readonly unknown: boolean;
}

/** All that may run when an agent has the conversation: its own tools, and those of the agents that it may transfer to, with a change of one of them. */
export function runsOf(agent: string, change?: Schemas["Change"]): Runs {
  const models = new Map<string, string[]>();
  const tools = new Set<string>();
  const seen = new Set<string>();
  let unknown = false;
  const visit = (name: string, from?: Agent): void => {
    const found = from ?? agentAt(name);
    if (found === undefined || seen.has(found.path)) {
      unknown ||= found === undefined;
      return;
    }
    seen.add(found.path);
    const model = (change?.agent === found.name && change.model) || found.model;
    if (model !== undefined) models.set(model, [...(models.get(model) ?? []), found.name]);
    else unknown ||= found.kind === "agent" || found.kind === "remote";
    for (const tool of found.tools ?? []) tools.add(tool);
    for (const child of [...(found.agents ?? []), ...(found.subAgents ?? [])]) visit(child.name, child);
    for (const target of found.targets ?? []) if (target !== tree.value?.human?.name) visit(target);
  };
  visit(agent || (tree.value?.root.name ?? ""));
  return { models, tools: [...tools].sort(), unknown };
}

const kept = (session: { readonly id: string; readonly user?: string | undefined }): string => `arbor-runs:${session.user ?? ""}/${session.id}`;

/** Remembers, in this window, that the reader lets tools run in a fork. If the browser refuses, the reader is asked again. */
export function allowRuns(fork: { readonly id: string; readonly user?: string | undefined }): void {
  store(kept(fork), "yes", "sessionStorage");
}

/** Whether tools may run here: in a session that is no fork, and in forks after a yes. Otherwise the reader is asked now. */
export async function mayRun(session: OpenSession, does: string): Promise<boolean> {
  const { detail, facts, key } = session;
  if (detail.value?.parent === undefined || stored(kept(key), "sessionStorage") !== null) return true;
  const { active, seq } = facts.value;
  const runs = runsOf(active);
  if (runs.tools.length === 0 && !runs.unknown) return true;
  const yes = await askFirst({ session, title: texts.actions.inFork(does), what: texts.actions.inForkWhat, does, agent: active, at: seq, runs: true });
  if (yes) allowRuns(key);
  return yes;
}
