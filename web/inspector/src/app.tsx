import "./style/frame.css";
import type { ComponentType, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Desk } from "./screens/desk.js";
import { Nowhere } from "./screens/nowhere.js";
import { Session } from "./screens/session.js";
import { Sessions } from "./screens/sessions.js";
import { SignIn } from "./screens/signin.js";
import { may, me, outdated, putAway, signedOut, signOut, told } from "./state/app.js";
import { open } from "./state/open.js";
import { type Route, route } from "./state/route.js";
import { clock } from "./ui/amount.js";
import { Guarded } from "./ui/guarded.js";
import { Icon } from "./ui/icons.js";
import { later } from "./ui/later.js";
import { Link } from "./ui/link.js";
import { HelpOfKeys, Palette, openPalette } from "./ui/palette.js";

// Screens that few sessions need are loaded when somebody goes there.
const screens: { readonly [S in Route["screen"]]: ComponentType } = {
  sessions: Sessions,
  session: Session,
  diff: later(() => import("./screens/diff.js").then((m) => m.Diff)),
  tree: later(() => import("./screens/tree.js").then((m) => m.Tree)),
  graph: later(() => import("./screens/graph.js").then((m) => m.GraphScreen)),
  usage: later(() => import("./screens/usage.js").then((m) => m.Usage)),
  desk: Desk,
  nowhere: Nowhere,
};

export function App(): JSX.Element {
  const { screen } = route.value;
  const main = useRef<HTMLElement>(null);
  const before = useRef(screen);
  useEffect(() => {
    // A new screen has the focus at its heading, so that a reader hears where it is.
    if (before.current !== screen) main.current?.querySelector<HTMLElement>("h1")?.focus();
    before.current = screen;
  }, [screen]);
  const Screen = screens[screen];
  return (
    <div class="frame">
      <Header />
      <Bars />
      <main ref={main}>
        {signedOut.value ? (
          <SignIn />
        ) : me.value === undefined ? (
          <p class="screen soft">Asking the server…</p>
        ) : (
          <Guarded key={screen} what="This screen">
            <Screen />
          </Guarded>
        )}
      </main>
      <Palette />
      <HelpOfKeys />
    </div>
  );
}

function Header(): JSX.Element {
  const { screen, user } = route.value;
  const whose = user === undefined ? {} : { user };
  return (
    <header>
      <Link to={{ screen: "sessions", ...whose }} class="brand">
        <img src="/inspect/mark.svg" width="16" height="16" alt="" /> Arbor
      </Link>
      {me.value !== undefined && (
        <nav aria-label="Screens">
          <Link to={{ screen: "sessions", ...whose }} class="button plain kept" current={screen === "sessions"}>
            Sessions
          </Link>
          <Link to={{ screen: "tree" }} class="button plain kept" current={screen === "tree"}>
            Tree
          </Link>
          <Link to={{ screen: "usage", ...whose }} class="button plain" current={screen === "usage"}>
            Usage
          </Link>
          {me.value.desk && may("desk") && (
            <Link to={{ screen: "desk" }} class="button plain" current={screen === "desk"}>
              Desk
            </Link>
          )}
        </nav>
      )}
      <span class="space" />
      {me.value !== undefined && (
        <>
          <button class="button" onClick={openPalette}>
            <Icon name="search" /> Go to anything <kbd>⌘K</kbd>
          </button>
          <button class="button plain" onClick={() => void signOut()} title={`Signed in as ${me.value.user}`}>
            Sign out
          </button>
        </>
      )}
    </header>
  );
}

/** What stands above every screen: a lost connection, another version of the server, what was told. */
function Bars(): JSX.Element {
  const since = open.value?.lostSince.value;
  return (
    <div class="bars" role="status">
      {since !== undefined && <div class="bar asked">Not connected since {clock(since.toISOString())}. Trying again.</div>}
      {outdated.value && (
        <div class="bar">
          The server is another version than this page.
          <button class="button" onClick={() => location.reload()}>
            Reload to get the page of this server
          </button>
        </div>
      )}
      {told.value.map(({ id, text, failed }) => (
        <div key={id} class={failed ? "bar failed" : "bar"}>
          {text}
          <button class="button plain" aria-label="Put away" onClick={() => putAway(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
