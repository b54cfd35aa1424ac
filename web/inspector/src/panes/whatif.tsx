import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { mayWrite, me, tree } from "../state/app.js";
import { said } from "../state/compare.js";
import { once } from "../state/actions.js";
import type { OpenSession } from "../state/open.js";
import { runsOf } from "../state/forking.js";
import { change, route } from "../state/route.js";
import { type Answer, type Story, storyOf, textOf } from "../state/story.js";
import { type View, askedAgain, fork, viewAt } from "../state/views.js";
import { clock, money } from "../ui/amount.js";
import { useDraft } from "../ui/draft.js";
import { Folded } from "../ui/json.js";
import { Link } from "../ui/link.js";
import { named } from "../ui/title.js";
import { texts } from "../texts-behind.js";
import { Changing, partsOf } from "./changing.js";
import { WhatRuns } from "./forking.js";
import { AskButton, Bars, Price, Waiting, useFork, withoutModel } from "./detail.js";

type Way = "say" | "ask" | "go" | "change";

/** The most answers that the server gives to one request. */
const most = 10;
/** How many of the user's messages before and after one can be chosen instead. */
const few = 25;

/**
 * What would have happened otherwise: other words, the same asked again, or the tree as it is now.
 * Without a selection it is about the last transfer, or else the last words of the user.
 */
