import "./runs.css";
import { Fragment, type JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { LogEvent } from "../state/events.js";
import type { Log } from "../state/log.js";
import type { OpenSession } from "../state/open.js";
import { type Selection, type SessionRoute, type Tab, change, route } from "../state/route.js";
import { type Bar, type Lane, type Waterfall, scaleOf, ticksOf, waterfall } from "../state/waterfall.js";
import { texts } from "../texts-behind.js";
import { clock, span } from "../ui/amount.js";
import { Mark, hueOf } from "../ui/mark.js";
import { Lines, type Listed, Rows, useWindow } from "../ui/rows.js";

/** The turns of a log; each is arranged when it has changed. */
class Turns {
  readonly all: { readonly events: LogEvent[]; made?: { readonly count: number; readonly flow: Waterfall } }[] = [];
  private done = 0;

  constructor(readonly log: Log) {}

  grow(): this {
    const { events } = this.log;
    for (; this.done < events.length; this.done++) {
      const event = events[this.done]!;
      if (event.type === "user" || this.all.length === 0) this.all.push({ events: [] });
      this.all.at(-1)!.events.push(event);
    }
    return this;
  }

  /** The turns until a position. */
  until(seq: number): readonly Waterfall[] {
    const flows: Waterfall[] = [];
    for (const turn of this.all) {
      const first = turn.events[0]!.seq ?? 0;
      if (first > seq) break;
      const n = Math.min(turn.events.length, seq - first + 1);
      if (turn.made?.count !== n) turn.made = { count: n, flow: waterfall(turn.events.slice(0, n)) };
      flows.push(turn.made.flow);
    }
    return flows;
  }
}

/** What each run of each turn took, on a line of time, or as a table with the same facts. */
export function Runs({ session }: { readonly session: OpenSession }): JSX.Element {
  const log = session.stored.value;
  const { seq } = session.facts.value;
  const kept = useRef<Turns | undefined>(undefined);
  if (kept.current?.log !== log) kept.current = new Turns(log);
  const flows = kept.current.grow().until(seq);
  const [table, show] = useState(false);
  return (
    <div class="runs">
      <div class="runs-top">
        <span class="fact soft">
          {texts.runs.bar} <Key kind="answer" /> <Key kind="call" /> <Key kind="wait" />
        </span>
        <button class="button" aria-pressed={table} onClick={() => show(!table)}>
          {texts.runs.table}
        </button>
      </div>
      {flows.every((f) => f.lanes.length === 0) ? (
        <p class="runs-nothing soft">{session.phase.value === "loading" ? texts.runs.loading : texts.runs.none}</p>
      ) : table ? (
        <Table flows={flows} />
      ) : (
        <Picture flows={flows} numbered={log.whole} />
      )}
    </div>
  );
}

/** What a bar means, in the legend. */
function Key({ kind }: { readonly kind: Bar["kind"] }): JSX.Element {
  return (
    <span class="runs-key">
      <i data-kind={kind} data-hue="none" /> {texts.runs.kinds[kind]}
    </span>
  );
}

type Row =
  | { readonly kind: "turn"; readonly key: number; readonly flow: Waterfall; readonly n: number }
  | { readonly kind: "lane"; readonly key: number; readonly flow: Waterfall; readonly i: number }
  | { readonly kind: "marks"; readonly key: number; readonly flow: Waterfall };

function rowsOf(flows: readonly Waterfall[]): Row[] {
  const rows: Row[] = [];
  flows.forEach((flow, n) => {
    rows.push({ kind: "turn", key: flow.seq, flow, n: n + 1 });
    flow.lanes.forEach((lane, i) => rows.push({ kind: "lane", key: Math.max(lane.seq, flow.seq + 0.5), flow, i }));
    if (flow.lanes.length > 0) rows.push({ kind: "marks", key: Math.max(flow.lanes.at(-1)!.seq, flow.seq) + 0.7, flow });
  });
  return rows;
}

function Picture({ flows, numbered }: { readonly flows: readonly Waterfall[]; readonly numbered: boolean }): JSX.Element {
  const rows = rowsOf(flows);
  const list: Listed = { length: rows.length, key: (i) => rows[i]!.key };
  const view = useWindow(list, -1);
  return (
    <div class="rows">
      <div class="rows-box" ref={view.box} tabIndex={0} role="group" aria-label={texts.runs.name}>
        <Lines view={view} length={rows.length}>
          {rows.slice(view.from, view.to).map((row) => (
            <div key={row.key} class="runs-row" data-kind={row.kind}>
              {row.kind === "turn" ? (
                <h2>
                  {texts.runs.turn(numbered ? row.n : undefined)}{" "}
                  <span class="runs-when">
                    {between(row.flow)} · {span(row.flow.to - row.flow.from)}
                  </span>
                </h2>
              ) : row.kind === "lane" ? (
                <LaneRow flow={row.flow} i={row.i} />
              ) : (
                <Marks flow={row.flow} />
              )}
            </div>
          ))}
        </Lines>
      </div>
      {view.fresh > 0 && (
        <button class="button rows-new" onClick={view.toEnd}>
          {texts.fresh(view.fresh)}
        </button>
      )}
    </div>
  );
}

/** From when to when, or the one time if both are in the same second. */
function between({ from, to }: Waterfall): string {
  const [first, last] = [from, to].map((t) => clock(new Date(t).toISOString()));
  return first === last ? first! : `${first} → ${last}`;
}

const percent = (x: number): string => `${(x * 100).toFixed(3)}%`;

function LaneRow({ flow, i }: { readonly flow: Waterfall; readonly i: number }): JSX.Element {
  const lane = flow.lanes[i]!;
  const at = scaleOf(flow);
  const { sel } = route.value as SessionRoute;
  return (
    <>
      <button
        class="runs-who"
        style={{ paddingLeft: `${Math.min(lane.depth, 6) * 14}px` }}
        aria-pressed={sel?.kind === "run" && sel.id === lane.run}
        onClick={() => select({ kind: "run", id: lane.run }, "cost")}
        aria-label={`${lane.agent}, ${described(lane)}`}
      >
        <Mark agent={lane.agent} /> <span class="runs-name">{lane.agent}</span>
      </button>
      <div class="runs-line" data-hue={hueOf(lane.agent)}>
        {flow.folds.map((f) => (
          <span key={f.from} class="runs-fold" style={{ left: percent(at(f.from)), width: percent(at(f.to) - at(f.from)) }} />
        ))}
        {flow.hops.map((h) =>
          h.from === h.to || i < Math.min(h.from, h.to) || i > Math.max(h.from, h.to) ? null : (
            <span key={h.seq} class="runs-hop" data-part={i === h.from ? "from" : i === h.to ? "to" : "through"} style={{ left: percent(at(h.time)), width: i === h.to ? percent(Math.max(0, at(lane.from) - at(h.time))) : 0 }} />
          ),
        )}
        {lane.bars.map((bar, n) => {
          const x = at(bar.from);
          const wide = at(bar.to) - x;
          const next = lane.bars[n + 1];
          const after = (next === undefined ? 1 : at(next.from)) - x - wide;
          const outside = wide <= room && after > room;
          return (
            <Fragment key={`${bar.kind}${bar.first}`}>
            <button
              class="runs-bar"
              data-kind={bar.kind}
              data-failed={bar.failed}
              data-open={bar.open}
              data-selected={isSelected(sel, bar)}
              tabIndex={-1}
              style={{ left: percent(x), width: percent(wide) }}
              title={labelOf(lane, bar)}
              aria-label={labelOf(lane, bar)}
              onClick={() => selectBar(bar)}
            >
              {wide > 0.05 && !outside ? inBar(bar, wide) : ""}
            </button>
            {outside && (
              <span class="runs-outside" aria-hidden="true" style={{ left: percent(x + wide), width: percent(after) }}>
                {inBar(bar, 1)}
              </span>
            )}
            </Fragment>
          );
        })}
      </div>
    </>
  );
}

/** The share of the line that the words of a bar need. */
const room = 0.12;

function inBar(bar: Bar, wide: number): string {
  const took = tookOf(bar);
  if (bar.kind === "wait") return texts.runs.waits(took);
  return wide > room ? `${bar.failed ? "✗ " : ""}${bar.name} ${took}` : bar.kind === "answer" ? took : bar.name;
}

function tookOf(bar: Bar): string {
  return texts.runs.took(span(bar.to - bar.from), bar.open);
}

function labelOf({ agent }: Lane, bar: Bar): string {
  const what = bar.kind === "wait" ? texts.runs.waiting(agent) : texts.runs.did(agent, bar.name, bar.failed);
  return texts.runs.label(what, tookOf(bar), bar.first, bar.last);
}

function described(lane: Lane): string {
  return texts.runs.described(clock(new Date(lane.from).toISOString()), span(lane.to - lane.from), lane.finish);
}

function isSelected(sel: Selection | undefined, bar: Bar): boolean {
  if (sel?.kind === "call") return sel.id === bar.callId;
  return sel?.kind === "ev" && bar.kind === "answer" && sel.seq > bar.first && sel.seq <= bar.last;
}

function selectBar(bar: Bar): void {
  if (bar.callId !== undefined) select({ kind: "call", id: bar.callId }, "cost");
  else select({ kind: "ev", seq: bar.last }, "seen");
}

function select(sel: Selection, tab: Tab): void {
  change({ sel, tab });
}

/** The marks of time below a turn, counted from its beginning, and how long its folded pauses are. */
function Marks({ flow }: { readonly flow: Waterfall }): JSX.Element {
  const at = scaleOf(flow);
  return (
    <>
      <span class="runs-who" />
      <div class="runs-line fact soft">
        {ticksOf(flow).map((t) => (
          <span key={t} class="runs-tick" style={{ left: percent(at(t)) }}>
            {t === flow.from ? "0 s" : span(t - flow.from)}
          </span>
        ))}
        {flow.folds.map((f) => (
          <span key={f.from} class="runs-pause" style={{ left: percent(at(f.from)), width: percent(at(f.to) - at(f.from)) }}>
            ⋯ {span(f.to - f.from)} ⋯
          </span>
        ))}
      </div>
    </>
  );
}


function Table({ flows }: { readonly flows: readonly Waterfall[] }): JSX.Element {
  const { sel } = route.value as SessionRoute;
  const all = flows.flatMap((flow, n) => flow.lanes.flatMap((lane) => lane.bars.map((bar) => ({ n: n + 1, lane, bar })))).sort((a, b) => a.bar.first - b.bar.first || a.bar.last - b.bar.last);
  // Two bars may begin at one event, and keys must ascend.
  const key = (i: number): number => i;
  const chosen = all.findIndex(({ bar }) => isSelected(sel, bar));
  return (
    <Rows
      label={texts.runs.name}
      list={{ length: all.length, key }}
      columns={texts.runs.columns}
      name="runs"
      cells={(i) => {
        const { n, lane, bar } = all[i]!;
        return [
          String(n),
          <>
            <Mark agent={lane.agent} /> {lane.agent}
          </>,
          texts.runs.what(bar.name, bar.failed, lane.depth),
          clock(new Date(bar.from).toISOString()),
          tookOf(bar),
        ];
      }}
      selected={chosen < 0 ? undefined : chosen}
      select={(i, moved) => {
        const { bar } = all[i]!;
        change({ sel: bar.callId !== undefined ? { kind: "call", id: bar.callId } : { kind: "ev", seq: bar.last } }, { replace: moved });
      }}
      open={(i) => selectBar(all[i]!.bar)}
    />
  );
}
