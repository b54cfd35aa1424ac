import "./sessions.css";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { path } from "../net/api.js";
import { remove } from "../state/actions.js";
import { attempt, may, mayWrite, me, tell } from "../state/app.js";
import { kept } from "../state/kept.js";
import { type Filter, type Listed, type SessionList, families, formatFilter, list, parseFilter } from "../state/list.js";
import { go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { clock, count } from "../ui/amount.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { Link } from "../ui/link.js";
import { usePage } from "../ui/page.js";
import { Sheet } from "../ui/sheet.js";
import { State } from "../ui/state.js";
import { named } from "../ui/title.js";
import { Cards } from "./ask.js";
import { Begin, Nothing } from "./begin.js";

export function Sessions(): JSX.Element {
  const { value } = route;
  const all = list.value;
  const waiting = all?.inbox.value.length ?? 0;
  usePage(texts.sessions.tab(waiting), waiting > 0 ? "waiting" : "");
  const filter = parseFilter(value.screen === "sessions" ? value.filter : "");
  const other = value.user !== undefined && value.user !== me.value?.user ? value.user : undefined;
  const ready = all !== undefined && all.phase.value !== "loading";
  const empty = ready && !all.finding.value && all.sessions.value.length === 0 && formatFilter(filter) === "";
  return (
    <div class="screen sessions">
      <h1 tabIndex={-1}>{texts.sessions.title(other)}</h1>
      {mayWrite(other) && <Begin empty={empty} />}
      {all?.phase.value === "failed" ? (
        <p class="failed" role="alert">
          {texts.sessions.failed(all.error.value?.message ?? "")}
        </p>
      ) : !ready ? (
        <p class="soft">{texts.sessions.loading}</p>
      ) : (
        <>
          <Inbox all={all} />
          <section aria-label={texts.sessions.all}>
            {empty && (other === undefined ? <Nothing /> : <p>{texts.sessions.noneOf(other)}</p>)}
            {(!empty || may("inspect")) && <Filters filter={filter} empty={empty} />}
            {!empty && <Table all={all} filter={filter} />}
          </section>
        </>
      )}
    </div>
  );
}

function Inbox({ all }: { readonly all: SessionList }): JSX.Element | null {
  const waiting = all.inbox.value;
  if (waiting.length === 0) return null;
  const query = all.user === undefined ? {} : { user: all.user };
  return (
    <section aria-label={texts.sessions.inbox}>
      <h2>{texts.sessions.waiting(waiting.length)}</h2>
      <Cards
        all={waiting.flatMap((s) =>
          s.pending.map((call) => ({
            name: texts.sessions.call(named(s.title, s.id)),
            place: { path: path("sessions", s.id), query },
            turn: s.turn ?? "",
            call,
            head: (
              <>
                <Link to={{ screen: "session", id: s.id, middle: "talk", ...query }}>{named(s.title, s.id)}</Link>
                <span class="soft">{texts.sessions.where(s.active, clock(s.updated))}</span>
              </>
            ),
          })),
        )}
      />
    </section>
  );
}

/** How long the reader must have stopped typing before the server searches, in milliseconds. */
const pause = 250;

const filters = kept("arbor-filters");

function Filters({ filter, empty }: { readonly filter: Filter; readonly empty: boolean }): JSX.Element {
  const { user } = route.value;
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [typed, type] = useState<string | undefined>();
  useKeys({ "/": [texts.sessions.searchKey, () => field.current?.focus()] });
  const whose = user === undefined ? {} : { user };
  const text = formatFilter(filter);
  const show = (next: Filter): void => {
    clearTimeout(timer.current);
    type(undefined);
    const text = formatFilter(next);
    go({ screen: "sessions", ...(text !== "" && { filter: text }), ...whose }, { replace: true });
  };
  const write = (words: string): void => {
    clearTimeout(timer.current);
    type(words);
    timer.current = setTimeout(() => {
      // Typed text may name a state or an agent; otherwise the fields next to it stay.
      const text = formatFilter({ ...filter, ...parseFilter(words) });
      go({ screen: "sessions", ...(text !== "" && { filter: text }), ...whose }, { replace: true });
    }, pause);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const set = (name: "state" | "agent" | "since" | "until", value: string): void => show(parseFilter(formatFilter({ ...filter, [name]: value })));
  const whoseForm = (e: SubmitEvent): void => {
    e.preventDefault();
    const name = String(new FormData(e.currentTarget as HTMLFormElement).get("user") ?? "").trim();
    go({ screen: "sessions", ...(name !== "" && name !== me.value?.user && { user: name }) });
  };
  return (
    <div class="filters">
      {!empty && (
        <>
          <input
            ref={field}
            class="field"
            type="search"
            aria-label={texts.sessions.search}
            placeholder={texts.sessions.searchHint}
            value={typed ?? filter.words}
            onInput={(e) => write(e.currentTarget.value)}
            onBlur={() => type(undefined)}
          />
          <select class="field" aria-label={texts.sessions.state} value={filter.state ?? ""} onChange={(e) => set("state", e.currentTarget.value)}>
            <option value="">{texts.sessions.anyState}</option>
            {Object.entries(texts.states).map(([state, word]) => (
              <option key={state} value={state}>
                {word}
              </option>
            ))}
          </select>
          <details open={filter.agent !== undefined || filter.since !== undefined || filter.until !== undefined}>
            <summary>{texts.sessions.more}</summary>
            <label>
              {texts.sessions.agent(
                <input class="field" aria-label={texts.sessions.agentName} placeholder={texts.sessions.agentHint} size={12} value={filter.agent ?? ""} onChange={(e) => set("agent", e.currentTarget.value.trim())} />,
              )}
            </label>{" "}
            <label>
              {texts.sessions.since(
                <input class="field" type="date" aria-label={texts.sessions.sinceName} value={filter.since ?? ""} onChange={(e) => set("since", e.currentTarget.value)} />,
              )}
            </label>{" "}
            <label>
              {texts.sessions.until(
                <input class="field" type="date" aria-label={texts.sessions.untilName} value={filter.until ?? ""} onChange={(e) => set("until", e.currentTarget.value)} />,
              )}
            </label>
          </details>
          {filters.all.value.map((one) => (
            <span key={one} class="kept-filter">
              <Link to={{ screen: "sessions", filter: one, ...whose }} current={one === text}>
                {one}
              </Link>
              <button class="talk-do" aria-label={texts.sessions.forget(one)} onClick={() => filters.forget(one)}>
                <Icon name="close" />
              </button>
            </span>
          ))}
          {text !== "" && !filters.all.value.includes(text) && (
            <button class="button plain" onClick={() => filters.keep(text)}>
              {texts.sessions.keep}
            </button>
          )}
        </>
      )}
      {may("inspect") && (
        <form onSubmit={whoseForm}>
          <label>
            {texts.sessions.of(<input key={user ?? ""} class="field" name="user" defaultValue={user ?? ""} placeholder={me.value?.user ?? ""} size={14} />)}
          </label>
          <button class="button">{texts.sessions.show}</button>
        </form>
      )}
    </div>
  );
}

/** How far a search went, where that is not everywhere. */
function Searched({ all }: { readonly all: SessionList }): JSX.Element | null {
  const went = all.searched.value;
  if (all.finding.value) return <p class="soft" role="status">{texts.sessions.searching}</p>;
  if (went === undefined) return null;
  return (
    <p class="soft" role="status">
      {all.next.value === undefined
        ? texts.sessions.searchedAll(went.sessions)
        : texts.sessions.searched(went.sessions, clock(went.updated))}
    </p>
  );
}

/** How many rows are in the document at a time. */
const rows = 100;

function Table({ all, filter }: { readonly all: SessionList; readonly filter: Filter }): JSX.Element {
  const [asked, ask] = useState<Listed | undefined>();
  const [busy, setBusy] = useState(false);
  const [from, setFrom] = useState(0);
  const body = useRef<HTMLTableSectionElement>(null);
  const shown = families(all.sessions.value);
  const searching = formatFilter(filter) !== "";
  const whose = all.user === undefined ? {} : { user: all.user };
  const step = (by: 1 | -1) => (): void => {
    const links = [...(body.current?.querySelectorAll<HTMLElement>("a.title") ?? [])];
    const at = links.findIndex((link) => link.closest("tr")?.contains(document.activeElement));
    links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  };
  useKeys({ j: [texts.sessions.next, step(1)], k: [texts.sessions.previous, step(-1)] });
  const part = shown.slice(from, from + rows);
  const more = (): void => {
    if (from + rows < shown.length) return setFrom(from + rows);
    setBusy(true);
    void attempt(() => all.more()).finally(() => setBusy(false));
  };
  return (
    <>
      {searching && <Searched all={all} />}
      {part.length === 0 && all.finding.value ? null : part.length === 0 ? (
        <p>
          {texts.sessions.noMatch(formatFilter(filter), all.next.value !== undefined)}{" "}
          <button class="button" onClick={() => go({ screen: "sessions", ...whose })}>
            {texts.sessions.removeFilter}
          </button>
        </p>
      ) : (
        <table class="list">
          <thead>
            <tr>
              <th scope="col">{texts.sessions.columns.session}</th>
              <th scope="col" class="w-state">
                {texts.sessions.columns.state}
              </th>
              <th scope="col" class="w-agent">
                {texts.sessions.columns.agent}
              </th>
              <th scope="col" class="w-number number">
                {texts.sessions.columns.events}
              </th>
              <th scope="col" class="w-time">
                {texts.sessions.columns.change}
              </th>
              <th scope="col" class="w-do">
                <span class="hidden-words">{texts.sessions.columns.remove}</span>
              </th>
            </tr>
          </thead>
          <tbody ref={body}>
            {part.map(({ session: s, depth }) => (
              <tr key={s.id}>
                <td style={{ "--depth": Math.min(depth, 6) }}>
                  <Link to={{ screen: "session", id: s.id, middle: "talk", ...whose }} class="title">
                    {named(s.title, s.id)}
                  </Link>{" "}
                  {s.parent !== undefined && (
                    <span class="soft fact">{depth === 0 ? texts.sessions.forkOf(s.parent.id, s.parent.seq) : texts.sessions.fork(s.parent.seq)}</span>
                  )}
                </td>
                <td>
                  <State state={s.state} active={s.active} />
                </td>
                <td>{s.active}</td>
                <td class="number">{count(s.seq)}</td>
                <td class="soft">
                  <time dateTime={s.updated}>{clock(s.updated)}</time>
                </td>
                <td>
                  {mayWrite(all.user) && (
                    <button class="button plain" aria-label={texts.sessions.removeOne(named(s.title, s.id))} title={texts.sessions.remove} onClick={() => ask(s)}>
                      <Icon name="close" />
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="paging">
        {from > 0 && (
          <button class="button" onClick={() => setFrom(Math.max(0, from - rows))}>
            {texts.sessions.newer}
          </button>
        )}
        {(all.next.value !== undefined || from + rows < shown.length) && (
          <button class="button" disabled={busy} onClick={more}>
            {searching && all.next.value !== undefined && from + rows >= shown.length ? texts.sessions.further : texts.sessions.older}
          </button>
        )}
      </p>
      {asked !== undefined && <Delete session={asked} all={all} close={() => ask(undefined)} />}
    </>
  );
}

function Delete({ session, all, close }: { readonly session: Listed; readonly all: SessionList; readonly close: () => void }): JSX.Element {
  const sure = (): void => {
    close();
    void remove(session.id).then((gone) => {
      if (!gone) return;
      all.drop(session.id);
      tell(texts.sessions.removed(named(session.title, session.id)));
    });
  };
  return (
    <Sheet title={texts.sessions.removeTitle} from="middle" onClose={close}>
      <div class="screen">
        <p>{texts.sessions.removeWhat(named(session.title, session.id), session.seq)}</p>
        <p class="ask-actions">
          <button class="button" onClick={sure}>
            {texts.sessions.remove}
          </button>
          <button class="button" data-first onClick={close}>
            {texts.sessions.stay}
          </button>
        </p>
      </div>
    </Sheet>
  );
}
