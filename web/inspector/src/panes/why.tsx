import type { JSX } from "preact";
import { agentAt, may, tree } from "../state/app.js";
import { offers, sharedWords } from "../state/compare.js";
import { words } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { route } from "../state/route.js";
import { type Answer, type HandOver, type Story, committed, from, storyOf, textOf, to } from "../state/story.js";
import { askedAgain, viewAt } from "../state/views.js";
import { clock, count, span } from "../ui/amount.js";
import { Folded, Json } from "../ui/json.js";
import { EdgesOf } from "./graphrun.js";
import { Agent, AskButton, Bars, Fact, Place, Price, Waiting, withoutModel } from "./detail.js";

/** Why the conversation went where it went: who decided, what else there was, and how firm that is. */
export function Why({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const story = storyOf(session.stored.value);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = sel === undefined ? 0 : story.place(sel);
  if (sel !== undefined && place === 0) return <p class="details-body">What is selected is not in the part of the log that is loaded.</p>;
  const own = place > 0 ? story.handOverOf(place) : story.handOvers.findLast((h) => h.seq <= seq);
  if (own !== undefined) return <Handed story={story} session={session} hand={own} />;
  const led = story.handOverTo(place);
  const begins = session.stored.value.event(place)?.type === "harness_start";
  if (begins && led !== undefined) return <Handed story={story} session={session} hand={led} />;
  const answer = place > 0 ? story.answerOf(place) : story.answers.findLast((a) => a.last <= seq);
  if (answer === undefined) {
    const { runId = "", scope = "" } = session.stored.value.event(place) ?? {};
    return (
      <div class="details-body">
        <p>{led === undefined ? <Nothing /> : <Led hand={led} />}</p>
        {scope !== "" && may("inspect") && <EdgesOf session={session} runId={runId} scope={scope} />}
      </div>
    );
  }
  const asked = story.handOverBy(answer);
  if (asked !== undefined) return <Handed story={story} session={session} hand={asked} />;
  const before = story.handOverTo(answer.first);
  return (
    <div class="details-body">
      <h2 class="d-hand">
        <Agent name={answer.agent} /> answered
      </h2>
      <p>{before === undefined ? <Root agent={answer.agent} /> : <Led hand={before} />}</p>
      {may("inspect") && <EdgesOf session={session} {...answer} />}
      <Choice session={session} story={story} answer={answer} chosen="" />
    </div>
  );
}

function Nothing(): JSX.Element {
  return <>There is no transfer and no answer yet. Write a message to get one.</>;
}

function Root({ agent }: { readonly agent: string }): JSX.Element {
  return agent === tree.value?.root.name ? <>{agent} is at the root of the tree, where conversations start.</> : <>{agent} had the conversation without a transfer that the loaded log knows of.</>;
}

function Led({ hand }: { readonly hand: HandOver }): JSX.Element {
  return (
    <>
      {to(hand)} received the conversation at position {hand.seq}, from {from(hand)}. <Place seq={hand.seq}>Why?</Place>
    </>
  );
}

/** By whom a transfer was decided. */
function decidedBy({ transfer, route: routed, back }: HandOver): string {
  if (back !== undefined) return "given back by the person";
  if (routed?.failed !== undefined) return `because ${routed.from} failed`;
  if (routed !== undefined) return routed.ruleIndex === null ? "by the router, no rule matched" : `by rule ${routed.ruleIndex}`;
  switch (transfer?.transferType) {
    case "route":
      return "by a route, no model was asked";
    case "refused":
      return `because ${transfer.from} could not start`;
    case "human_to_bot":
      return "because no person can be had";
  }
  if (transfer?.from === "human") return "by the person";
  return transfer?.toolCallId === undefined ? `by ${transfer?.from ?? "the agent"}'s program` : "by the model";
}

const outcomes: Readonly<Record<string, string>> = {
  rejected: "refused: the conversation stayed where it was",
  conflict: "not done: another call of the same answer came first",
  failed: "failed: the target could not start",
};

function Handed({ session, story, hand }: { readonly session: OpenSession; readonly story: Story; readonly hand: HandOver }): JSX.Element {
  const { transfer, route: routed, back } = hand;
  const event = transfer ?? routed ?? back!;
  const log = session.stored.value;
  const reason = words(transfer?.reason ?? routed?.reason ?? back?.reason).text;
  const call = transfer?.toolCallId === undefined ? undefined : story.calls.findLast((c) => c.id === transfer.toolCallId && c.seq < hand.seq);
  const result = call?.end === undefined ? undefined : log.event(call.end);
  const answer = call === undefined ? undefined : story.answerOf(call.seq);
  const done = committed(hand);
  return (
    <div class="details-body">
      <h2 class="d-hand">
        <Agent name={from(hand)} /> <span aria-label="to">→</span> <Agent name={to(hand)} /> <span class="d-by">{decidedBy(hand)}</span>
      </h2>
      {!done && <p class="failed">✗ {outcomes[transfer?.outcome ?? ""] ?? "not committed"}</p>}
      <dl>
        <Fact name="reason">{reason === "" ? "none was given" : <Folded text={reason} />}</Fact>
        {!done && result?.type === "tool_result" && (
          <Fact name="answered with">
            <Folded text={typeof result.output === "string" ? result.output : JSON.stringify(result.output)} />
          </Fact>
        )}
        <Fact name="position">
          {hand.seq} · {clock(event.time)}
        </Fact>
        {transfer?.payload !== undefined && (
          <Fact name="carried">
            <Json value={transfer.payload} label="Data of the transfer" />
          </Fact>
        )}
      </dl>
      {routed !== undefined && <Routed story={story} routed={routed} />}
      {answer !== undefined && <Choice session={session} story={story} answer={answer} chosen={to(hand)} />}
    </div>
  );
}

/** What a router decided by: its rules, the one that matched, and what was measured. */
function Routed({ story, routed }: { readonly story: Story; readonly routed: NonNullable<HandOver["route"]> }): JSX.Element {
  const router = agentAt(routed.from)?.router;
  const said = textOf(story.words(routed.seq ?? 0)?.content);
  const measured = Object.entries(routed.sentiment ?? {});
  return (
    <>
      <dl>
        <Fact name="latency">{routed.latencyMs < 1 ? `${routed.latencyMs.toFixed(2)} ms` : span(routed.latencyMs)}</Fact>
        <Fact name="intent">
          {routed.intentLabel && `${routed.intentLabel}${routed.intentConfidence === undefined ? "" : `, confidence ${routed.intentConfidence.toFixed(2)}`}`}
        </Fact>
        <Fact name="sentiment">{measured.map(([label, x]) => `${label} ${x.toFixed(2)}`).join(" · ")}</Fact>
        <Fact name="way">{(routed.graphPath ?? []).join(" › ")}</Fact>
        {routed.failed !== undefined && (
          <Fact name="error">
            <span class="failed">
              {routed.failed.code}: {words(routed.failed.message).text}
            </span>
          </Fact>
        )}
        <Fact name="words">{said && <Folded text={said} />}</Fact>
      </dl>
      {router !== undefined && (
        <section>
          <h2>Rules of {routed.from}, as they are now</h2>
          <ol class="d-targets">
            {router.rules.map(({ index, when, to: target, reason }) => (
              <li key={index} data-chosen={index === routed.ruleIndex}>
                <p>
                  {index === routed.ruleIndex ? "✓ " : ""}rule {index} → <b>{target}</b> {reason !== undefined && <span class="soft">{reason}</span>}
                </p>
                <p class="code d-when">{when}</p>
              </li>
            ))}
            <li data-chosen={routed.ruleIndex === null && routed.failed === undefined}>
              <p>
                {routed.ruleIndex === null && routed.failed === undefined ? "✓ " : ""}no rule matches → <b>{router.default}</b>
                {router.sticky && <span class="soft"> or the agent that had the conversation before: the router is sticky</span>}
              </p>
            </li>
          </ol>
        </section>
      )}
      {router === undefined && routed.failed === undefined && <p class="soft">The tree as it is now has no router {routed.from}.</p>}
    </>
  );
}

interface ChoiceProps {
  readonly session: OpenSession;
  readonly story: Story;
  readonly answer: Answer;
  /** To whom the conversation went, or was to go; "" if the agent answered itself. */
  readonly chosen: string;
}

/** What a model could have done, as it was offered, and what it does when it is asked again. */
function Choice({ session, story, answer, chosen }: ChoiceProps): JSX.Element {
  const { agent, at, scope } = answer;
  const without = withoutModel(agent, scope);
  if (without !== "") return <p class="soft">{without}</p>;
  const { value: view, error } = viewAt(session, agent, at);
  if (view === undefined) return <Waiting error={error} what={`what ${agent} was shown`} />;
  const said = textOf(story.words(at)?.content);
  const asked = askedAgain(session, agent, at);
  const known = view.targets.some((t) => t.name === chosen);
  const times = asked.samples.length;
  return (
    <>
      <section>
        <h2>Other choices</h2>
        <ul class="d-targets">
          <li data-chosen={chosen === ""}>
            {chosen === "" ? <b>✓ answer itself, which it did</b> : <p>answer itself</p>}
          </li>
          {view.targets.map(({ name, description = "" }) => {
            const shared = sharedWords(said, `${name} ${description}`);
            const offered = offers(view, name);
            return (
              <li key={name} data-chosen={name === chosen}>
                <p class="d-hand">
                  {name === chosen && <span aria-label="chosen">✓</span>}
                  <Agent name={name} />
                  {!offered && <span class="soft">not offered here</span>}
                  {shared.length > 0 && <span class="d-shared">shares: {shared.join(", ")}</span>}
                </p>
                <p class="soft">
                  <Folded text={description} />
                </p>
              </li>
            );
          })}
          {chosen !== "" && !known && (
            <li data-chosen="true">
              <span aria-label="chosen">✓</span> {chosen} <span class="soft">is no target of {agent} in the tree as it is now</span>
            </li>
          )}
        </ul>
        <p class="soft fact">
          “shares” counts words that stand in the user's message too. It does not say what the model thought.
        </p>
      </section>
      <section>
        <h2>Asked again</h2>
        <Bars asked={asked} agent={agent} />
        <p class="d-ask">
          <AskButton session={session} view={view} n={5} label={times === 0 ? "Ask again" : "Ask 5 more times"} />
          <Price session={session} view={view} n={5} />
        </p>
        <p class="soft fact">No tool runs and nothing is stored.{(view.price ?? null) !== null && " The model's provider is paid for this."}</p>
      </section>
      <section>
        <h2>What {agent} was shown</h2>
        <p class="d-quote">
          {said === "" ? <span class="soft">no user message</span> : <Folded text={said} />}
        </p>
        <p>
          {count(view.tokens)} tokens · {count(view.messages.length)} messages · {count(view.tools.length)} tools ·{" "}
          <Place seq={answer.first} tab="seen">
            All of it
          </Place>
        </p>
      </section>
    </>
  );
}
