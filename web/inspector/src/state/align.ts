// Two sessions side by side: rows of what was said and done, aligned by content and then by position.
import type { LogEvent } from "./events.js";
import { words } from "./events.js";
import { texts } from "../texts-behind.js";
import { refusal } from "../ui/line.js";
import { argsText } from "../ui/visible.js";
import { textOf } from "./story.js";

/** Something said or done, in one row. */
export interface Item {
  readonly seq: number;
  readonly kind: "said" | "call" | "transfer" | "else";
  readonly who: string;
  readonly text: string;
  /** The result of a call, or the reason of a transfer. */
  readonly more: string;
  readonly failed: boolean;
  /** What makes two items the same, whatever their ids, positions and times. */
  readonly same: string;
}

/** A row of both sides: the same, different, or only on one of them. */
export interface Row<T = Item> {
  readonly sign: "=" | "≠" | "–";
  readonly a?: T;
  readonly b?: T;
}

/** What can be aligned: two with the same text are the same. */
interface Same {
  readonly same: string;
}

/** The items of one side's events, without the starts and ends of runs. */
export function items(events: readonly LogEvent[]): readonly Item[] {
  const out: Item[] = [];
  const calls = new Map<string, number>(); // places in out, by id
  const add = (e: LogEvent, kind: Item["kind"], text: string, more = "", failed = false): void => {
    const who = e.type === "user" ? texts.talk.userMark : (e.agent ?? "");
    out.push({ seq: e.seq ?? 0, kind, who, text, more, failed, same: JSON.stringify([kind, who, e.scope === undefined, text, more]) });
  };
  for (const e of events) {
    switch (e.type) {
      case "user":
      case "text":
        add(e, "said", textOf(e.content));
        break;
      case "tool_call":
        calls.set(e.id ?? "", out.length);
        add(e, "call", `${e.name}(${argsText(e.input)})`);
        break;
      case "tool_result": {
        const place = calls.get(e.id ?? "");
        const result = typeof e.output === "string" ? e.output : JSON.stringify(e.output);
        if (place === undefined) add(e, "call", e.name, result, e.isError);
        else {
          const call = out[place]!;
          out[place] = { ...call, more: result, failed: e.isError ?? false, same: call.same + result };
        }
        break;
      }
      case "transfer": {
        const place = calls.get(e.toolCallId ?? "");
        // The transfer says more than the call that asked for it.
        if (place !== undefined && place === out.length - 1) out.pop();
        const refused = e.outcome !== "committed";
        add(e, "transfer", `${e.from} → ${e.to}${refused ? ` (${refusal(e.outcome)})` : ""}`, words(e.reason).text, refused);
        break;
      }
      case "handoff_status":
        add(e, "transfer", texts.between.person(e.status), words(e.reason).text);
        break;
      case "relay":
        add(e, "else", texts.decide.asks(e.tool), words(e.message).text);
        break;
      case "relay_resolved":
        add(e, "else", texts.lines.decided(e.approved, ""), words(e.reason).text);
        break;
      case "state":
        add(e, "else", texts.diff.state(argsText(e.delta ?? {})));
        break;
      case "error":
        add(e, "else", `${e.code}: ${words(e.message).text}`, "", true);
        break;
      case "file":
        add(e, "else", texts.lines.file(e.name));
        break;
    }
  }
  return out;
}

const acts: readonly string[] = ["harness_start", "text", "tool_call", "transfer", "route"];

/** The agents that had the conversation one after the other, beginning with the one that had it already. */
export function routeOf(events: readonly LogEvent[]): readonly string[] {
  const agents = events.flatMap((e) => (acts.includes(e.type) && (e.scope ?? "") === "" && e.agent !== undefined ? [e.agent] : []));
  return agents.filter((name, i) => name !== agents[i - 1]);
}

/** Above this number of comparisons, rows are aligned by position alone. */
const most = 4_000_000;

/** Aligns two sides: what is the same in the same order shares a row, the rest is aligned by position. */
export function align<T extends Same>(a: readonly T[], b: readonly T[]): readonly Row<T>[] {
  const out: Row<T>[] = [];
  let i = 0;
  let j = 0;
  for (const [x, y] of [...anchors(a, b), [a.length, b.length] as const]) {
    while (i < x && j < y) out.push({ sign: "≠", a: a[i++]!, b: b[j++]! });
    while (i < x) out.push({ sign: "–", a: a[i++]! });
    while (j < y) out.push({ sign: "–", b: b[j++]! });
    if (x < a.length && y < b.length) out.push({ sign: "=", a: a[i++]!, b: b[j++]! });
  }
  return out;
}

/** The longest common subsequence, as pairs of places. */
function anchors(a: readonly Same[], b: readonly Same[]): readonly (readonly [number, number])[] {
  if (a.length * b.length > most) return [];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        a[i]!.same === b[j]!.same
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  const out: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i]!.same === b[j]!.same) out.push([i++, j++]);
    else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++;
    else j++;
  }
  return out;
}

/** Aligns the lines of two texts. Lines that differ come as one that goes and one that comes. */
export function lines(a: string, b: string): readonly Row<Same>[] {
  const cut = (text: string): Same[] => text.split("\n").map((same) => ({ same }));
  return align(cut(a), cut(b)).flatMap((row) => (row.sign === "≠" ? [{ sign: "–" as const, a: row.a! }, { sign: "–" as const, b: row.b! }] : [row]));
}
