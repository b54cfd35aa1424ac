import "./style/frame.css";
import type { ComponentType, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Nowhere } from "./screens/nowhere.js";
import { Session, SessionTitle } from "./screens/session.js";
import { SignIn } from "./screens/signin.js";
import { list } from "./state/list.js";
import { lostSince, me, offline, outdated, putAway, signedOut, told, tree } from "./state/app.js";
import { open } from "./state/open.js";
import { type Route, route } from "./state/route.js";
import { texts } from "./texts.js";
import { clock } from "./ui/amount.js";
import { Guarded } from "./ui/guarded.js";
import { Icon } from "./ui/icons.js";
import { later } from "./ui/later.js";
import { shown } from "./ui/keys.js";
import { Link } from "./ui/link.js";
import { Menu, Screens } from "./ui/menu.js";
import { usePage } from "./ui/page.js";
import { HelpOfKeys, Palette, openPalette } from "./ui/palette.js";
import { visible } from "./ui/visible.js";
import { useTree } from "./ui/watched.js";

// Most readers open a session; the other screens are loaded when the reader goes there.
type Behind = typeof import("./behind.js");
type Name = { [K in keyof Behind]: Behind[K] extends ComponentType ? K : never }[keyof Behind];
const other = (name: Name): ComponentType => later(() => import("./behind.js").then((m) => m[name]));
const screens: { readonly [S in Route["screen"]]: ComponentType } = {
  sessions: other("Sessions"),
  session: Session,
  diff: other("Diff"),
  tree: other("Tree"),
  graph: other("GraphScreen"),
  usage: other("Usage"),
  approvals: other("Approvals"),
  desk: other("Desk"),
  nowhere: Nowhere,
};

export function App(): JSX.Element {
  const { value } = route;
  const place = placeOf(value);
  const before = useRef(place);
  useLayoutEffect(() => {
    // A new screen has the focus at its heading, so that a screen reader says where it is.
    if (before.current !== place) document.querySelector<HTMLElement>("h1")?.focus();
    before.current = place;
  }, [place]);
  const Screen = screens[value.screen];
  // The streams of an open session and of the list of sessions report a new tree.
  useTree(me.value !== undefined && !signedOut.value && open.value === undefined && list.value === undefined);
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={skip}>
        {texts.frame.skip}
      </a>
      <Header />
      <Bars />
      <main id="content" tabIndex={-1}>
        {signedOut.value ? (
          <SignIn />
        ) : me.value === undefined ? (
          <p class="screen soft">{texts.frame.loading}</p>
        ) : (
          <Guarded key={place} what={texts.frame.screen}>
            <Named route={value} />
            <Screen />
          </Guarded>
        )}
      </main>
      {me.value !== undefined && !signedOut.value && (
        <>
          <Palette />
          <HelpOfKeys />
        </>
      )}
    </div>
  );
}

/** Names the tab; screens that know more than their address do so themselves. */
function Named({ route: to }: { readonly route: Route }): null {
  const { screens: names } = texts;
  usePage(to.screen === "diff" ? `${to.a} ⇄ ${to.b}` : to.screen === "graph" ? to.name : to.screen in names ? names[to.screen as keyof typeof names] : "");
  return null;
}

/** What is one screen to a reader: each session has its own. */
function placeOf(to: Route): string {
  if (to.screen === "session") return `s/${to.id}`;
  return to.screen === "desk" ? `desk/${to.handoff ?? ""}` : to.screen;
}

function skip(e: MouseEvent): void {
  e.preventDefault();
  document.getElementById("content")?.focus();
}

function Header(): JSX.Element {
  const { screen, user } = route.value;
  const whose = user === undefined ? {} : { user };
  const entered = me.value !== undefined && !signedOut.value;
  return (
    <header data-screen={screen}>
      <Link to={{ screen: "sessions", ...whose }} class="brand" label={texts.frame.brand}>
        <img src="/inspect/mark.svg" width="16" height="16" alt="" /> <span>Arbor</span>
      </Link>
      {entered && screen === "session" && (
        <Guarded what={texts.frame.title}>
          <SessionTitle />
        </Guarded>
      )}
      {entered && screen !== "session" && (
        <nav aria-label={texts.frame.nav}>
          <Screens />
        </nav>
      )}
      <span class="space" />
      {entered && (
        <>
          <button class="button anything" onClick={openPalette}>
            <Icon name="search" /> <span>{texts.anything.title}</span> <kbd>{shown("mod+k")}</kbd>
          </button>
          <Menu />
        </>
      )}
    </header>
  );
}

/** The bars above every screen: a lost connection, a newer page on the server, notices. */
function Bars(): JSX.Element {
  const since = lostSince.value;
  return (
    <div class="bars" role="status">
      {since !== undefined && <div class="bar asked">{texts.frame.lost(clock(since.toISOString()))}</div>}
      {offline.value && <div class="bar">{texts.frame.offline}</div>}
      <BrokenFiles />
      {outdated.value && (
        <div class="bar">
          {texts.frame.outdated}
          <button class="button" onClick={() => location.reload()}>
            {texts.frame.reload}
          </button>
        </div>
      )}
      {told.value.map(({ id, text, failed }) => (
        <div key={id} class={failed ? "bar failed" : "bar"}>
          {text}
          <button class="button plain" aria-label={texts.frame.dismiss} onClick={() => putAway(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}

/** Shows on every screen that the files of the agents cannot be used. The screen of the tree lists all problems itself. */
function BrokenFiles(): JSX.Element | null {
  const [first, ...more] = (!signedOut.value && tree.value?.problems) || [];
  if (first === undefined || route.value.screen === "tree") return null;
  const { file, line, message } = first;
  return (
    <div class="bar failed">
      <span>
        {texts.frame.broken(file === undefined ? "" : `${file}${line === undefined ? "" : `:${line}`}`, visible(message))}
      </span>
      <Link to={{ screen: "tree" }}>{texts.frame.problems(more.length + 1)}</Link>
    </div>
  );
}
