import "../style/session.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Cost } from "../panes/cost.js";
import { ConversationGraph } from "../panes/convgraph.js";
import { Feed } from "../panes/feed.js";
import { Runs } from "../panes/runs.js";
import { Seen } from "../panes/seen.js";
import { Slider } from "../panes/slider.js";
import { Talk } from "../panes/talk.js";
import { TreePane } from "../panes/treepane.js";
import { WhatIf } from "../panes/whatif.js";
import { Why } from "../panes/why.js";
import { type OpenSession, open } from "../state/open.js";
import { type Middle, type SessionRoute, type Tab, change, route } from "../state/route.js";
import { tokens } from "../state/session.js";
import { count, counted } from "../ui/amount.js";
import { Guarded } from "../ui/guarded.js";
import { useKeys } from "../ui/keys.js";
import { Link } from "../ui/link.js";

type Pane = (props: { readonly session: OpenSession }) => JSX.Element;

const middles: readonly (readonly [Middle, string, Pane])[] = [
  ["talk", "Conversation", Talk],
  ["feed", "Feed", Feed],
  ["runs", "Runs", Runs],
  ["graph", "Graph", ConversationGraph],
];

const details: readonly (readonly [Tab, string, Pane])[] = [
  ["why", "Why", Why],
  ["seen", "Seen", Seen],
  ["cost", "Cost", Cost],
  ["if", "What if", WhatIf],
];

/** How the server says that a session stands, in words. */
const states: Readonly<Record<string, string>> = {
  running: "at work",
  waiting: "waits for you",
  cut_off: "was cut off",
  done: "done",
  failed: "failed",
  canceled: "canceled",
};

export function Session(): JSX.Element {
  const now = route.value as SessionRoute;
  const session = open.value;
  useKeys({
    t: ["Conversation", () => change({ middle: "talk" })],
    f: ["Feed", () => change({ middle: "feed" })],
    r: ["Runs", () => change({ middle: "runs" })],
    g: ["Graph", () => change({ middle: "graph" })],
    1: ["Why", () => change({ tab: "why" })],
    2: ["Seen", () => change({ tab: "seen" })],
    3: ["Cost", () => change({ tab: "cost" })],
    4: ["What if", () => change({ tab: "if" })],
    Escape: ["Back", () => (now.tab === undefined && now.sel === undefined ? false : change({ tab: undefined, sel: undefined }))],
  });
  if (session === undefined) return <p class="screen soft">Opening {now.id}…</p>;
  const error = session.error.value;
  if (session.phase.value === "failed" && error !== undefined) {
    return (
      <div class="screen">
        <h1 tabIndex={-1}>This session cannot be shown</h1>
        <p>{error.message}</p>
        <p>
          <Link to={{ screen: "sessions" }}>Go to the sessions</Link>
        </p>
      </div>
    );
  }
  const Middle = middles.find(([name]) => name === now.middle)![2];
  const tab = now.tab ?? "why";
  const Details = details.find(([name]) => name === tab)![2];
  const past = session.inPast.value;
  return (
    <div class="session" data-past={past} data-details={now.tab !== undefined}>
      <Title session={session} />
      <section class="column tree-column" aria-label="Tree">
        <Guarded what="The tree">
          <TreePane session={session} />
        </Guarded>
      </section>
      <section class="column middle-column" aria-label="Session">
        <nav class="tabs" aria-label="Views of the session">
          {middles.map(([name, title]) => (
            <Link key={name} to={{ ...now, middle: name }} class="tab" current={now.middle === name}>
              {title}
            </Link>
          ))}
        </nav>
        <Guarded key={now.middle} what="This view">
          <Middle session={session} />
        </Guarded>
      </section>
      <aside class="column details-column" aria-label="Details">
        <nav class="tabs" aria-label="Details">
          {details.map(([name, title]) => (
            <Link key={name} to={{ ...now, tab: name }} class="tab" current={tab === name}>
              {title}
            </Link>
          ))}
          <button class="button plain close-details" onClick={() => change({ tab: undefined })}>
            Close
          </button>
        </nav>
        <Guarded key={tab} what="This view">
          <Details session={session} />
        </Guarded>
      </aside>
      <section class="slider-row" aria-label="Time">
        <Guarded what="The slider">
          <Slider session={session} />
        </Guarded>
      </section>
      <Bottom now={now} />
    </div>
  );
}

function Title({ session }: { readonly session: OpenSession }): JSX.Element {
  const { facts } = session.moment.value;
  const detail = session.detail.value;
  const state = session.state.value;
  const past = session.inPast.value;
  return (
    <div class="session-title">
      <h1 tabIndex={-1}>{detail?.title || session.key.id}</h1>
      <span class="code soft">{session.key.id}</span>
      {session.phase.value === "loading" ? (
        <span class="soft">loading…</span>
      ) : past ? (
        <span class="asked">
          as it was at {count(facts.seq)} of {count(session.log.value.end.seq)}
        </span>
      ) : (
        <span class={state === "waiting" ? "asked" : state === "failed" ? "failed" : "soft"}>{states[state ?? ""] ?? "new"}</span>
      )}
      <span class="soft">
        {counted(facts.turns, "turn")} · {count(tokens(facts).all)} tokens
      </span>
    </div>
  );
}

/** On a phone there is one column, and this chooses which. */
function Bottom({ now }: { readonly now: SessionRoute }): JSX.Element {
  const [tree, show] = useState(false);
  return (
    <nav class="bottom" aria-label="Columns" data-tree={tree}>
      <Link to={{ ...now, middle: "talk" }} class="button plain" current={now.middle === "talk" && !tree}>
        Talk
      </Link>
      <button class="button plain" aria-expanded={tree} onClick={() => show(!tree)}>
        Tree
      </button>
      <Link to={{ ...now, middle: "feed" }} class="button plain" current={now.middle === "feed"}>
        Feed
      </Link>
      <Link to={{ ...now, tab: now.tab ?? "why" }} class="button plain">
        More
      </Link>
    </nav>
  );
}