export function WhatIf({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const story = storyOf(session.stored.value);
  const sel = route.value.screen === "session" ? route.value.sel : undefined;
  const place = (sel === undefined ? story.handOvers.findLast((h) => h.seq <= seq)?.seq : story.place(sel)) || seq;
  const user = story.words(place);
  if (user === undefined) return <p class="details-body">{texts.whatIf.none}</p>;
  const answer = story.decisionAt(place) ?? story.answerOf(user.seq ?? 0);
  // A router decides again if the fork begins before its decision.
  const routed = story.handOverOf(place)?.route?.seq;
  const from = routed === undefined ? undefined : routed - 1;
  return <Ways key={`${user.seq} ${answer?.first}`} session={session} story={story} user={user} answer={answer} from={from} />;
}

interface WaysProps {
  readonly session: OpenSession;
  readonly story: Story;
  readonly user: Schemas["UserEvent"];
  readonly answer: Answer | undefined;
  /** Where going on begins, if not where the answer does. */
  readonly from: number | undefined;
}

function Ways({ session, story, user, answer, from }: WaysProps): JSX.Element {
  const told = textOf(user.content);
  const without = answer === undefined ? texts.whatIf.unanswered : withoutModel(answer.agent, answer.scope);
  const [way, choose] = useState<Way>(without === "" ? "ask" : "say");
  const draft = `${session.path} ${session.key.user ?? ""} ${user.seq}`;
  const [words, say] = useDraft(`say ${draft}`, () => told);
  const [n, times] = useState(5);
  const [made, make] = useState<readonly Schemas["Session"][]>([]);
  const [busy, work] = useState(false);
  const at = answer?.at ?? user.seq ?? 0;
  const begin = useFork(session, from ?? at);
  const writes = mayWrite(session.key.user);
  const asks = answer?.agent ?? session.facts.value.active;
  const [changes, alter] = useDraft<Schemas["Change"] & object>(`change ${draft}`, () => ({ agent: asks }));
  const altered = way === "change" && partsOf(changes).length > 0 ? changes : undefined;
  const runs = runsOf(asks, altered);
  const does = way === "ask" ? texts.whatIf.forkInstead : texts.whatIf.fork;
  const forks = runs.tools.length > 0 || runs.unknown ? texts.fork.letRun(does) : does;
  const view = answer === undefined || without !== "" ? undefined : viewAt(session, answer.agent, at);
  const option = (name: Way, label: ComponentChildren, more: ComponentChildren, off = false): JSX.Element => (
    <div class="d-option" data-on={way === name}>
      <label>
        <input type="radio" name="what-if" checked={way === name} disabled={off} onChange={() => choose(name)} />
        <span>{label}</span>
      </label>
      {more}
    </div>
  );
  const forkIt = async (): Promise<void> => {
    const where = way === "say" ? user.seq : begin.at;
    if (busy || !writes || where === undefined || words.trim() === "" || (way === "change" && altered === undefined)) return;
    work(true);
    const one = await fork(session, where, { ...(way === "say" && { content: words }), ...(altered !== undefined && { change: altered, id: idOf(session.key.id, altered) }) });
    work(false);
    if (one !== undefined) make([one, ...made]);
  };
  return (
    <div class="details-body">
      <label class="d-behind">
        <span>{texts.whatIf.at(at)}</span>
        <select class="field" value={user.seq} onChange={(e) => change({ sel: { kind: "ev", seq: Number(e.currentTarget.value) } })}>
          {story.messages(user.seq ?? 0, few).map((u) => (
            <option key={u.seq} value={u.seq}>
              {textOf(u.content).slice(0, 80) || texts.whatIf.noText}
            </option>
          ))}
        </select>
      </label>
      <fieldset class="d-options">
        <legend class="hidden-words">{texts.whatIf.ways}</legend>
        {option(
          "say",
          texts.whatIf.say,
          <form
            onSubmit={(e) => {
              e.preventDefault();
              void forkIt();
            }}
          >
            <textarea class="field" aria-label={texts.whatIf.instead} value={words} onFocus={() => choose("say")} onInput={(e) => say(e.currentTarget.value)} />
          </form>,
        )}
        {option(
          "ask",
          texts.whatIf.ask(
            answer?.agent,
            <input class="field d-number" type="number" aria-label={texts.whatIf.times} min={1} max={most} value={n} disabled={without !== ""} onInput={(e) => times(Math.max(1, Math.min(most, Math.round(e.currentTarget.valueAsNumber) || 1)))} />,
          ),
          without === "" ? null : <p class="soft fact">{without}</p>,
          without !== "",
        )}
        {option("go", texts.whatIf.go(begin.words), <Changed since={answer?.begun} />, begin.at === undefined)}
        {me.value?.workshop === true &&
          option(
            "change",
            texts.whatIf.change(begin.words),
            way === "change" && (
              <>
                <Changing change={changes} set={alter} />
                <p class="soft fact">{texts.whatIf.kept}</p>
              </>
            ),
            begin.at === undefined,
          )}
      </fieldset>
      {view !== undefined && view.value === undefined && <Waiting error={view.error} what={texts.whatIf.length} />}
      <Costs session={session} view={view?.value} way={way} n={n} model={altered?.agent === asks ? (altered.model ?? undefined) : undefined} />
      <section>
        <h2>{texts.whatIf.mayRun}</h2>
        <WhatRuns session={session} agent={asks} at={at} change={altered} priced />
      </section>
      <p class="d-ask">
        {way === "ask" && view?.value !== undefined && <AskButton session={session} view={view.value} n={n} label={texts.whatIf.askNow} />}
        {writes ? <button class={way === "ask" ? "button" : "button main"} aria-disabled={busy || (way === "say" && words.trim() === "") || (way === "change" && altered === undefined)} onClick={() => void forkIt()}>
          {busy ? texts.whatIf.forking : forks}
        </button> : <span class="soft">{texts.whatIf.noRight}</span>}
      </p>
      {answer !== undefined && without === "" && <Results session={session} agent={answer.agent} at={at} />}
      <Forks session={session} made={made} />
    </div>
  );
}

/** A name for a fork that names the change in it. */
function idOf(session: string, change: Schemas["Change"] & object): string {
  return `${session.slice(0, 100)}.${change.agent}-${partsOf(change).join("-")}-${once().slice(0, 4)}`;
}

interface CostsProps {
  readonly session: OpenSession;
  readonly view: View | undefined;
  readonly way: Way;
  readonly n: number;
  /** The model that is asked instead of the view's. */
  readonly model: string | undefined;
}

/** What it costs, before anything is asked. */
function Costs({ session, view, way, n, model }: CostsProps): JSX.Element | null {
  if (way === "ask") {
    if (view === undefined) return null;
    return (
      <div>
        <p>
          <Price session={session} view={view} n={n} />
        </p>
        <p class="soft fact">
          {texts.whatIf.forkPrice(<Price session={session} view={view} n={1} least />)}
        </p>
      </div>
    );
  }
  return (
    <p>
      {model !== undefined ? texts.whatIf.oneOf(model) : view === undefined ? texts.whatIf.one : <Price session={session} view={view} n={1} least />}
      <span class="soft"> · {texts.whatIf.inFork}</span>
    </p>
  );
}

function Changed({ since }: { readonly since: string | undefined }): JSX.Element | null {
  const { value } = tree;
  if (value === undefined) return null;
  const { changed } = value;
  const later = changed !== undefined && since !== undefined && new Date(changed) > new Date(since);
  return (
    <p class="soft fact">
      {texts.whatIf.tree(changed === undefined ? "" : clock(changed), later)}
    </p>
  );
}

/** The answers of the model when it was asked again. */
function Results({ session, agent, at }: { readonly session: OpenSession; readonly agent: string; readonly at: number }): JSX.Element | null {
  const asked = askedAgain(session, agent, at);
  const { samples, revision } = asked;
  // The focus moves to the result, which is announced when it comes.
  if (samples.length === 0) return <p class="hidden-words" aria-live="polite" />;
  const used = samples.reduce((sum, s) => sum + s.usage.inputTokens + s.usage.outputTokens, 0);
  const cost = samples.some((s) => s.cost === null) ? null : samples.reduce((sum, s) => sum + (s.cost ?? 0), 0);
  const other = revision !== undefined && tree.value !== undefined && revision !== tree.value.revision;
  return (
    <section>
      <h2>{texts.whatIf.answers}</h2>
      <p aria-live="polite">
        {texts.whatIf.sum(samples.length, used)} · {money(cost)}
        {other && <span class="soft"> · {texts.whatIf.earlier}</span>}
      </p>
      <Bars asked={asked} agent={agent} />
      <ol class="d-samples">
        {samples.map((s, i) => (
          <li key={i}>
            {s.error !== undefined && (
              <p class="failed">
                {s.error.code}: {s.error.message}
              </p>
            )}
            {s.transfer !== undefined && (
              <p>
                → <b>{s.transfer.to}</b> {s.transfer.reason}
              </p>
            )}
            {s.message !== undefined && said(s.message) !== "" && (
              <p>
                <Folded text={said(s.message)} most={280} />
              </p>
            )}
            {(s.transfer === undefined || s.message?.tool_calls?.length !== 1 ? s.message?.tool_calls : [])?.map(({ id, function: f }) => (
              <p key={id} class="code soft">
                {f.name}
                <Folded text={f.arguments} most={200} />
              </p>
            ))}
            <p class="soft fact">
              {texts.cost.sum(s.usage.inputTokens + s.usage.outputTokens)} · {money(s.cost)}
              {s.finishReason !== undefined && ` · ${s.finishReason}`}
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Forks of the session, the ones that were made here first, each with what it differs in. */
function Forks({ session, made }: { readonly session: OpenSession; readonly made: readonly Schemas["Session"][] }): JSX.Element | null {
  const { id } = session.key;
  const family = session.family.value;
  const parent = session.detail.value?.parent;
  const all = [...made, ...family.filter((s) => s.parent?.id === id && !made.some((m) => m.id === s.id))].slice(0, 20);
  const whose = session.query;
  const [latest] = made;
  useLayoutEffect(() => {
    if (latest !== undefined) document.getElementById("what-if-made")?.focus();
  }, [latest]);
  if (all.length === 0 && parent?.id === undefined) return null;
  return (
    <section>
      <h2 id="what-if-made" tabIndex={-1}>
        {texts.whatIf.forks}
      </h2>
      {parent?.id !== undefined && (
        <p>
          {texts.whatIf.forkOf(parent.id, parent.seq)} <Link to={{ screen: "diff", a: parent.id, b: id, ...whose }}>{texts.whatIf.compare}</Link>
        </p>
      )}
      <ul class="d-samples">
        {all.map((s) => (
          <li key={s.id}>
            <Link to={{ screen: "session", id: s.id, middle: "talk", ...whose }}>{named(s.title, s.id)}</Link>{" "}
            <span class="soft">
              {texts.whatIf.since(s.parent?.seq ?? 0)} · <span class="code">{s.id}</span>
            </span>{" "}
            <Link to={{ screen: "diff", a: id, b: s.id, ...whose }}>{texts.whatIf.compare}</Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
