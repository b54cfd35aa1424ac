import type { JSX } from "preact";
import { agentAt, may, tree } from "../state/app.js";
import { offers, sharedWords } from "../state/compare.js";
import { words } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { route } from "../state/route.js";
import { type Answer, type HandOver, type Story, committed, from, storyOf, textOf, to } from "../state/story.js";
import { askedAgain, viewAt } from "../state/views.js";
import { clock, decimals, span } from "../ui/amount.js";
import { Folded, Json } from "../ui/json.js";
import { EdgesOf } from "./graphrun.js";
import { texts } from "../texts-behind.js";
import { Agent, AskButton, Bars, Fact, Place, Price, Waiting, withoutModel } from "./detail.js";

/** Why the conversation went where it went: what decided, the other choices, and how firm the decision is. */
export function Why({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const story = storyOf(session.stored.value);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = sel === undefined ? 0 : story.place(sel);
  if (sel !== undefined && place === 0) return <p class="details-body">{texts.detail.notLoaded}</p>;
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
        <p>{led === undefined ? texts.why.nothing : <Led hand={led} />}</p>
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
        <Agent name={answer.agent} /> {texts.why.answered}
      </h2>
      <p>{before === undefined ? texts.why.had(answer.agent, answer.agent === tree.value?.root.name) : <Led hand={before} />}</p>
      {may("inspect") && <EdgesOf session={session} {...answer} />}
      <Choice session={session} story={story} answer={answer} chosen="" />
    </div>
  );
}


function Led({ hand }: { readonly hand: HandOver }): JSX.Element {
  return (
    <>
      {texts.why.led(to(hand), hand.seq, from(hand))} <Place seq={hand.seq}>{texts.why.why}</Place>
    </>
  );
}

/** What decided a transfer. */
function decidedBy({ transfer, route: routed, back }: HandOver): string {
  const { by } = texts.why;
  if (back !== undefined) return by.back;
  if (routed?.failed !== undefined) return by.failed(routed.from);
  if (routed !== undefined) return by.rule(routed.ruleIndex);
  switch (transfer?.transferType) {
    case "route":
      return by.route;
    case "refused":
      return by.refused(transfer.from);
    case "human_to_bot":
      return by.nobody;
  }
  if (transfer?.from === "human") return by.person;
  return transfer?.toolCallId === undefined ? by.program(transfer?.from) : by.model;
}

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
        <Agent name={from(hand)} /> <span aria-label={texts.why.to}>→</span> <Agent name={to(hand)} /> <span class="d-by">{decidedBy(hand)}</span>
      </h2>
      {!done && <p class="failed">✗ {texts.why.outcomes[transfer?.outcome ?? ""] ?? texts.why.notDone}</p>}
      <dl>
        <Fact name={texts.why.reason}>{reason === "" ? texts.why.noReason : <Folded text={reason} />}</Fact>
        {!done && result?.type === "tool_result" && (
          <Fact name={texts.why.result}>
            <Folded text={typeof result.output === "string" ? result.output : JSON.stringify(result.output)} />
          </Fact>
        )}
        <Fact name={texts.why.position}>
          {hand.seq} · {clock(event.time)}
        </Fact>
        {transfer?.payload !== undefined && (
          <Fact name={texts.why.data}>
            <Json value={transfer.payload} label={texts.why.dataLabel} />
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
        <Fact name={texts.why.latency}>{span(routed.latencyMs)}</Fact>
        <Fact name={texts.why.intent}>
          {routed.intentLabel && texts.why.intentOf(routed.intentLabel, routed.intentConfidence === undefined ? undefined : decimals(routed.intentConfidence, 2))}
        </Fact>
        <Fact name={texts.why.sentiment}>{measured.map(([label, x]) => `${label} ${decimals(x, 2)}`).join(" · ")}</Fact>
        <Fact name={texts.why.path}>{(routed.graphPath ?? []).join(" › ")}</Fact>
        {routed.failed !== undefined && (
          <Fact name={texts.why.error}>
            <span class="failed">
              {routed.failed.code}: {words(routed.failed.message).text}
            </span>
          </Fact>
        )}
        <Fact name={texts.why.message}>{said && <Folded text={said} />}</Fact>
      </dl>
      {router !== undefined && (
        <section>
          <h2>{texts.why.rules(routed.from)}</h2>
          <ol class="d-targets">
            {router.rules.map(({ index, when, to: target, reason }) => (
              <li key={index} data-chosen={index === routed.ruleIndex}>
                <p>
                  {index === routed.ruleIndex ? "✓ " : ""}{texts.why.rule(index)} → <b>{target}</b> {reason !== undefined && <span class="soft">{reason}</span>}
                </p>
                <p class="code d-when">{when}</p>
              </li>
            ))}
            <li data-chosen={routed.ruleIndex === null && routed.failed === undefined}>
              <p>
                {routed.ruleIndex === null && routed.failed === undefined ? "✓ " : ""}{texts.why.noRule} → <b>{router.default}</b>
                {router.sticky && <span class="soft"> {texts.why.sticky}</span>}
              </p>
            </li>
          </ol>
        </section>
      )}
      {router === undefined && routed.failed === undefined && <p class="soft">{texts.why.noRouter(routed.from)}</p>}
    </>
  );
}

