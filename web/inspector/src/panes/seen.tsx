import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { clauses, compare, said as saidIn } from "../state/compare.js";
import { words } from "../state/events.js";
import type { Log } from "../state/log.js";
import type { OpenSession } from "../state/open.js";
import { route } from "../state/route.js";
import { type Answer, type Story, storyOf, textOf } from "../state/story.js";
import { type View, viewAt } from "../state/views.js";
import { clock, span } from "../ui/amount.js";
import { Folded, Json } from "../ui/json.js";
import { refusal } from "../ui/line.js";
import { RequestView } from "../ui/request.js";
import { texts } from "../texts-behind.js";
import { Agent, Fact, Place, Waiting, withoutModel } from "./detail.js";

/** What a model saw: the request at the position where it was asked, and the answer. */
export function Seen({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const log = session.stored.value;
  const story = storyOf(log);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = sel === undefined ? 0 : story.place(sel);
  if (sel !== undefined && place === 0) return <p class="details-body">{texts.detail.notLoaded}</p>;
  const answer = place > 0 ? story.answerOf(place) : story.answers.findLast((a) => a.last <= seq);
  if (answer === undefined) {
    const agent = log.event(place)?.agent ?? "";
    const why = agent === "" ? "" : withoutModel(agent, log.event(place)?.scope ?? "");
    return <p class="details-body">{why !== "" ? why : texts.seen.none}</p>;
  }
  const without = withoutModel(answer.agent, answer.scope);
  return (
    <div class="details-body">
      <h2 class="d-hand">
        <Agent name={answer.agent} />
        <span>{texts.seen.nth(answer.no)}</span>
        <span class="d-by">
          {texts.seen.position(answer.at)} · {clock(answer.begun)}
        </span>
      </h2>
      {without !== "" ? <p>{without}</p> : <Shown session={session} story={story} answer={answer} log={log} />}
      <Said answer={answer} story={story} log={log} />
    </div>
  );
}

interface ShownProps {
  readonly session: OpenSession;
  readonly story: Story;
  readonly answer: Answer;
  readonly log: Log;
}

function Shown({ session, story, answer, log }: ShownProps): JSX.Element {
  const { agent, at } = answer;
  const earlier = story.answers.findLast((a) => a.agent === agent && a.scope === answer.scope && a.first < answer.first && a.at < at);
  const { value: view, error } = viewAt(session, agent, at);
  const before = viewAt(session, agent, earlier?.at ?? at); // the same one if there is none
  const [sent, showSent] = useState(false);
  if (view === undefined) return <Waiting error={error} what={texts.seen.shownAt(agent, at)} />;
  if (before.value === undefined && before.error === undefined) return <Waiting error={undefined} what={texts.seen.before} />;
  const since = earlier === undefined || before.value === undefined ? undefined : compare(view, before.value);
  const request = sent && view.sent !== undefined ? view.sent.request : view;
  return (
    <section>
      <h2>{texts.seen.request}</h2>
      <dl>
        <Fact name={texts.seen.length}>{texts.seen.tokens(view.tokens)}</Fact>
        <Fact name={texts.seen.model}>{request.model}</Fact>
        <Fact name={texts.seen.marked}>
          {earlier === undefined
            ? texts.seen.first(agent)
            : before.value === undefined
              ? texts.seen.nothing(before.error ?? "")
              : texts.seen.since(agent, earlier.at)}
        </Fact>
        <Compacted log={log} agent={agent} at={at} since={earlier?.at ?? 0} />
      </dl>
      <SentView view={view} shown={sent} show={showSent} />
      <RequestView key={`${agent} ${at} ${sent}`} request={request} before={before.value} since={sent && since !== undefined && before.value !== undefined ? compare(request, before.value) : since} words={usersWords(story, log, at)} />
    </section>
  );
}

/** Compactions of an agent's view that came to hold between two requests. */
function Compacted({ log, agent, at, since }: { readonly log: Log; readonly agent: string; readonly at: number; readonly since: number }): JSX.Element | null {
  const found = [];
  for (let n = Math.max(since + 1, log.from); n <= at; n++) {
    const event = log.event(n);
    if (event?.type === "compaction" && event.agent === agent) found.push(event);
  }
  if (found.length === 0) return null;
  return (
    <Fact name={texts.seen.compacted}>
      {found.map((e) => (
        <p key={e.seq}>
          <Place seq={e.seq ?? 0}>{texts.at(e.seq ?? 0)}</Place>: {texts.seen.compactedTo(e.upTo, words(e.summary).text === "")}
        </p>
      ))}
    </Fact>
  );
}

/** The users' messages up to a position, word for word; undefined if not all of them are loaded. */
function usersWords(story: Story, log: Log, at: number): ReadonlySet<string> | undefined {
  const before = story.users.filter((u) => (u.seq ?? 0) <= at);
  if (!log.whole || before.some((u) => log.clips.has(u.seq ?? 0))) return undefined;
  return new Set(before.map(({ content }) => (Array.isArray(content) ? saidIn({ role: "user", content: content.map((p) => ({ ...p, text: textOf(p.text) })) }) : textOf(content))));
}

/** The request as it was really sent, if the server has it, and where it differs. */
function SentView({ view, shown, show }: { readonly view: View; readonly shown: boolean; readonly show: (yes: boolean) => void }): JSX.Element {
  const { sent } = view;
  if (sent === undefined) {
    return (
      <p class="soft fact">
        {texts.seen.computed(<span class="code">--keep-requests</span>)}
      </p>
    );
  }
  const differences = clauses(compare(sent.request, view), sent.request);
  return (
    <div>
      <div class="d-ask" role="group" aria-label={texts.seen.which}>
        <button class="button" aria-pressed={!shown} onClick={() => show(false)}>
          {shown ? "" : "✓ "}{texts.seen.asComputed}
        </button>
        <button class="button" aria-pressed={shown} onClick={() => show(true)}>
          {shown ? "✓ " : ""}{texts.seen.asSent(clock(sent.time))}
        </button>
        {sent.attempt > 1 && <span class="soft">{texts.seen.attempt(sent.attempt)}</span>}
      </div>
      {differences.length === 0 ? (
        <p class="soft fact">{texts.seen.same}</p>
      ) : (
        <p class="fact">
          {texts.seen.differs(differences.join("; "))}
        </p>
      )}
    </div>
  );
}

/** The answer itself, as the log has it. */
function Said({ answer, story, log }: { readonly answer: Answer; readonly story: Story; readonly log: Log }): JSX.Element {
  const { usage } = answer;
  const end = finish(answer, log, story.runs.get(answer.runId)?.last ?? 0);
  return (
    <section>
      <h2>{texts.seen.answer}</h2>
      {answer.events.map((e) => {
        switch (e.type) {
          case "text":
          case "reasoning":
            return (
              <p key={e.seq} class={e.type === "text" ? "d-quote" : "d-quote soft"}>
                {e.type === "reasoning" && texts.seen.thought}
                <Folded text={textOf(e.content)} most={900} />
              </p>
            );
          case "tool_call":
            return (
              <div key={e.seq}>
                <p class="code">
                  <Place seq={e.seq ?? 0}>{e.name}</Place>
                </p>
                <Json value={e.input} label={texts.seen.arguments(e.name)} />
              </div>
            );
          default:
            return null;
        }
      })}
      <dl>
        <Fact name={texts.seen.time}>
          {span(answer.ms)} <span class="soft">{texts.seen.byLog}</span>
        </Fact>
        <Fact name={texts.seen.used}>
          {usage !== undefined &&
            texts.seen.usage(usage.inputTokens, usage.cachedTokens ?? 0, usage.outputTokens)}
        </Fact>
        <Fact name={texts.seen.model}>{usage?.model}</Fact>
        <Fact name={texts.seen.then}>{end}</Fact>
      </dl>
    </section>
  );
}

/** What came of an answer: calls that ran, a transfer, or the end of its run. */
function finish(answer: Answer, log: Log, last: number): string {
  const calls = answer.events.filter((e) => e.type === "tool_call").length;
  for (let n = answer.last + 1; n <= last; n++) {
    const event = log.event(n);
    if (event?.runId !== answer.runId) continue;
    if (event.type === "harness_end") return texts.seen.ended(event.finishReason);
    if (event.type === "transfer") return texts.seen.transfer(event.to, event.outcome === "committed" ? "" : refusal(event.outcome));
    if (event.type === "text" || event.type === "reasoning" || event.type === "tool_call") break;
  }
  return calls > 0 ? texts.seen.calls(calls) : "";
}
