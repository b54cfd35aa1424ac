import "../style/session.css";
import type { ComponentType, JSX } from "preact";
import { useState } from "preact/hooks";
import { Talk } from "../panes/talk.js";
import { agentAt, may, tree } from "../state/app.js";
import { asking } from "../state/forking.js";
import { type OpenSession, open } from "../state/open.js";
import { type Middle, type SessionRoute, type Tab, change, route } from "../state/route.js";
import { tokens } from "../state/session.js";
import { texts } from "../texts.js";
import { Copy } from "../ui/copy.js";
import { Guarded } from "../ui/guarded.js";
import { useKeys } from "../ui/keys.js";
import { later } from "../ui/later.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { usePage } from "../ui/page.js";
import { Separator } from "../ui/separator.js";
import { Sheet } from "../ui/sheet.js";
import { State, signOf } from "../ui/state.js";
import { named } from "../ui/title.js";
import { visible } from "../ui/visible.js";
import { columns, nextWidth, widths } from "../ui/width.js";

type Pane = ComponentType<{ readonly session: OpenSession }>;

// The conversation is shown as soon as possible; the panes next to it are loaded meanwhile.
type Behind = typeof import("../behind.js");
type Name = { [K in keyof Behind]: Behind[K] extends Pane ? K : never }[keyof Behind];
const beside = (name: Name): Pane => later<{ readonly session: OpenSession }>(() => import("../behind.js").then((m) => m[name]));
const TreePane = beside("TreePane");
const Slider = beside("Slider");
const Forking = beside("Forking");

const middles: readonly (readonly [Middle, Pane])[] = [
  ["talk", Talk],
  ["feed", beside("Feed")],
  ["runs", beside("Runs")],
  ["graph", beside("ConversationGraph")],
];

const details: readonly (readonly [Tab, Pane])[] = [
  ["why", beside("Why")],
  ["seen", beside("Seen")],
  ["cost", beside("Cost")],
  ["if", beside("WhatIf")],
  ["state", beside("Values")],
  ["files", beside("Files")],
];

/** The tabs that the reader may see, and the one that the address names. */
const tabs = (now: SessionRoute): typeof details => details.filter(([name]) => name !== "seen" || name === now.tab || may("inspect"));

export function Session(): JSX.Element {
  const now = route.value as SessionRoute;
  const session = open.value;
  const state = session?.state.value;
  usePage(`${state === "waiting" ? `${texts.states[state]} · ` : ""}${named(session?.detail.value?.title, now.id)}`, signOf(state));
  useKeys({
    t: [texts.session.middles.talk, () => change({ middle: "talk" })],
    f: [texts.session.middles.feed, () => change({ middle: "feed" })],
    r: [texts.session.middles.runs, () => change({ middle: "runs" })],
    g: [texts.session.middles.graph, () => change({ middle: "graph" })],
    ...Object.fromEntries(details.map(([tab], i) => [i + 1, [texts.session.tabs[tab], () => change({ tab })] as const])),
    "[": [texts.session.treeWidthKey, () => nextWidth("tree")],
    "]": [texts.session.detailsWidthKey, () => nextWidth("details")],
    Escape: [texts.session.back, () => (now.tab === undefined && now.sel === undefined ? false : closeDetails())],
  });
  if (session === undefined) return <p class="screen soft">{texts.session.opening(now.id)}</p>;
  const error = session.error.value;
  if (error !== undefined && (session.phase.value === "failed" || session.phase.value === "ended")) {
    return (
      <div class="screen">
        <h1 tabIndex={-1}>{texts.session.failed}</h1>
        <p>{error.status === 404 ? texts.session.missing(now.id) : error.message}</p>
        <p>
          <Link to={{ screen: "sessions", ...session.query }}>{texts.nowhere.sessions}</Link>
        </p>
      </div>
    );
  }
  return (
    <>
      {columns.value === 1 ? <One session={session} now={now} /> : <Several session={session} now={now} />}
      {asking.value !== undefined && <Forking session={session} />}
    </>
  );
}