interface ChoiceProps {
  readonly session: OpenSession;
  readonly story: Story;
  readonly answer: Answer;
  /** The target of the transfer, done or not; "" if the agent answered itself. */
  readonly chosen: string;
}

/** What a model could have done, as it was offered, and what it does when it is asked again. */
function Choice({ session, story, answer, chosen }: ChoiceProps): JSX.Element {
  const { agent, at, scope } = answer;
  const without = withoutModel(agent, scope);
  if (without !== "") return <p class="soft">{without}</p>;
  const { value: view, error } = viewAt(session, agent, at);
  if (view === undefined) return <Waiting error={error} what={texts.why.shown(agent)} />;
  const said = textOf(story.words(at)?.content);
  const asked = askedAgain(session, agent, at);
  const known = view.targets.some((t) => t.name === chosen);
  const times = asked.samples.length;
  return (
    <>
      <section>
        <h2>{texts.why.choices}</h2>
        <ul class="d-targets">
          <li data-chosen={chosen === ""}>
            {chosen === "" ? <b>{texts.why.itselfDid}</b> : <p>{texts.why.itself}</p>}
          </li>
          {view.targets.map(({ name, description = "" }) => {
            const shared = sharedWords(said, `${name} ${description}`);
            const offered = offers(view, name);
            return (
              <li key={name} data-chosen={name === chosen}>
                <p class="d-hand">
                  {name === chosen && <span aria-label={texts.why.chosen}>✓</span>}
                  <Agent name={name} />
                  {!offered && <span class="soft">{texts.why.notOffered}</span>}
                  {shared.length > 0 && <span class="d-shared">{texts.why.shares(shared.join(", "))}</span>}
                </p>
                <p class="soft">
                  <Folded text={description} />
                </p>
              </li>
            );
          })}
          {chosen !== "" && !known && (
            <li data-chosen="true">
              <span aria-label={texts.why.chosen}>✓</span> {chosen} <span class="soft">{texts.why.noTarget(agent)}</span>
            </li>
          )}
        </ul>
        {view.targets.some(({ name, description = "" }) => sharedWords(said, `${name} ${description}`).length > 0) && <p class="soft fact">{texts.why.sharesMeans}</p>}
      </section>
      <section>
        <h2>{texts.why.again}</h2>
        <Bars asked={asked} agent={agent} />
        <p class="d-ask">
          <AskButton session={session} view={view} n={5} label={times === 0 ? texts.why.ask : texts.why.askMore(5)} />
          <Price session={session} view={view} n={5} />
        </p>
        <p class="soft fact">{texts.why.nothingRuns((view.price ?? null) !== null)}</p>
      </section>
      <section>
        <h2>{texts.why.shownTo(agent)}</h2>
        <p class="d-quote">
          {said === "" ? <span class="soft">{texts.why.noMessage}</span> : <Folded text={said} />}
        </p>
        <p>
          {texts.why.request(view.tokens, view.messages.length, view.tools.length)} ·{" "}
          <Place seq={answer.first} tab="seen">
            {texts.why.all}
          </Place>
        </p>
      </section>
    </>
  );
}
