// How two requests to a model differ, and what was left out of a request.
import { texts } from "../texts-behind.js";
import type { Schemas } from "../net/api.js";

export type Request = Pick<Schemas["ModelRequest"], "model" | "messages" | "tools" | "settings">;
export type Message = Schemas["ChatMessage"];

/** What is new in a request since another one. */
export interface Difference {
  readonly system: "same" | "changed";
  /** How many messages after the system's are the same in both. */
  readonly same: number;
  /** How many messages of the other one are not in this one any more. */
  readonly gone: number;
  readonly newTools: ReadonlySet<string>;
  readonly changedTools: ReadonlySet<string>;
  readonly goneTools: readonly string[];
  readonly model: boolean;
  readonly settings: boolean;
}

/** The system message and the others. */
export function split({ messages }: Request): { readonly system: readonly Message[]; readonly rest: readonly Message[] } {
  const n = messages.findIndex((m) => m.role !== "system");
  return n < 0 ? { system: messages, rest: [] } : { system: messages.slice(0, n), rest: messages.slice(n) };
}

export function compare(now: Request, before: Request): Difference {
  const a = split(now);
  const b = split(before);
  let same = 0;
  while (same < a.rest.length && same < b.rest.length && alike(a.rest[same], b.rest[same])) same++;
  const old = new Map(before.tools.map((t) => [t.function.name, t]));
  const names = new Set(now.tools.map((t) => t.function.name));
  const fresh = now.tools.filter((t) => !old.has(t.function.name));
  const changed = now.tools.filter((t) => old.has(t.function.name) && !alike(t, old.get(t.function.name)));
  return {
    system: alike(a.system, b.system) ? "same" : "changed",
    same,
    gone: b.rest.length - same,
    newTools: new Set(fresh.map((t) => t.function.name)),
    changedTools: new Set(changed.map((t) => t.function.name)),
    goneTools: [...old.keys()].filter((name) => !names.has(name)),
    model: now.model !== before.model,
    settings: !alike(now.settings, before.settings),
  };
}

/** A difference in clauses, one for each kind; empty without a difference. */
export function clauses(d: Difference, now: Request): readonly string[] {
  const { rest } = split(now);
  const list = (names: Iterable<string>): string => [...names].join(", ");
  return [
    ...(d.model ? [texts.clauses.model] : []),
    ...(d.system === "changed" ? [texts.clauses.system] : []),
    ...(d.same < rest.length || d.gone > 0
      ? [texts.clauses.messages(d.same + 1, rest.length - d.same, d.gone)]
      : []),
    ...(d.newTools.size > 0 ? [texts.clauses.newTools(list(d.newTools))] : []),
    ...(d.goneTools.length > 0 ? [texts.clauses.goneTools(list(d.goneTools))] : []),
    ...(d.changedTools.size > 0 ? [texts.clauses.changedTools(list(d.changedTools))] : []),
    ...(d.settings ? [texts.clauses.settings] : []),
  ];
}

/** Whether two JSON values are the same, whatever the order of their members. */
export function alike(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return false;
  const one = Object.entries(a);
  return one.length === Object.keys(b).length && one.every(([key, value]) => Object.hasOwn(b, key) && alike(value, (b as Record<string, unknown>)[key]));
}

/** The words of a message; parts that are no text are named. */
export function said({ content }: Message): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((p: { type?: string; text?: string }) => (p.type === "text" ? (p.text ?? "") : `[${(p.type ?? "part").replace("_url", "")}]`)).join("\n");
}

// How the server writes what it left out of a request or added to it.
const summary = "[Summary of the earlier part of this conversation]";
const leftOut = "[The earlier part of this conversation was left out.]";

/** What a reader should know about a message: that it replaces others, was redacted, or was cut. */
export function noteOf(message: Message): string {
  const text = said(message);
  if (text.startsWith(summary)) return texts.notes.summary;
  if (text.startsWith(leftOut)) return texts.notes.leftOut;
  if (text === "[redacted]") return texts.notes.redacted;
  if (text === "[no input]") return texts.notes.noInput;
  if (message.role !== "user") return "";
  if (text.startsWith("[Your answer ")) return texts.notes.program;
  if (/^\[[^\]\n]+\] called /.test(text)) return text.includes("…") ? texts.notes.cut : texts.notes.called;
  if (/^\[[^\]\n]+\] handed the conversation /.test(text)) return texts.notes.reason;
  if (/^\[[^\]\n]+\] /.test(text)) return texts.notes.other;
  return "";
}

/** Words of 3 letters and more, without those that every text has. */
const common = new Set(
  "about after all and any are but can cannot could did does for from get had has have her him his how into its just let like may might more not now off one our out over please shall she should some such than that the their them then there these they this those too under until very was way were what when where which who why will with would you your".split(" "),
);

export function sharedWords(one: string, other: string): readonly string[] {
  const list = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
  const there = new Set(list(other));
  return [...new Set(list(one))].filter((word) => there.has(word) && !common.has(word));
}

/** Whether a request offers a transfer to a target: it has a tool for it, or one tool that lists it. */
export function offers(request: Request, target: string): boolean {
  return request.tools.some(({ function: f }) => {
    const names = (f.parameters as { properties?: { agent_name?: { enum?: unknown } } } | undefined)?.properties?.agent_name?.enum;
    return f.name.endsWith(`_${target}`) || (Array.isArray(names) && names.includes(target)) || (f.description ?? "").includes(`\n- ${target}`);
  });
}
