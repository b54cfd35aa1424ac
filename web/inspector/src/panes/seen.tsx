import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { clauses, compare, said as saidIn } from "../state/compare.js";
import { words } from "../state/events.js";
import type { Log } from "../state/log.js";
import type { OpenSession } from "../state/open.js";
import { route } from "../state/route.js";
import { type Answer, type Story, storyOf, textOf } from "../state/story.js";
import { type View, viewAt } from "../state/views.js";
import { clock, count, counted, span } from "../ui/amount.js";
import { Folded, Json } from "../ui/json.js";
import { RequestView } from "../ui/request.js";
import { Agent, Fact, Place, Waiting, ordinal, withoutModel } from "./detail.js";

/** What a model saw: the request at the position where it was asked, and the answer. */
export function Seen({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const log = session.stored.value;
  const story = storyOf(log);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = sel === undefined ? 0 : story.place(sel);
  if (sel !== undefined && place === 0) return <p class="details-body">What is selected is not in the part of the log that is loaded.</p>;
  const answer = place > 0 ? story.answerOf(place) : story.answers.findLast((a) => a.last <= seq);
  if (answer === undefined) {
    const agent = log.event(place)?.agent ?? "";
    const why = agent === "" ? "" : withoutModel(agent, log.event(place)?.scope ?? "");
    return <p class="details-body">{why !== "" ? why : "No model has answered here yet."}</p>;
  }
  const without = withoutModel(answer.agent, answer.scope);
  return (
    <div class="details-body">
      <h2 class="d-hand">
        <Agent name={answer.agent} />
        <span>{ordinal(answer.no)} answer</span>
        <span class="d-by">
          position {answer.at} · {clock(answer.begun)}
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
  if (view === undefined) return <Waiting error={error} what={`what ${agent} was shown at ${at}`} />;
  if (before.value === undefined && before.error === undefined) return <Waiting error={undefined} what="the agent's request before" />;
  const since = earlier === undefined || before.value === undefined ? undefined : compare(view, before.value);
  const request = sent && view.sent !== undefined ? view.sent.request : view;
  return (
    <section>
      <h2>Request</h2>
      <dl>
        <Fact name="length">{count(view.tokens)} tokens, as the server counts</Fact>
        <Fact name="model">{request.model}</Fact>
        <Fact name="marked">
          {earlier === undefined
            ? `${agent}'s first request: all of it is new`
            : before.value === undefined
              ? `nothing: ${before.error ?? ""}`
              : `what is new since ${agent}'s request at ${earlier.at}`}
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
    <Fact name="compacted">
      {found.map((e) => (
        <p key={e.seq}>
          <Place seq={e.seq ?? 0}>at {e.seq}</Place>: all until {e.upTo} was {words(e.summary).text === "" ? "left out" : "summed up"}
        </p>
      ))}
    </Fact>
  );
}

/** What users said until a position, word for word; undefined if not all of it is loaded. */
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
        This is computed from the log and the tree as it is now. The request as it was sent is not kept: the server keeps the last ones if it is started with{" "}
        <span class="code">--keep-requests</span>.
      </p>
    );
  }
  const differences = clauses(compare(sent.request, view), sent.request);
  return (
    <div>
      <div class="d-ask" role="group" aria-label="Which request">
        <button class="button" aria-pressed={!shown} onClick={() => show(false)}>
          {shown ? "" : "✓ "}As computed now
        </button>
        <button class="button" aria-pressed={shown} onClick={() => show(true)}>
          {shown ? "✓ " : ""}As sent {clock(sent.time)}
        </button>
        <span class="soft">attempt {sent.attempt}</span>
      </div>
      {differences.length === 0 ? (
        <p class="soft fact">Both are the same.</p>
      ) : (
        <p class="fact">
          ≠ What was sent differs: {differences.join("; ")}. The tree has changed since, or the program changes requests on their way.
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
      <h2>Answer</h2>
      {answer.events.map((e) => {
        switch (e.type) {
          case "text":
          case "reasoning":
            return (
              <p key={e.seq} class={e.type === "text" ? "d-quote" : "d-quote soft"}>
                {e.type === "reasoning" && "thought: "}
                <Folded text={textOf(e.content)} most={900} />
              </p>
            );
          case "tool_call":
            return (
              <div key={e.seq}>
                <p class="code">
                  <Place seq={e.seq ?? 0}>{e.name}</Place>
                </p>
                <Json value={e.input} label={`Arguments of ${e.name}`} />
              </div>
            );
          default:
            return null;
        }
      })}
      <dl>
        <Fact name="time">
          {span(answer.ms)} <span class="soft">by the log's timestamps</span>
        </Fact>
        <Fact name="tokens">
          {usage !== undefined &&
            `${count(usage.inputTokens)} in · ${count(usage.cachedTokens ?? 0)} of them cached · ${count(usage.outputTokens)} out`}
        </Fact>
        <Fact name="model">{usage?.model}</Fact>
        <Fact name="then">{end}</Fact>
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
    if (event.type === "harness_end") return `the run ended: ${event.finishReason}`;
    if (event.type === "transfer") return event.outcome === "committed" ? `transferred to ${event.to}` : `the transfer to ${event.to} was ${event.outcome}`;
    if (event.type === "text" || event.type === "reasoning" || event.type === "tool_call") break;
  }
  return calls > 0 ? `${counted(calls, "tool call")}, and on` : "";
}
