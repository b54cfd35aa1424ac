// What the tabs next to a session have in common.
import "../style/details.css";
import type { ComponentChildren, JSX } from "preact";
import { agentAt, may, tree } from "../state/app.js";
import type { OpenSession } from "../state/open.js";
import { type SessionRoute, route } from "../state/route.js";
import { type Asked, type View, askAgain, askedAgain, forkable } from "../state/views.js";
import { texts } from "../texts-behind.js";
import { money } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";

export function Agent({ name }: { readonly name: string }): JSX.Element {
  return (
    <span class="d-agent">
      <Mark agent={name} /> {name}
    </span>
  );
}

/** A fact with its name; nothing for an empty value. */
export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element | null {
  if (children === undefined || children === null || children === false || children === "") return null;
  return (
    <div class="d-fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A placeholder until the server's answer comes. */
export function Waiting({ error, what }: { readonly error: string | undefined; readonly what: string }): JSX.Element {
  return error === undefined ? <p class="soft">{texts.detail.asking(what)}</p> : <p class="failed" role="alert">{error}</p>;
}

/** A link to a position of the open session, with what is selected there. */
export function Place({ seq, tab, children }: { readonly seq: number; readonly tab?: SessionRoute["tab"]; readonly children: ComponentChildren }): JSX.Element {
  const now = route.value as SessionRoute;
  return <Link to={{ ...now, sel: { kind: "ev", seq }, ...(tab !== undefined && { tab }) }}>{children}</Link>;
}

/** The last position up to another one with an event of some types, or the one before the loaded events: other events ask the server for nothing. */
export function lastOf(session: OpenSession, seq: number, ...types: readonly string[]): number {
  const log = session.stored.value;
  for (let n = seq; n >= log.from; n--) if (types.includes(log.event(n)?.type ?? "")) return n;
  return log.from - 1;
}

/** Why an agent has no request to a model, "" if it has one. */
export function withoutModel(name: string, scope: string): string {
  if (scope !== "") return texts.detail.inner;
  if (name === "user") return texts.detail.user;
  if (!may("inspect")) return texts.agent.blind;
  const { value } = tree;
  if (value === undefined) return "";
  const agent = value.human !== undefined && value.human.name === name ? value.human : agentAt(name);
  return agent === undefined ? texts.detail.missing(name) : (texts.detail.without[agent.kind]?.(name) ?? "");
}

/** What n answers come to: a count before anything is asked. */
export interface Estimate {
  readonly tokens: number;
  readonly dollars: number | null;
  /** Whether the length of answers is known from earlier ones of the session. */
  readonly measured: boolean;
}

/** Estimates n answers: the request as the server counts it, and answers as long as the agent's own so far. */
export function estimate(session: OpenSession, view: View, n: number): Estimate {
  const { spent } = session.stored.value.end.facts;
  const own = spent.filter((s) => s.agent === view.agent && s.answers > 0);
  const of = own.length > 0 ? own : spent.filter((s) => s.answers > 0);
  const answers = of.reduce((sum, s) => sum + s.answers, 0);
  const output = answers === 0 ? 0 : of.reduce((sum, s) => sum + s.outputTokens, 0) / answers;
  const { price = null } = view;
  const dollars = price === null ? null : (n * (view.tokens * price.input + output * price.output)) / 1e6;
  return { tokens: Math.round(n * (view.tokens + output)), dollars, measured: answers > 0 };
}

/** "5 answers · about 2,100 tokens · $0.0004" */
export function Price({ session, view, n, least = false }: { readonly session: OpenSession; readonly view: View; readonly n: number; readonly least?: boolean }): JSX.Element {
  const { tokens, dollars, measured } = estimate(session, view, n);
  return (
    <span class="d-price">
      {texts.detail.price(least, n, tokens, measured, money(dollars))}
    </span>
  );
}

/** Asks the model the same again. The number of answers and the price are next to the button. */
export function AskButton({ session, view, n, label }: { readonly session: OpenSession; readonly view: View; readonly n: number; readonly label: string }): JSX.Element {
  const { asking } = askedAgain(session, view.agent, view.seq);
  return (
    <button class="button main" aria-disabled={asking > 0} onClick={() => void askAgain(session, view.agent, view.seq, n)}>
      {asking > 0 ? texts.detail.askingTimes(asking) : label}
    </button>
  );
}

/** To which agents the model transferred when it was asked again, as bars with their numbers. */
export function Bars({ asked, agent }: { readonly asked: Asked; readonly agent: string }): JSX.Element | null {
  const { samples } = asked;
  if (samples.length === 0) return null;
  const sums = new Map<string, number>();
  for (const s of samples) {
    const what = s.error !== undefined ? texts.detail.noAnswer : (s.transfer?.to ?? texts.detail.itself);
    sums.set(what, (sums.get(what) ?? 0) + 1);
  }
  const rows = [...sums].sort((a, b) => b[1] - a[1]);
  return (
    <table class="d-bars">
      <caption class="soft">
        {texts.detail.asked(agent, samples.length)}
      </caption>
      <tbody>
        {rows.map(([what, n]) => (
          <tr key={what}>
            <th scope="row">{what}</th>
            <td>{n}</td>
            <td class="d-bar">
              <Bar share={n / samples.length} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A decorative bar: the number next to it says the same. */
export function Bar({ share }: { readonly share: number }): JSX.Element {
  return (
    <span class="bar-track" aria-hidden="true">
      <span style={{ width: `${Math.round(Math.max(0, Math.min(1, share)) * 100)}%` }} />
    </span>
  );
}

/** Where a fork at a position would begin: at the checkpoint at or before it. */
export function useFork(session: OpenSession, at: number): { readonly at?: number; readonly words: string } {
  const { value, error } = forkable(session, at);
  if (value === undefined) return { words: error ?? texts.detail.looking };
  return { at: value.seq, words: texts.detail.from(value.seq, at) };
}
