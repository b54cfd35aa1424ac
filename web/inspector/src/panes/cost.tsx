import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import type { OpenSession } from "../state/open.js";
import { route } from "../state/route.js";
import { type Answer, type Story, between, storyOf } from "../state/story.js";
import { usageAt } from "../state/views.js";
import { heads } from "../ui/agentfacts.js";
import { count, money, percent, span } from "../ui/amount.js";
import { texts } from "../texts-behind.js";
import { Agent, Bar, Fact, Place, Waiting, lastOf } from "./detail.js";

/** How many of the slowest answers and calls are listed. */
const few = 8;

/** What a session cost up to the moment, by agent and model, and what was slow. */
export function Cost({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const story = storyOf(session.stored.value);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = sel === undefined ? 0 : story.place(sel);
  const { value, error } = usageAt(session, lastOf(session, seq, "usage", "discard", "harness_end", "user"));
  return (
    <div class="details-body">
      {place > 0 && <Selected session={session} story={story} place={place} usage={value} />}
      {value === undefined ? <Waiting error={error} what={texts.cost.what} /> : <Sums usage={value} />}
      <Slow story={story} seq={seq} />
    </div>
  );
}

function priceOf(usage: Schemas["SessionUsage"] | undefined, answer: Answer): number | null | undefined {
  const use = answer.usage;
  if (use === undefined || usage === undefined) return undefined;
  const price = usage.models.find((m) => m.agent === answer.agent && m.model === (use.model ?? ""))?.price;
  if (price === undefined || price === null) return null;
  const cached = Math.min(use.cachedTokens ?? 0, use.inputTokens);
  return ((use.inputTokens - cached) * price.input + cached * (price.cachedInput ?? price.input) + use.outputTokens * price.output) / 1e6;
}

/** The selected answer, call or run. */
function Selected({ session, story, place, usage }: { readonly session: OpenSession; readonly story: Story; readonly place: number; readonly usage: Schemas["SessionUsage"] | undefined }): JSX.Element | null {
  const event = session.stored.value.event(place);
  const call = story.calls.findLast((c) => c.seq === place || c.end === place);
  const isRun = event?.type === "harness_start" || event?.type === "harness_end";
  const answer = story.answerOf(place);
  if (call !== undefined) {
    return (
      <section>
        <h2>{texts.cost.call}</h2>
        <dl>
          <Fact name={texts.cost.tool}>
            <span class="code">{call.name}</span>
          </Fact>
          <Fact name={texts.cost.time}>{call.ended === undefined ? texts.cost.open : texts.cost.took(span(call.ms), call.asked)}</Fact>
          <Fact name={texts.cost.answer}>{answer !== undefined && <Tokens answers={[answer]} usage={usage} />}</Fact>
        </dl>
      </section>
    );
  }
  const run = isRun ? story.runs.get(event.runId ?? "") : undefined;
  const answers = run !== undefined ? story.answers.filter((a) => a.runId === run.id) : answer === undefined ? [] : [answer];
  if (answers.length === 0) return null;
  const [first] = answers;
  const last = answers.at(-1)!;
  const end = run === undefined ? last.ended : session.stored.value.event(run.last)?.time;
  const begun = run === undefined ? first!.begun : session.stored.value.event(run.start)?.time;
  return (
    <section>
      <h2>{run === undefined ? texts.cost.selectedAnswer : texts.cost.run}</h2>
      <dl>
        <Fact name={texts.cost.agent}>
          <Agent name={first!.agent} />
        </Fact>
        <Fact name={texts.cost.time}>{span(between(begun, end))}</Fact>
        <Fact name={texts.cost.answers(answers.length)}>
          <Tokens answers={answers} usage={usage} />
        </Fact>
      </dl>
    </section>
  );
}

function Tokens({ answers, usage }: { readonly answers: readonly Answer[]; readonly usage: Schemas["SessionUsage"] | undefined }): JSX.Element {
  const sum = (of: (u: Schemas["UsageEvent"]) => number): number => answers.reduce((n, a) => n + (a.usage === undefined ? 0 : of(a.usage)), 0);
  const prices = answers.map((a) => priceOf(usage, a));
  const cost = prices.some((p) => p === undefined || p === null) ? null : prices.reduce<number>((n, p) => n + (p ?? 0), 0);
  return (
    <>
      {texts.cost.tokens(sum((u) => u.inputTokens), share(sum((u) => u.cachedTokens ?? 0), sum((u) => u.inputTokens)), sum((u) => u.outputTokens))} · {money(cost)}
    </>
  );
}

interface WideProps {
  readonly class: string;
  readonly name: string;
  /** What is below the table, and never wider than the pane. */
  readonly note?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A table that may be wider than the pane; the keyboard can scroll it, too. */
function Wide({ class: look, name, note, children }: WideProps): JSX.Element {
  return (
    <section>
      <div class="d-scroll" tabIndex={0} role="group" aria-label={name}>
        <table class={look}>
          <caption>
            <h2>{name}</h2>
          </caption>
          {children}
        </table>
      </div>
      {note}
    </section>
  );
}

function share(part: number, of: number): string {
  return of === 0 ? "–" : percent(part / of);
}

/** This turn and the session, by agent and model, the most expensive first. */
function Sums({ usage }: { readonly usage: Schemas["SessionUsage"] }): JSX.Element {
  const { turn, session, models, agents } = usage;
  const weight = (s: Schemas["Spent"]): number => s.cost ?? 0;
  const rows = [...models].sort(
    (a, b) => weight(b.session) - weight(a.session) || b.session.inputTokens + b.session.outputTokens - a.session.inputTokens - a.session.outputTokens,
  );
  const longest = Math.max(...agents.map((a) => a.seconds), 0);
  return (
    <>
      <p>
        <b>{money(session.cost)}</b> · {texts.cost.sum(session.inputTokens + session.outputTokens)}
        {session.seconds !== undefined && <span class="soft"> · {texts.cost.runsTook(span(session.seconds * 1000))}</span>}
      </p>
      <Wide
        class="d-table"
        name={texts.cost.at(usage.seq)}
        note={session.readAnew > 0 && <p class="soft fact">{texts.cost.readAnew(session.readAnew, session.readAnewCost)}</p>}
      >
        <Head first="" />
        <tbody>
          <Row name={texts.cost.turn} spent={turn} />
          <Row name={texts.cost.session} spent={session} />
        </tbody>
      </Wide>
      {rows.length > 0 && (
        <Wide class="d-table" name={texts.cost.byModel}>
          <Head first={texts.cost.agentModel} />
          <tbody>
            {rows.map((m) => (
              <Row key={`${m.agent} ${m.model}`} name={texts.cost.modelOf(m.agent, m.model)} spent={m.session} />
            ))}
          </tbody>
        </Wide>
      )}
      {agents.length > 0 && (
        <Wide class="d-bars" name={texts.cost.byTime}>
          <tbody>
            {[...agents]
              .sort((a, b) => b.seconds - a.seconds)
              .map((a) => (
                <tr key={a.agent}>
                  <th scope="row">
                    <Agent name={a.agent} />
                  </th>
                  <td>{span(a.seconds * 1000)}</td>
                  <td class="d-bar">
                    <Bar share={longest === 0 ? 0 : a.seconds / longest} />
                  </td>
                </tr>
              ))}
          </tbody>
        </Wide>
      )}
    </>
  );
}

function Head({ first }: { readonly first: string }): JSX.Element {
  return (
    <thead>
      <tr>
        {first === "" ? <td /> : <th scope="col">{first}</th>}
        {heads(texts.cost.columns)}
      </tr>
    </thead>
  );
}

function Row({ name, spent }: { readonly name: string; readonly spent: Schemas["Spent"] }): JSX.Element {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{money(spent.cost, texts.cost.unknown)}</td>
      <td>{count(spent.inputTokens)}</td>
      <td>{share(spent.cachedTokens, spent.inputTokens)}</td>
      <td>{count(spent.outputTokens)}</td>
      <td>{count(spent.answers)}</td>
    </tr>
  );
}


/** The slowest answers and calls until the moment. */
function Slow({ story, seq }: { readonly story: Story; readonly seq: number }): JSX.Element {
  const answers = useMemo(() => slowest(story.answers.filter((a) => a.last <= seq)), [story, seq]);
  const calls = useMemo(() => slowest(story.calls.filter((c) => c.end !== undefined && c.end <= seq)), [story, seq]);
  const longest = Math.max(answers[0]?.ms ?? 0, calls[0]?.ms ?? 0) || 1;
  return (
    <section>
      <h2>{texts.cost.slowest}</h2>
      <p class="soft fact">{texts.cost.times}</p>
      {answers.length === 0 && <p class="soft">{texts.cost.none}</p>}
      <table class="d-bars">
        <tbody>
          {answers.map((a) => (
            <tr key={a.first}>
              <th scope="row">
                <Place seq={a.first}>
                  {texts.cost.nth(a.agent, a.no)}
                </Place>
              </th>
              <td>{span(a.ms)}</td>
              <td class="d-bar">
                <Bar share={a.ms / longest} />
              </td>
            </tr>
          ))}
        </tbody>
        <tbody>
          {calls.map((c) => (
            <tr key={c.seq}>
              <th scope="row">
                <Place seq={c.seq}>
                  {c.agent} <span class="code">{c.name}</span>
                </Place>
                {c.isError && <span class="failed"> {texts.cost.failed}</span>}
                {c.asked && <span class="soft"> {texts.cost.waited}</span>}
              </th>
              <td>{span(c.ms)}</td>
              <td class="d-bar">
                <Bar share={c.ms / longest} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function slowest<T extends { readonly ms: number }>(all: readonly T[]): readonly T[] {
  return [...all].sort((a, b) => b.ms - a.ms).slice(0, few);
}
