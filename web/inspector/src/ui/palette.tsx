import "./palette.css";
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Schemas, get } from "../net/api.js";
import { type Agent, attempt, may, me, signOut, tree } from "../state/app.js";
import { parse } from "../state/address.js";
import { type Route, change, go, route } from "../state/route.js";
import { copy } from "./copy.js";
import { commands, letters, setLetters, shown, useKeys } from "./keys.js";
import { later } from "./later.js";
import { best } from "./match.js";
import { Sheet } from "./sheet.js";
import { named } from "./title.js";
import { type Scheme, scheme, setScheme } from "./theme.js";
import { texts } from "../texts.js";

const covering = signal<"" | "palette" | "keys" | "tour">("");

export function openPalette(): void {
  covering.value = "palette";
}

export function openKeys(): void {
  covering.value = "keys";
}

export function openTour(): void {
  covering.value = "tour";
}

export function copyAddress(): void {
  void copy(location.href);
}

// Few want it: it is loaded with the other screens.
const Tour = later(() => import("../behind.js").then((m) => m.Tour));

const close = (): void => {
  covering.value = "";
};

type Kind = keyof typeof texts.anything.kinds;

interface Item {
  readonly id: string;
  readonly kind: Kind;
  readonly name: string;
  readonly more?: string;
  readonly does: () => void;
}

/** The list of everything that one can go to or do. */
export function Palette(): JSX.Element | null {
  useKeys({
    "mod+k": [texts.anything.title, openPalette],
    "?": [texts.keys.allKeys, openKeys],
    y: [texts.keys.copyAddress, copyAddress],
  });
  return covering.value === "palette" ? <Open /> : covering.value === "tour" ? <Tour onClose={close} /> : null;
}

/** How many rows are shown at once; more words find what is not among them. */
const most = 60;

