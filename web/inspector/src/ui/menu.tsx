import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { may, me, signOut } from "../state/app.js";
import { type Route, route } from "../state/route.js";
import { Icon } from "./icons.js";
import { Link } from "./link.js";
import { copyAddress, openKeys, openTour } from "./palette.js";
import { Sheet } from "./sheet.js";
import { type Scheme, scheme, setScheme } from "./theme.js";

const schemes: readonly (readonly [Scheme, string])[] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

/** Links to the screens that somebody can go to from anywhere. */
export function Screens(): JSX.Element {
  const { screen, user } = route.value;
  const whose = user === undefined ? {} : { user };
  const link = (to: Route, name: string): JSX.Element => (
    <Link to={to} class="button plain" current={screen === to.screen}>
      {name}
    </Link>
  );
  return (
    <>
      {link({ screen: "sessions", ...whose }, "Sessions")}
      {link({ screen: "tree" }, "Tree")}
      {link({ screen: "usage", ...whose }, "Usage")}
      {me.value?.decides && link({ screen: "approvals" }, "Approvals")}
      {me.value?.desk && may("desk") && link({ screen: "desk" }, "Desk")}
    </>
  );
}

/** The button with what every screen has: the other screens, the colours, the keys, signing out. */
export function Menu(): JSX.Element {
  const [open, show] = useState(false);
  const close = (): void => show(false);
  return (
    <>
      <button class="button plain menu-button" aria-label="Menu" aria-haspopup="dialog" title="Menu" onClick={() => show(true)}>
        <Icon name="menu" />
      </button>
      {open && (
        <Sheet title={`Signed in as ${me.value?.user ?? ""}`} from="corner" onClose={close}>
          <div class="menu" onClick={(e) => e.target instanceof HTMLElement && e.target.closest("a,button") !== null && close()}>
            <Screens />
            <hr />
            <fieldset>
              <legend class="soft fact">Colours</legend>
              {schemes.map(([name, words]) => (
                <label key={name}>
                  <input type="radio" name="scheme" checked={scheme.value === name} onChange={() => setScheme(name)} /> {words}
                </label>
              ))}
            </fieldset>
            <hr />
            <button class="button plain" onClick={copyAddress}>
              Copy the address <kbd>y</kbd>
            </button>
            <button class="button plain" onClick={() => setTimeout(openKeys)}>
              All keys <kbd>?</kbd>
            </button>
            <button class="button plain" onClick={() => setTimeout(openTour)}>
              Take the tour
            </button>
            <button class="button plain" onClick={() => void signOut()}>
              Sign out
            </button>
            <p class="soft fact menu-version">Arbor {me.value?.version}</p>
          </div>
        </Sheet>
      )}
    </>
  );
}
