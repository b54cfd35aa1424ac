import "../style/usage.css";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Schemas, get, path } from "../net/api.js";
import { type Column, type Total, Totals } from "../state/totals.js";
import { route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { count, money, percent, span } from "../ui/amount.js";
import { Link } from "../ui/link.js";
import { named } from "../ui/title.js";

/** How many sessions are summed up at most, and how many are asked for at once. */
const most = 200;
const atOnce = 4;

const kinds = ["agent", "model", "session", "day"] as const;
type Kind = (typeof kinds)[number];

const columns: readonly Column[] = ["cost", "inputTokens", "cachedTokens", "readAnew", "outputTokens", "answers", "seconds"];

/** What sessions have cost: by agent, model, session and day. */
export function Usage(): JSX.Element {
  const { user } = route.value;
  const [totals, set] = useState(new Totals());
  const [all, setAll] = useState<{ readonly sessions: number; readonly more: boolean }>();
  const [failed, fail] = useState("");
  const [kind, choose] = useState<Kind>("agent");
  useEffect(() => {
    const abort = new AbortController();
    set(new Totals());
    fail("");
    sum(user, abort.signal, set, setAll).catch((error: unknown) => {
      if (!abort.signal.aborted) fail(error instanceof Error ? error.message : String(error));
    });
    return () => abort.abort();
  }, [user]);
  const done = all !== undefined && totals.sessions + totals.failed === all.sessions;
  return (
    <div class="screen usage">
      <h1 tabIndex={-1}>{texts.usage.title(user)}</h1>
      {failed !== "" && (
        <p class="failed" role="alert">
          {failed}
        </p>
      )}
      <p aria-live="polite" aria-busy={!done}>
        {all === undefined
          ? failed === "" && texts.usage.loading
          : all.sessions === 0
            ? texts.usage.none(<Link to={{ screen: "sessions" }}>{texts.startOne}</Link>)
            : texts.usage.sessions(done ? all.sessions : totals.sessions, all.sessions, all.more ? most : undefined)}
        {totals.failed > 0 && ` · ${texts.usage.failed(totals.failed)}`}
      </p>
      {totals.sessions > 0 && (
        <>
          <p class="soft fact">{texts.usage.forks}</p>
          <p class="usage-sum">
            {texts.usage.sum(<b>{cost(totals.all)}</b>, totals.all.inputTokens, share(totals.all), totals.all.outputTokens, totals.all.answers)}
          </p>
          {totals.all.cost === null && <p class="soft">{texts.usage.noPrice}</p>}
          <div class="usage-kinds" role="group" aria-label={texts.usage.ways}>
            {kinds.map((k) => (
              <button key={k} class="button" aria-pressed={kind === k} onClick={() => choose(k)}>
                {kind === k ? "✓ " : ""}
                {texts.usage.by[k]}
              </button>
            ))}
          </div>
          {kind === "day" && <p class="soft">{texts.usage.day}</p>}
          <Table key={kind} kind={kind} rows={totals.rows(kind)} user={user} />
        </>
      )}
    </div>
  );
}

function share(t: Total): string {
  return t.inputTokens === 0 ? texts.usage.nothing : percent(t.cachedTokens / t.inputTokens);
}

/** Asks for the newest sessions and then for what each used, a few at a time. */
async function sum(user: string | undefined, signal: AbortSignal, show: (t: Totals) => void, list: (all: { sessions: number; more: boolean }) => void): Promise<void> {
  const sessions: Schemas["Session"][] = [];
  let next: string | undefined;
  do {
    const page = await get<Schemas["Sessions"]>("/sessions", { query: { user, after: next, limit: 100 }, signal });
    sessions.push(...page.sessions);
    next = page.next;
  } while (next !== undefined && sessions.length < most);
  const newest = sessions.slice(0, most);
  list({ sessions: newest.length, more: next !== undefined || sessions.length > most });
  let totals = new Totals();
  const queue = newest.values();
  const work = async (): Promise<void> => {
    for (const session of queue) {
      try {
        const ask = (at?: number): Promise<Schemas["SessionUsage"]> =>
          get(`${path("sessions", session.id)}/usage`, { query: { user, at }, signal });
        const { parent } = session;
        const usage = await ask();
        // If the session that it was forked from was deleted, all is its own.
        const shared = parent?.id === undefined || parent.seq === 0 ? undefined : await ask(parent.seq);
        totals = totals.add(session, usage, shared);
      } catch (error) {
        if (signal.aborted) throw error;
        totals = totals.miss();
      }
      if (!signal.aborted) show(totals);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

interface TableProps {
  readonly kind: Kind;
  readonly rows: readonly Total[];
  readonly user: string | undefined;
}

function Table({ kind, rows, user }: TableProps): JSX.Element {
  const [by, sort] = useState<Column | "name">(kind === "day" ? "name" : "cost");
  const sorted = [...rows].sort((x, y) => {
    if (by === "name") return kind === "day" ? y.name.localeCompare(x.name) : x.name.localeCompare(y.name);
    const of = (r: Total): number => (by === "cost" ? r.known : (r[by] ?? 0));
    return of(y) - of(x) || y.inputTokens - x.inputTokens;
  });
  const measure: Column = by === "name" || (by === "cost" && rows.every((r) => r.known === 0)) ? "inputTokens" : by;
  const size = (r: Total): number => (measure === "cost" ? r.known : (r[measure] ?? 0));
  const top = Math.max(...rows.map(size), 0);
  const used = columns.filter((name) => name !== "seconds" || rows.every((r) => r.seconds !== undefined));
  const head = (name: Column | "name", title: string): JSX.Element => (
    <th key={name} scope="col" aria-sort={by === name ? (name === "name" && kind !== "day" ? "ascending" : "descending") : undefined}>
      <button class="usage-sort" onClick={() => sort(name)}>
        {title}
        {by === name ? (name === "name" && kind !== "day" ? " ▴" : " ▾") : ""}
      </button>
    </th>
  );
  return (
    <div class="usage-scroll" tabIndex={0} role="region" aria-label={texts.usage.table[kind]}>
      <table class="usage-table">
        <thead>
          <tr>
            {head("name", texts.usage.kinds[kind])}
            {used.map((name) => head(name, texts.usage.columns[name]))}
            <td />
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, most).map((r) => (
            <tr key={r.name}>
              <th scope="row">
                {kind === "session" ? (
                  <Link to={{ screen: "session", id: r.name, middle: "talk", tab: "cost", ...(user !== undefined && { user }) }}>{named(r.title, r.name)}</Link>
                ) : (
                  r.name
                )}
              </th>
              {used.map((name) => (
                <td key={name}>{cell(r, name)}</td>
              ))}
              <td class="usage-bar">
                <span aria-hidden="true" style={{ width: `${top === 0 ? 0 : Math.round((100 * size(r)) / top)}%` }} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What is known of a cost, and whether there is more. */
function cost({ cost: all, known }: Total): string {
  return all !== null || known === 0 ? money(all, texts.cost.unknown) : texts.usage.partly(money(known));
}

function cell(r: Total, name: Column): string {
  if (name === "cost") return cost(r);
  if (name === "seconds") return span((r.seconds ?? 0) * 1000);
  return name === "cachedTokens" ? share(r) : count(r[name] ?? 0);
}