function Open(): JSX.Element {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const [sessions, setSessions] = useState<readonly Schemas["Session"][]>([]);
  // What the keys of the page do is asked before the palette covers them.
  const doings = useMemo(commands, []);
  const options = useRef<HTMLUListElement>(null);
  useEffect(() => {
    void attempt(() => get<Schemas["Sessions"]>("/sessions", { query: { user: route.peek().user, limit: 200 } })).then(
      (answer) => answer !== undefined && setSessions(answer.sessions),
    );
  }, []);
  const all = useMemo(() => {
    const [recent, older] = [sessions.slice(0, 6).map(ofSession), sessions.slice(6).map(ofSession)];
    return [...places(), ...recent, ...things(doings), ...agents(tree.value?.root), ...older];
  }, [doings, sessions, tree.value]);
  const found = [...typed(query), ...best(query, all, (i) => `${i.name} ${i.more ?? ""} ${texts.anything.kinds[i.kind]}`)].slice(0, most);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => {
    options.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, query]);
  const choose = (item: Item | undefined): void => {
    if (item === undefined) return;
    close();
    item.does();
  };
  const keys = (e: KeyboardEvent): void => {
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: found.length - 1, PageDown: chosen + 8, PageUp: chosen - 8 }[e.key];
    if (e.key === "Enter" && !e.isComposing) choose(found[chosen]);
    else if (to === undefined || ((e.key === "Home" || e.key === "End") && query !== "")) return;
    else setAt(e.key.startsWith("Arrow") ? (to + found.length) % Math.max(1, found.length) : Math.max(0, Math.min(found.length - 1, to)));
    e.preventDefault();
  };
  return (
    <Sheet title={texts.anything.title} from="middle" onClose={close} bare>
      <input
        class="palette-field"
        data-first
        role="combobox"
        aria-label={texts.anything.title}
        aria-expanded="true"
        aria-controls="palette-options"
        aria-activedescendant={found[chosen] === undefined ? undefined : `palette-${chosen}`}
        aria-autocomplete="list"
        autocomplete="off"
        spellcheck={false}
        placeholder={texts.anything.hint}
        value={query}
        onInput={(e) => {
          setQuery(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={keys}
      />
      <ul id="palette-options" ref={options} class="palette-options" role="listbox" aria-label={texts.anything.results}>
        {found.map((item, i) => (
          <li key={item.id} id={`palette-${i}`} role="option" aria-selected={i === chosen} onClick={() => choose(item)} onPointerMove={() => setAt(i)}>
            <span class="palette-kind">{texts.anything.kinds[item.kind]}</span>
            <span class="palette-name">
              {item.name} <span class="soft">{item.more}</span>
            </span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="palette-none soft">{texts.anything.none}</p>}
    </Sheet>
  );
}

const to = (kind: Kind, name: string, where: Route, more?: string): Item => ({
  id: `${kind} ${name} ${more ?? ""}`,
  kind,
  name,
  does: () => go(where),
  ...(more !== undefined && { more }),
});

function places(): Item[] {
  return [
    to("screen", texts.screens.sessions, { screen: "sessions" }),
    to("screen", texts.screens.tree, { screen: "tree" }),
    to("screen", texts.screens.usage, { screen: "usage" }),
    ...(me.value?.decides ? [to("screen", texts.screens.approvals, { screen: "approvals" })] : []),
    ...(me.value?.desk && may("desk") ? [to("screen", texts.screens.desk, { screen: "desk" })] : []),
  ];
}

function things(doings: ReturnType<typeof commands>): Item[] {
  const does = (name: string, what: () => void, more?: string): Item => ({ id: `do ${name}`, kind: "do", name, does: what, ...(more !== undefined && { more }) });
  const other: readonly Scheme[] = ["system", "light", "dark"];
  return [
    ...doings.filter(({ key }) => key !== "mod+k" && key !== "Escape").map(({ key, what, does: it }) => does(what, it, shown(key))),
    ...other.filter((s) => s !== scheme.value).map((s) => does(texts.anything.colours[s], () => setScheme(s))),
    does(texts.menu.takeTour, openTour),
    does(texts.menu.signOut, () => void signOut()),
  ];
}

function agents(from: Agent | undefined): Item[] {
  if (from === undefined) return [];
  const below = [...(from.subAgents ?? []), ...(from.agents ?? [])].flatMap(agents);
  return [to("agent", from.name, { screen: "tree", path: from.path }, from.path === from.name ? from.description : from.path), ...below];
}

function ofSession(s: Schemas["Session"]): Item {
  const { user } = route.peek();
  return to("session", named(s.title, s.id), { screen: "session", id: s.id, middle: "talk", ...(user !== undefined && { user }) }, s.id);
}

/** What the words themselves say: an address of this page, or a position of the session that is shown. */
function typed(query: string): Item[] {
  const text = query.trim();
  const items: Item[] = [];
  const position = Number(text);
  if (route.value.screen === "session" && Number.isSafeInteger(position) && position > 0) {
    items.push({ id: "position", kind: "position", name: texts.anything.position(position), does: () => change({ at: position }) });
  }
  if (/^(https?:\/\/|\/inspect\/|(s|diff|tree|graph|desk|usage)\/|approvals$)/.test(text)) {
    const url = URL.canParse(text) ? new URL(text) : new URL(text.startsWith("/") ? text : `/inspect/${text}`, location.origin);
    const where = url.origin === location.origin && url.pathname.startsWith("/inspect/") ? parse(url) : undefined;
    if (where !== undefined && where.screen !== "nowhere") items.push(to("address", text, where));
  }
  return items;
}

/** All keys that do something now, and the switch for single letters. */
export function HelpOfKeys(): JSX.Element | null {
  return covering.value === "keys" ? <Listed /> : null;
}

function Listed(): JSX.Element {
  const all = useMemo(commands, []);
  return (
    <Sheet title={texts.keys.title} from="middle" onClose={close}>
      <div class="keys-list">
        <label class="keys-switch">
          <input type="checkbox" checked={letters.value} onChange={(e) => setLetters(e.currentTarget.checked)} /> {texts.keys.letters}
        </label>{" "}
        <button class="button" onClick={openTour}>
          {texts.keys.takeTour}
        </button>
        <dl>
          {all.map(({ key, what }) => (
            <div key={key}>
              <dt>
                <kbd>{shown(key)}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Sheet>
  );
}
