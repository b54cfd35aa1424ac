import "./feed.css";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../net/api.js";
import { attempt } from "../state/app.js";
import type { LogEvent } from "../state/events.js";
import type { Log } from "../state/log.js";
import type { OpenSession } from "../state/open.js";
import { type SessionRoute, change, route } from "../state/route.js";
import { Sifted } from "../state/sift.js";
import { texts } from "../texts-behind.js";
import { bytes, clock, count, span } from "../ui/amount.js";
import { Json } from "../ui/json.js";
import { useKeys } from "../ui/keys.js";
import { line, sign, timeOf, weight, whose } from "../ui/line.js";
import { Mark } from "../ui/mark.js";
import { type Listed, Rows, find } from "../ui/rows.js";


/** The events of a session as rows, and the selected one whole. */
export function Feed({ session }: { readonly session: OpenSession }): JSX.Element {
  const log = session.stored.value;
  const now = route.value as SessionRoute;
  const filter = now.filter ?? "";
  const sifted = useRef<Sifted | undefined>(undefined);
  if (sifted.current?.log !== log || sifted.current.filter !== filter) sifted.current = new Sifted(log, filter);
  const { seqs } = sifted.current.grow();
  // In the past, what came later is not shown.
  const until = now.at === undefined ? seqs.length : find({ length: seqs.length, key: (i) => seqs[i]! }, now.at + 1);
  const list: Listed = { length: until, key: (i) => seqs[i]! };
  const all = Math.max(0, Math.min(now.at ?? log.end.seq, log.end.seq) - log.from + 1);
  const chosen = now.sel?.kind === "ev" ? now.sel.seq : undefined;
  const event = chosen === undefined ? undefined : log.event(chosen);
  const field = useRef<HTMLInputElement>(null);
  useKeys({ "/": [texts.feed.filterKey, () => field.current?.focus()] });

  return (
    <div class="feed">
      <div class="feed-top">
        <input
          ref={field}
          class="field feed-filter"
          type="search"
          aria-label={texts.feed.filter}
          placeholder={texts.feed.hint}
          value={filter}
          onInput={(e) => change({ filter: e.currentTarget.value || undefined }, { replace: true })}
          onKeyDown={(e) => e.key === "Escape" && e.currentTarget.blur()}
        />
        <span class="fact soft" role="status">
          {texts.feed.events(filter === "" ? undefined : until, filter === "" ? until : all, log.whole ? undefined : log.from)}
        </span>
      </div>
      {until === 0 ? (
        <Nothing filter={filter} loading={session.phase.value === "loading"} />
      ) : (
        <Rows
          key={filter}
          label={texts.feed.name}
          list={list}
          columns={texts.feed.columns}
          name="feed"
          cells={(i) => cellsOf(log, seqs[i]!)}
          about={(i) => ({ "data-weight": weight(log.event(seqs[i]!)?.type ?? "") })}
          selected={chosen}
          select={(i, moved) => change({ sel: { kind: "ev", seq: seqs[i]! } }, { replace: moved })}
          open={(i) => change({ sel: { kind: "ev", seq: seqs[i]! }, tab: now.tab ?? "why" })}
        />
      )}
      {event !== undefined && <Whole key={chosen} session={session} log={log} event={event} />}
    </div>
  );
}

function cellsOf(log: Log, seq: number): readonly (JSX.Element | string)[] {
  const event = log.event(seq)!;
  const agent = whose(event);
  return [
    String(seq),
    since(log, event),
    agent === "" ? (
      <span class="feed-user">{event.type === "user" ? texts.you : ""}</span>
    ) : (
      <>
        <Mark agent={agent} /> <span class="feed-name">{agent}</span>
      </>
    ),
    <>
      <span class="feed-sign" aria-hidden="true">
        {sign(event.type)}
      </span>{" "}
      <span class="feed-name">{event.type}</span>
    </>,
    line(event),
  ];
}

/** How long after the event before, or the clock where a turn begins. */
function since(log: Log, event: LogEvent): string {
  const before = log.event((event.seq ?? 0) - 1);
  const [a, b] = [timeOf(before), timeOf(event)];
  if (b === undefined) return "";
  if (a === undefined || event.type === "user") return clock(event.time);
  return b === a ? "" : `+${span(Math.max(0, b - a))}`;
}

function Nothing({ filter, loading }: { readonly filter: string; readonly loading: boolean }): JSX.Element {
  if (loading) return <p class="feed-nothing soft">{texts.feed.loading}</p>;
  if (filter === "") return <p class="feed-nothing soft">{texts.feed.nothing}</p>;
  return (
    <div class="feed-nothing">
      <p>
        {texts.feed.none(<span class="code">{filter}</span>)}
      </p>
      <button class="button" onClick={() => change({ filter: undefined })}>
        {texts.feed.remove}
      </button>
    </div>
  );
}

/** An event as the server sent it. Texts that were cut are loaded when the reader asks. */
function Whole({ session, log, event }: { readonly session: OpenSession; readonly log: Log; readonly event: LogEvent }): JSX.Element {
  const seq = event.seq ?? 0;
  const clip = log.clips.get(seq);
  const [whole, set] = useState<unknown>();
  const text = useRef<HTMLDivElement>(null);
  useEffect(() => text.current?.scrollTo(0, 0), [seq]);
  const load = async (): Promise<void> => {
    const got = await attempt(() => get<unknown>(`${session.path}/events/${seq}`, { query: session.query }));
    if (got !== undefined) set(got);
  };
  return (
    <section class="feed-whole" aria-label={texts.feed.event(String(seq))}>
      <div class="feed-head">
        <h2>
          {texts.feed.event(count(seq))}: {event.type}
        </h2>
        {clip !== undefined && whole === undefined && (
          <>
            <span class="fact soft">{texts.feed.cut(bytes(clip.bytes))}</span>
            <button class="button" onClick={() => void load()}>
              {texts.feed.loadAll}
            </button>
          </>
        )}
        <span class="feed-space" />
        <button class="button" onClick={() => change({ at: seq })}>
          {texts.feed.goThere}
        </button>
        <button class="button plain" onClick={() => change({ sel: undefined })}>
          {texts.close}
        </button>
      </div>
      <div ref={text} tabIndex={0} class="feed-json" role="group" aria-label={texts.feed.whole(seq)}>
        <Json value={whole ?? event} label={texts.feed.json(seq)} />
      </div>
    </section>
  );
}