function closeDetails(): void {
  change({ tab: undefined, sel: undefined });
}

/** Two or three columns, and the slider below them. */
function Several({ session, now }: { readonly session: OpenSession; readonly now: SessionRoute }): JSX.Element {
  const { tree: left, details: right } = widths.value;
  const three = columns.value === 3;
  const covered = !three && now.tab !== undefined;
  return (
    <div
      class="session"
      data-past={session.inPast.value}
      data-columns={columns.value}
      style={{ "--tree": `${three ? left : Math.max(left, 38)}%`, "--details": `${right}%` }}
    >
      {!covered && (
        <section class="column tree-column" aria-label={texts.screens.tree}>
          <Guarded what={texts.session.theTree}>
            <TreePane session={session} />
          </Guarded>
        </section>
      )}
      <MiddleColumn session={session} now={now} />
      {(three || covered) && (
        <aside class="column details-column" aria-label={texts.session.details}>
          <Details session={session} now={now} close={covered} />
        </aside>
      )}
      <section class="slider-row" aria-label={texts.session.time}>
        <Guarded what={texts.session.theSlider}>
          <Slider session={session} />
        </Guarded>
      </section>
      {three && (
        <>
          <Separator side="tree" label={texts.session.treeWidth} />
          <Separator side="details" label={texts.session.detailsWidth} />
        </>
      )}
    </div>
  );
}

function MiddleColumn({ session, now }: { readonly session: OpenSession; readonly now: SessionRoute }): JSX.Element {
  const [, Middle] = middles.find(([name]) => name === now.middle)!;
  return (
    <section class="column middle-column" aria-label={texts.session.name}>
      <h2>
        <span class="hidden-words">{texts.session.middles[now.middle]}</span>
      </h2>
      {columns.value > 1 && (
        <nav class="tabs" aria-label={texts.session.views}>
          {middles.map(([name]) => (
            <Link key={name} to={{ ...now, middle: name }} class="tab" current={now.middle === name}>
              {texts.session.middles[name]}
            </Link>
          ))}
        </nav>
      )}
      <Guarded key={now.middle} what={texts.session.view}>
        <Middle session={session} />
      </Guarded>
    </section>
  );
}

function Details({ session, now, close }: { readonly session: OpenSession; readonly now: SessionRoute; readonly close: boolean }): JSX.Element {
  const tab = now.tab ?? "why";
  const Shown = details.find(([name]) => name === tab)![1];
  return (
    <>
      <nav class="tabs" aria-label={texts.session.details}>
        {tabs(now).map(([name]) => (
          <Link key={name} to={{ ...now, tab: name }} class="tab" current={tab === name}>
            {texts.session.tabs[name]}
          </Link>
        ))}
        {close && (
          <button class="button plain close-details" onClick={closeDetails}>
            {texts.close}
          </button>
        )}
      </nav>
      <Guarded key={tab} what={texts.session.view}>
        <Shown session={session} />
      </Guarded>
    </>
  );
}

