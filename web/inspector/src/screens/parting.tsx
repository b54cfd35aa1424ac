// Two sessions in short: where they part, which route each took from there, its cost, and its state.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Schemas, get, path } from "../net/api.js";
import { type Item, type Row, routeOf } from "../state/align.js";
import { alike } from "../state/compare.js";
import type { LogEvent } from "../state/events.js";
import { texts } from "../texts-behind.js";
import { count, money } from "../ui/amount.js";
import { Folded } from "../ui/json.js";


type Side = "a" | "b";
type Spent = Pick<Schemas["Spent"], "answers" | "inputTokens" | "outputTokens" | "cost">;

interface Props {
  readonly diff: Schemas["Diff"];
  readonly rows: readonly Row[];
  readonly user: string | undefined;
  readonly side: Side;
  readonly title: (side: Side) => string;
}

export function Summary({ diff, rows, user, side, title }: Props): JSX.Element {
  const { a, b, common } = diff;
  const spent = [useSpent(a, common, user), useSpent(b, common, user)];
  const first = rows.find((r) => r.sign !== "=");
  const both = (of: (side: Schemas["DiffSide"]) => string): readonly [string, string] => [of(a), of(b)];
  const keys = [...new Set([...Object.keys(a.state), ...Object.keys(b.state)])].filter((key) => !alike(a.state[key], b.state[key])).sort();
  const facts: readonly (readonly [string, readonly [string, string]])[] = [
    [texts.diff.first, [said(first?.a), said(first?.b)]],
    [texts.diff.route, both((s) => routeOf(s.events as LogEvent[]).join(" → ") + (diff.next === undefined ? "" : " → …") || texts.diff.nobodyAnswered)],
    [texts.diff.cost, [costOf(spent[0]), costOf(spent[1])]],
    [texts.diff.active, both((s) => s.active ?? texts.diff.nobody)],
    [texts.diff.turn, both((s) => texts.diff.turns[s.turn])],
    [texts.diff.events, both((s) => count(s.seq))],
    ...(a.pending.length + b.pending.length > 0 ? [[texts.diff.open, both((s) => s.pending.map((p) => p.name).join(", ") || texts.diff.none)] as const] : []),
    ...keys.slice(0, 100).map((key) => [texts.diff.state(key), both((s) => (Object.hasOwn(s.state, key) ? JSON.stringify(s.state[key]) : "–"))] as const),
  ];
  return (
    <table class="diff-table" data-side={side}>
      <caption class="hidden-words">{texts.diff.short}</caption>
      <thead>
        <tr>
          <th scope="col" class="diff-sign">
            <span class="hidden-words">{texts.diff.difference}</span>
          </th>
          {(["a", "b"] as const).map((s) => (
            <th key={s} scope="col" data-side={s}>
              {title(s)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {facts.map(([name, pair]) => {
          const sign = pair[0] === pair[1] ? "=" : "≠";
          return (
            <tr key={name} data-sign={sign}>
              <th scope="row" class="diff-sign">
                <span aria-hidden="true">{sign}</span>
                <span class="hidden-words">
                  {name}: {texts.diff.signs[sign]}
                </span>
              </th>
              {pair.map((text, i) => (
                <td key={i} data-side={i === 0 ? "a" : "b"}>
                  <span class="soft">{name}</span> <Folded text={text} most={200} />
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function said(item: Item | undefined): string {
  if (item === undefined) return texts.diff.nothing;
  return item.kind === "transfer" ? item.text : `${item.who}: ${item.text}`;
}

/** What a session has spent since a position; undefined until the server has reported it. */
function useSpent({ session, seq }: Schemas["DiffSide"], since: number, user: string | undefined): Spent | undefined {
  const [spent, set] = useState<Spent>();
  useEffect(() => {
    const stop = new AbortController();
    const ask = (at: number): Promise<Schemas["SessionUsage"]> => get(`${path("sessions", session)}/usage`, { query: { user, at }, signal: stop.signal });
    Promise.all([ask(seq), ask(since)]).then(
      ([now, then]) => set(minus(now.session, then.session)),
      () => {}, // it stays unknown
    );
    return () => stop.abort();
  }, [session, seq, since, user]);
  return spent;
}

function minus(now: Spent, then: Spent): Spent {
  const cost = now.cost === null || then.cost === null ? null : now.cost - then.cost;
  return { answers: now.answers - then.answers, inputTokens: now.inputTokens - then.inputTokens, outputTokens: now.outputTokens - then.outputTokens, cost };
}

function costOf(spent: Spent | undefined): string {
  if (spent === undefined) return "…";
  return `${money(spent.cost)} · ${texts.whatIf.sum(spent.answers, spent.inputTokens + spent.outputTokens)}`;
}
