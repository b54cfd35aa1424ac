// An event in one line, for rows, bars and the slider.
import { type LogEvent, words } from "../state/events.js";
import { bytes } from "./amount.js";
import { texts } from "../texts-behind.js";
import { visible } from "./visible.js";

/** The types of which a sign is known; any other is shown by its name. */
const signs: Readonly<Record<string, string>> = {
  user: "›",
  harness_start: "▸",
  harness_end: "■",
  text: "¶",
  reasoning: "∴",
  tool_call: "ƒ",
  tool_progress: "…",
  tool_result: "↵",
  relay: "?",
  relay_resolved: "!",
  transfer: "⇄",
  route: "⤳",
  handoff_status: "☎",
  state: "=",
  file: "▤",
  usage: "#",
  remote_task: "⇡",
  compaction: "⊟",
  notice: "ⓘ",
  discard: "⌫",
  error: "✗",
};

export function sign(type: string): string {
  return signs[type] ?? "◌";
}

/** How much an event matters: transfers 4, approvals 3, messages 2, the rest 1. */
export function weight(type: string): 1 | 2 | 3 | 4 {
  switch (type) {
    case "transfer":
    case "handoff_status":
      return 4;
    case "relay":
    case "relay_resolved":
    case "error":
      return 3;
    case "user":
    case "text":
      return 2;
    default:
      return 1;
  }
}

/** The agent of an event; "" for a message of the user. */
export function whose(event: LogEvent): string {
  return event.type === "user" ? "" : (event.agent ?? "");
}

/** An event in one line of at most a number of characters. */
export function line(event: LogEvent, most = 240): string {
  const text = said(event).replace(/\s+/gu, " ").trim();
  return visible(text.length > most ? `${text.slice(0, most)}…` : text);
}

const short = (value: unknown): string => (value === undefined ? "" : typeof value === "string" ? value.slice(0, 400) : JSON.stringify(value).slice(0, 400));
const after = (text: string): string => (text === "" ? "" : `: ${text}`);

/** What became of a transfer that was not done, by the server's name of its outcome. */
export const refusal = (outcome: string): string => texts.between.outcomes[outcome] ?? outcome;

function said(event: LogEvent): string {
  switch (event.type) {
    case "user":
      return plain(event.content);
    case "harness_start":
      return texts.lines.begins(event.agent ?? event.agentId);
    case "harness_end":
      return texts.lines.ends(event.agent ?? event.agentId, event.finishReason, event.target ?? "");
    case "text":
    case "reasoning":
      return words(event.content).text.slice(0, 400);
    case "tool_call":
      return `${event.name}${after(short(event.input))}`;
    case "tool_progress":
      return `${event.name}${after(short(event.content))}`;
    case "tool_result":
      return `${event.name}${event.isError ? ` ${texts.talk.failed}` : ""}${after(short(event.output))}`;
    case "relay":
      return `${event.tool} ${event.kind === "input" ? texts.decide.asksIt : texts.decide.runsIt}${after(words(event.message).text)}`;
    case "relay_resolved":
      return texts.lines.decided(event.approved, event.by ?? "") + after(words(event.reason).text);
    case "transfer":
      return `${event.from} → ${event.to}${event.outcome === "committed" ? "" : `, ${refusal(event.outcome)}`}${after(words(event.reason).text)}`;
    case "route":
      return `${event.from} → ${event.to}, ${texts.between.rule(event.ruleIndex)}${after(words(event.reason).text)}`;
    case "handoff_status":
      return `${texts.between.person(event.status)}${event.targetAgent ? ` (${event.targetAgent})` : ""}${after(words(event.reason).text)}`;
    case "state":
      return Object.entries(event.delta ?? {})
        .map(([name, value]) => `${name} = ${short(value)}`)
        .join(", ");
    case "file":
      return `${event.name}, ${event.mediaType}, ${bytes(event.size)}`;
    case "usage":
      return texts.lines.usage(event.inputTokens, event.outputTokens, event.model ?? "");
    case "remote_task":
      return texts.lines.task(event.taskId, event.status ?? "");
    case "compaction":
      return texts.lines.summary(event.upTo) + after(words(event.summary).text);
    case "notice":
    case "discard":
    case "error":
      return `${event.code}${after(words(event.message).text)}`;
    default:
      return (event as { readonly type: string }).type;
  }
}

function plain(content: Extract<LogEvent, { type: "user" }>["content"]): string {
  if (content === undefined) return "";
  if (!Array.isArray(content)) return words(content as string).text.slice(0, 400);
  const parts = content as readonly { readonly type?: string; readonly text?: unknown; readonly name?: string; readonly mediaType?: string }[];
  return parts.map((p) => (p.type === "text" ? words(p.text as string).text.slice(0, 400) : `[${p.name ?? p.mediaType ?? p.type ?? "part"}]`)).join(" ");
}

/** When an event was recorded, in milliseconds; undefined if the log does not say. */
export function timeOf(event: LogEvent | undefined): number | undefined {
  const ms = event?.time === undefined ? NaN : Date.parse(event.time);
  return Number.isNaN(ms) ? undefined : ms;
}
