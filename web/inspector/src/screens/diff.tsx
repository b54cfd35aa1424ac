import "../style/diff.css";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, type Schemas, get, path } from "../net/api.js";
import { follow } from "../net/stream.js";
import { type Item, type Row, align, items } from "../state/align.js";
import { attempt } from "../state/app.js";
import type { LogEvent } from "../state/events.js";
import { type Route, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { Folded } from "../ui/json.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { named } from "../ui/title.js";
import { Summary } from "./parting.js";

type Side = "a" | "b";

/** How many events of each side are asked for at once, and how many rows are shown at first. */
const page = 1000;
const few = 200;

/** How two sessions differ: what both begin with, and what each has for itself, side by side. */
export function Diff(): JSX.Element {
  const now = route.value;
  const { a, b } = now.screen === "diff" ? now : { a: "", b: "" };
  const { user } = now;
  const [diff, set] = useState<Schemas["Diff"]>();
  const [failed, fail] = useState("");
  const ask = (after?: string): Promise<Schemas["Diff"]> =>
    get(path("sessions", a, "diff", b), { query: { user, after, limit: page } });
  useEffect(() => {
    let here = true;
    set(undefined);
    fail("");
    ask().then(
      (d) => here && set(d),
      (error: unknown) => {
        if (!here) return;
        if (error instanceof ApiError && error.status === 404) fail(texts.diff.missing(a, b));
        else fail(error instanceof Error ? error.message : String(error));
      },
    );
    return () => {
      here = false;
    };
  }, [a, b, user]);
  const [titles, name] = useState<Readonly<Record<string, string>>>({});
  useEffect(() => {
    let here = true;
    for (const id of [a, b]) {
      get<Schemas["SessionDetail"]>(path("sessions", id), { query: { user } }).then(
        (s) => here && name((all) => ({ ...all, [id]: named(s.title, id) })),
        () => {}, // the comparison shows the error
      );
    }
    return () => {
      here = false;
    };
  }, [a, b, user]);
  // Two sessions with one title are distinguished by their ids.
  const title = (side: Side): string => {
    const id = side === "a" ? a : b;
    return titles[id] ? (titles[a] === titles[b] ? `${titles[id]} · ${id}` : titles[id]) : id;
  };
  // As long as a turn is under way in one of them, the difference grows.
  const under = diff === undefined ? [] : [diff.a, diff.b].filter(({ turn }) => turn === "open");
  useEffect(() => {
    let here = true;
    const grown = (): void => void ask().then((d) => here && set(d), () => {}); // the next event asks again
    const ends = under.map(({ session, seq }) =>
      follow({
        path: path("sessions", session, "events"),
        query: { user, media: "omit", clip: 1024 },
        after: String(seq),
        frames: (frames) => frames.some((f) => f.type === "" && (f.data as LogEvent).seq !== undefined) && grown(),
        connected: () => {},
        failed: ({ message }) => fail(message),
      }),
    );
    return () => {
      here = false;
      for (const end of ends) end();
    };
  }, [under.map(({ session, seq }) => `${session} ${seq}`).join()]);
  const more = async (): Promise<void> => {
    if (diff?.next === undefined) return;
    const next = await attempt(() => ask(diff.next));
    if (next === undefined) return;
    const join = (side: Side): Schemas["DiffSide"] => ({ ...next[side], events: [...diff[side].events, ...next[side].events] });
    set({ ...next, a: join("a"), b: join("b") });
  };
  return (
    <div class="screen diff">
      <h1 tabIndex={-1}>
        <span class="hidden-words">{texts.diff.of} </span>
        {title("a")} <span aria-label={texts.diff.and}>⇄</span> {title("b")}
      </h1>
      {failed !== "" && (
        <p class="failed" role="alert">
          {failed} <Link to={{ screen: "sessions", ...(user !== undefined && { user }) }}>{texts.nowhere.sessions}</Link>
        </p>
      )}
      {failed === "" && diff === undefined && <p class="soft">{texts.diff.comparing}</p>}
      {diff !== undefined && <Sides diff={diff} user={user} title={title} more={() => void more()} />}
    </div>
  );
}

interface SidesProps {
  readonly diff: Schemas["Diff"];
  readonly user: string | undefined;
  /** What a side is called. */
  readonly title: (side: Side) => string;
  readonly more: () => void;
}

function Sides({ diff, user, title, more }: SidesProps): JSX.Element {
  const [side, show] = useState<Side>("b");
  const [limit, grow] = useState(few);
  if (diff.same) return <p>{texts.diff.same(diff.common)}</p>;
  const rows = align(items(diff.a.events as LogEvent[]), items(diff.b.events as LogEvent[]));
  return (
    <>
      <p>
        {texts.diff.common(diff.common)}
        {diff.shared > 0 && <span class="soft"> · {texts.diff.shared(diff.shared, diff.common)}</span>}
        {rows.every((r) => r.sign === "=") && <span class="soft"> · {texts.diff.alike}</span>}
      </p>
      <div class="diff-switch" role="group" aria-label={texts.diff.side}>
        {(["a", "b"] as const).map((s) => (
          <button key={s} class="button" aria-pressed={side === s} onClick={() => show(s)}>
            {side === s ? "✓ " : ""}
            {title(s)}
          </button>
        ))}
      </div>
      <Summary diff={diff} rows={rows} user={user} side={side} title={title} />
      <table class="diff-table" data-side={side}>
        <caption class="hidden-words">{texts.diff.what}</caption>
        <thead>
          <tr>
            <th scope="col" class="diff-sign">
              <span class="hidden-words">{texts.diff.difference}</span>
            </th>
            {(["a", "b"] as const).map((s) => (
              <th key={s} scope="col" data-side={s}>
                <Link to={sessionAt(diff[s].session, diff.common, user)}>{title(s)}</Link> {diff.common > 0 && <span class="soft">{texts.at(diff.common)}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((row, i) => (
            <RowView key={i} row={row} />
          ))}
          {rows.length === 0 && (
            <tr>
              <td />
              <td colSpan={2} class="soft">
                {texts.diff.onlyRuns}
              </td>
            </tr>
          )}
        </tbody>
      </table>
      {rows.length > limit && (
        <p>
          <button class="button" onClick={() => grow(limit + 5 * few)}>
            {texts.diff.more(rows.length)}
          </button>
        </p>
      )}
      {diff.next !== undefined && (
        <p>
          <button class="button" onClick={more}>
            {texts.diff.load}
          </button>{" "}
          <span class="soft">{texts.diff.realign(page)}</span>
        </p>
      )}
    </>
  );
}

function sessionAt(id: string, at: number, user: string | undefined): Route {
  return { screen: "session", id, middle: "talk", ...(at > 0 && { at }), ...(user !== undefined && { user }) };
}

function RowView({ row }: { readonly row: Row }): JSX.Element {
  return (
    <tr data-sign={row.sign}>
      <th scope="row" class="diff-sign">
        <span aria-hidden="true">{row.sign}</span>
        <span class="hidden-words">{texts.diff.signs[row.sign]}</span>
      </th>
      <Cell item={row.a} side="a" />
      <Cell item={row.b} side="b" />
    </tr>
  );
}

function Cell({ item, side }: { readonly item: Item | undefined; readonly side: Side }): JSX.Element {
  if (item === undefined) {
    return (
      <td data-side={side} class="soft">
        –
      </td>
    );
  }
  const { who, text, more, kind, failed } = item;
  return (
    <td data-side={side}>
      <p class={kind === "transfer" ? "diff-hand" : undefined}>
        {kind !== "transfer" && (
          <span class="diff-who">
            <Mark agent={who} /> {who}:{" "}
          </span>
        )}
        <span class={kind === "call" ? "code" : failed ? "failed" : undefined}>
          <Folded text={text} most={600} />
        </span>
        {kind === "transfer" && more !== "" && <span class="soft"> {more}</span>}
      </p>
      {kind !== "transfer" && more !== "" && (
        <p class={failed ? "failed code" : "soft code"}>
          {failed ? "✗ " : "→ "}
          <Folded text={more} most={300} />
        </p>
      )}
    </td>
  );
}