/** One column, as on a phone: the rest comes as sheets from below. */
function One({ session, now }: { readonly session: OpenSession; readonly now: SessionRoute }): JSX.Element {
  const [sheet, show] = useState<"" | "tree" | "time" | "more">("");
  const close = (): void => show("");
  // The conversation itself has its buttons at its foot.
  const question = session.inPast.value || now.middle === "talk" ? undefined : session.stored.value.end.facts.questions[0];
  return (
    <div class="session" data-past={session.inPast.value} data-columns="1">
      <Chips session={session} onOpen={() => show("tree")} />
      <MiddleColumn session={session} now={now} />
      {question !== undefined && (
        <div class="ask-bar" role="region" aria-label={texts.session.asked}>
          <Link to={{ ...now, middle: "talk", sel: { kind: "ev", seq: question.seq } }} class="button main">
            <span>{texts.session.waits(visible(question.tool))}</span>
          </Link>
        </div>
      )}
      <nav class="bottom" aria-label={texts.session.views}>
        <Link to={{ ...now, middle: "talk" }} class="button plain" current={now.middle === "talk"}>
          {texts.session.talk}
        </Link>
        <button class="button plain" aria-haspopup="dialog" onClick={() => show("tree")}>
          {texts.screens.tree}
        </button>
        <Link to={{ ...now, middle: "feed" }} class="button plain" current={now.middle === "feed"}>
          {texts.session.middles.feed}
        </Link>
        <button class="button plain" aria-haspopup="dialog" onClick={() => show("more")}>
          {texts.session.more}
        </button>
      </nav>
      {sheet === "tree" && (
        <Sheet title={texts.screens.tree} onClose={close}>
          <Guarded what={texts.session.theTree}>
            <TreePane session={session} />
          </Guarded>
        </Sheet>
      )}
      {sheet === "time" && (
        <Sheet title={texts.session.time} onClose={close}>
          <Guarded what={texts.session.theSlider}>
            <Slider session={session} />
          </Guarded>
        </Sheet>
      )}
      {sheet === "more" && (
        <Sheet title={texts.session.more} onClose={close}>
          <div class="menu" onClick={(e) => e.target instanceof HTMLElement && e.target.closest("a") !== null && close()}>
            {middles.slice(2).map(([name]) => (
              <Link key={name} to={{ ...now, middle: name }} class="button plain" current={now.middle === name}>
                {texts.session.middles[name]}
              </Link>
            ))}
            <button class="button plain" onClick={() => show("time")}>
              {texts.session.time}
            </button>
            <hr />
            {tabs(now).map(([name]) => (
              <Link key={name} to={{ ...now, tab: name }} class="button plain">
                {texts.session.tabs[name]}
              </Link>
            ))}
          </div>
        </Sheet>
      )}
      {now.tab !== undefined && sheet === "" && (
        <Sheet title={texts.session.details} onClose={closeDetails} bare>
          <Details session={session} now={now} close />
        </Sheet>
      )}
    </div>
  );
}

/** The way from the root to the agent that has the conversation. */
function Chips({ session, onOpen }: { readonly session: OpenSession; readonly onOpen: () => void }): JSX.Element {
  const { active } = session.facts.value;
  const way = (agentAt(active, tree.value?.root)?.path ?? active).split("/").filter((name) => name !== "");
  return (
    <button class="chips" aria-haspopup="dialog" onClick={onOpen}>
      {way.length === 0 ? <span class="soft">{texts.screens.tree}</span> : <span class="hidden-words">{texts.screens.tree}: </span>}
      {way.map((name, i) => (
        <>
          {i > 0 && <span class="soft">›</span>}
          <span class="chip" data-active={i === way.length - 1}>
            <Mark agent={name} /> {name}
          </span>
        </>
      ))}
    </button>
  );
}

/** The session in the header of the page: its title, its state and what it used. */
export function SessionTitle(): JSX.Element | null {
  const session = open.value;
  if (session === undefined || session.error.value !== undefined) return null;
  const facts = session.facts.value;
  const end = session.stored.value.end.seq;
  return (
    <div class="session-title">
      <h1 tabIndex={-1}>{named(session.detail.value?.title, session.key.id)}</h1>
      <span class="title-id">
        <span class="code soft">{session.key.id}</span>
        <Copy text={session.key.id} what={texts.session.theId} />
      </span>
      {session.phase.value === "loading" ? (
        <span class="soft">{texts.session.loading}</span>
      ) : session.inPast.value ? (
        <span class="past-words">
          {texts.session.past(facts.seq, end)}
        </span>
      ) : (
        <State state={session.state.value} active={facts.active} handoff={facts.handoff} />
      )}
      <span class="soft title-amounts">
        {texts.session.amounts(facts.turns, tokens(facts).all)}
      </span>
    </div>
  );
}
