import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { may, me, signOut } from "../state/app.js";
import { type Route, route } from "../state/route.js";
import { chosen, choose, type Language, languages } from "../language.js";
import { Icon } from "./icons.js";
import { Link } from "./link.js";
import { copyAddress, openKeys, openTour } from "./palette.js";
import { Sheet } from "./sheet.js";
import { type Scheme, scheme, setScheme } from "./theme.js";
import { texts } from "../texts.js";

const schemes: readonly Scheme[] = ["system", "light", "dark"];

/** Links to the screens that the reader can open from everywhere. */
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
      {link({ screen: "sessions", ...whose }, texts.screens.sessions)}
      {link({ screen: "tree" }, texts.screens.tree)}
      {link({ screen: "usage", ...whose }, texts.screens.usage)}
      {me.value?.decides && link({ screen: "approvals" }, texts.screens.approvals)}
      {me.value?.desk && may("desk") && link({ screen: "desk" }, texts.screens.desk)}
    </>
  );
}

/** The button with what every screen has: the other screens, the colours, the keys, signing out. */
export function Menu(): JSX.Element {
  const [open, show] = useState(false);
  const close = (): void => show(false);
  return (
    <>
      <button class="button plain menu-button" aria-label={texts.menu.name} aria-haspopup="dialog" title={texts.menu.name} onClick={() => show(true)}>
        <Icon name="menu" />
      </button>
      {open && (
        <Sheet title={texts.menu.title(me.value?.user ?? "")} from="corner" onClose={close}>
          <div class="menu" onClick={(e) => e.target instanceof HTMLElement && e.target.closest("a,button") !== null && close()}>
            <Screens />
            <hr />
            <fieldset>
              <legend class="soft fact">{texts.menu.colours}</legend>
              {schemes.map((name) => (
                <label key={name}>
                  <input type="radio" name="scheme" checked={scheme.value === name} onChange={() => setScheme(name)} /> {texts.menu.schemes[name]}
                </label>
              ))}
            </fieldset>
            <label>
              {texts.menu.language}{" "}
              <select value={chosen} onChange={(e) => choose(e.currentTarget.value as Language | "")}>
                <option value="">{texts.menu.asBrowser}</option>
                {Object.entries(languages).map(([name, own]) => (
                  <option key={name} value={name} lang={name}>
                    {own}
                  </option>
                ))}
              </select>
            </label>
            <hr />
            <button class="button plain" onClick={copyAddress}>
              {texts.menu.copyAddress} <kbd>y</kbd>
            </button>
            <button class="button plain" onClick={() => setTimeout(openKeys)}>
              {texts.menu.allKeys} <kbd>?</kbd>
            </button>
            <button class="button plain" onClick={() => setTimeout(openTour)}>
              {texts.menu.takeTour}
            </button>
            <button class="button plain" onClick={() => void signOut()}>
              {texts.menu.signOut}
            </button>
            <p class="soft fact menu-version">{texts.menu.version(me.value?.version)}</p>
          </div>
        </Sheet>
      )}
    </>
  );
}
