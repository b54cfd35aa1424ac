// The conversation of a session: messages, and the lines between them.
import "./talk.css";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { partings } from "../state/family.js";
import type { OpenSession } from "../state/open.js";
import { type Selection, change, route } from "../state/route.js";
import { type Row, foldRows, rowAt, rowsAt, withUnkept } from "../state/talk.js";
import { mayWrite } from "../state/app.js";
import { decidedAbout, questionOf } from "../state/decisions.js";
import { words } from "../state/events.js";
import { texts } from "../texts.js";
import { Guarded } from "../ui/guarded.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { useSettled } from "../ui/settled.js";
import { useVirtual } from "../ui/virtual.js";
import { visible } from "../ui/visible.js";
import { Between } from "./between.js";
import { Composer } from "./composer.js";
import { Relatives, pathOf } from "./picker.js";
import { QuestionCard, answer, callOf } from "./question.js";
import { Said, Unkept, selectionOf } from "./said.js";

type Parted = ReadonlyMap<string, ReturnType<typeof partings>[number]>;

export function Talk({ session }: { readonly session: OpenSession }): JSX.Element {
  const now = route.value.screen === "session" ? route.value : undefined;
  const log = session.log.value;
  const moment = session.moment.value;
  const past = session.inPast.value;
  const active = useMemo(() => pathOf(now?.active), [now?.active]);
  const all = useMemo(() => rowsAt(log, moment, active), [log, moment, active]);
  const rows = useMemo(() => withUnkept(foldRows(all, session.folded.value), log, moment), [all, session.folded.value, log.unkept]);
  const parted = usePartings(session, rows);
  const selected = selectedIn(rows, now?.sel);
  const writes = mayWrite(session.key.user);
  const [editing, edit] = useState("");
  const [denying, deny] = useState("");
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual({
    count: rows.length,
    keyOf: (i) => rows[i]?.key ?? String(i),
    height: (i) => estimate(rows[i]),
    scroller: () => scroller.current,
  });
  const atEnd = virtual.isAtEnd(64);
  const fresh = useFresh(rows, atEnd, past);
  const last = rows.at(-1);
  const growing = !past && last?.kind === "said" && last.view.status === "streaming";
  const asked = rows.flatMap((row, i) => {
    const call = row.kind === "question" ? callOf(session, row) : undefined;
    return row.kind === "question" && call?.mayDecide && decidedAbout(questionOf(session, call)) === undefined ? [{ row, i }] : [];
  });
  const target = asked.find(({ i }) => i === selected) ?? (asked.length === 1 ? asked[0] : undefined);

  // Questions are new under the reader's hand when they come, not when the session is opened.
  const { settled, move } = useSettled(session.phase.value === "loading" ? undefined : asked.map(({ row }) => row.key).join(" "));

  const focus = useRef(false);
  const select = (i: number): void => {
    const row = rows[i];
    if (row === undefined) return;
    focus.current = true;
    change({ sel: selectionOf(row).sel }, { replace: true });
  };
  const first = (): void => {
    select(asked[0]!.i);
    move();
  };
  const at = rows[selected];
  const editable = at?.kind === "said" && at.view.role === "user" ? at : undefined;
  const decides = {
    a: [
      texts.decide.approve,
      () => {
        if (!settled) return undefined;
        if (target === undefined) return first();
        return target.row.event.kind === "permission" ? answer(session, target.row, { approved: true }) : false;
      },
    ],
    d: [
      texts.decide.deny,
      () => {
        if (settled) target === undefined ? first() : deny(target.row.key);
      },
    ],
  } as const;
  useKeys({
    j: [texts.talk.next, () => select(Math.min(rows.length - 1, selected + 1))],
    k: [texts.talk.previous, () => select(selected < 0 ? rows.length - 1 : Math.max(0, selected - 1))],
    Enter: [texts.talk.open, () => (rows[selected] === undefined ? false : change(selectionOf(rows[selected])))],
    ...(writes && { E: [texts.talk.edit, () => (editable === undefined ? false : edit(editable.key))] as const }),
    ...(asked.length > 0 && !past && decides),
  });

  // The place of the address is shown when the reader goes there, and what the keys select has the focus.
  const place = now?.sel === undefined ? "" : JSON.stringify(now.sel);
  const loaded = rows.length > 0;
  useLayoutEffect(() => {
    if (place === "" || selected < 0) return;
    const { startIndex = 0, endIndex = -1 } = virtual.range ?? {};
    if (selected <= startIndex || selected >= endIndex) virtual.scrollToIndex(selected, { align: "auto" });
    if (!focus.current) return;
    focus.current = false;
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${selected}"] [data-select]`)?.focus({ preventScroll: true }));
  }, [place, loaded, selected < 0]);
  const began = useRef(false);
  useLayoutEffect(() => {
    if (!loaded || began.current) return;
    began.current = true;
    if (place === "" || selected < 0) virtual.scrollToEnd();
  }, [loaded]);

  const end = parted.get("end");
  return (
    <div class="talk">
      <h2>
        <span class="hidden-words">{texts.session.middles.talk}</span>
      </h2>
      {!log.whole && (
        <p class="talk-older fact soft" role="status">
          {texts.talk.begins(log.from)}{" "}
          {session.loadingOlder.value ? (
            texts.talk.loadingOlder
          ) : (
            <button class="more-link" onClick={() => void session.loadAll()}>
              {texts.talk.loadAll}
            </button>
          )}
        </p>
      )}
      <div class="talk-list" ref={scroller} role="log" aria-label={texts.session.middles.talk} aria-live="off" tabIndex={0} aria-busy={!past && session.state.value === "running"}>
        {!loaded && session.phase.value !== "loading" && <p class="talk-empty soft">{texts.talk.none}</p>}
        <div class="talk-rows" style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            return (
              <article
                key={key}
                class="talk-row"
                data-index={index}
                data-kind={row.kind}
                data-named={row.kind === "said" && row.named}
                data-selected={index === selected}
                ref={virtual.measureElement}
                style={{ transform: `translateY(${start}px)` }}
                aria-posinset={index + 1}
                aria-setsize={rows.length}
                aria-label={titleOf(row)}
                onClick={(e) => select1(e, row)}
              >
                <Guarded what={texts.talk.message}>
                  {row.kind === "said" ? (
                    <Said session={session} row={row} parting={parted.get(row.key)} editing={editing === row.key} {...(writes && { edit })} folds />
                  ) : row.kind === "question" ? (
                    <QuestionCard session={session} row={row} denying={denying === row.key} deny={(yes) => deny(yes ? row.key : "")} target={row.key === target?.row.key} />
                  ) : row.kind === "unkept" ? (
                    <Unkept row={row} />
                  ) : (
                    <Between row={row} />
                  )}
                  {row.kind !== "said" && parted.has(row.key) && <Relatives parting={parted.get(row.key)!} />}
                </Guarded>
              </article>
            );
          })}
        </div>
        {end !== undefined && (
          <p class="talk-end fact soft">
            {texts.talk.further} <Relatives parting={end} />
          </p>
        )}
      </div>
      {!atEnd && (fresh > 0 || growing) && (
        <button class="button talk-chip" onClick={() => virtual.scrollToEnd()}>
          <Icon name="down" /> {fresh > 0 ? texts.fresh(fresh) : texts.talk.more}
        </button>
      )}
      <Announcer rows={rows} past={past} />
      {target !== undefined && !past && target.row.event.kind === "permission" && denying !== target.row.key && (
        <div class="talk-decide">
          <button class="button main" aria-disabled={!settled} onClick={() => settled && answer(session, target.row, { approved: true })}>
            {texts.decide.approve} <span class="hidden-words">{visible(target.row.event.tool)}</span>
          </button>
          <button
            class="button"
            aria-disabled={!settled}
            onClick={() => {
              if (!settled) return;
              deny(target.row.key);
              virtual.scrollToIndex(target.i, { align: "end" });
            }}
          >
            {texts.decide.denyWhy}
          </button>
        </div>
      )}
      <Composer session={session} />
    </div>
  );
}

/** A click on what is not itself a control selects the message, unless it marks words. */
function select1(e: MouseEvent, row: Row): void {
  const { target } = e;
  if (!(target instanceof Element) || target.closest("a,button,summary,input,textarea,select,label,pre") || !getSelection()?.isCollapsed) return;
  if (route.value.screen !== "session" || route.value.tab === undefined) change({ sel: selectionOf(row).sel }, { replace: true });
  else change(selectionOf(row));
}

function selectedIn(rows: readonly Row[], sel: Selection | undefined): number {
  switch (sel?.kind) {
    case "ev":
      return rowAt(rows, sel.seq);
    case "run":
      return rows.findIndex((row) => row.kind === "said" && row.view.runId === sel.id);
    case "call":
      return rows.findIndex((row) => row.kind === "said" && (row.folded ?? [row.view]).some((v) => v.toolCalls?.some((c) => c.id === sel.id)));
    default:
      return -1;
  }
}

/** Where relatives of the session part from it, by the key of a row; "end" is after all rows. */
function usePartings(session: OpenSession, rows: readonly Row[]): Parted {
  const family = session.family.value;
  const all = useMemo(() => partings(family, session.key.id), [family, session.key.id]);
  const { seq } = session.log.value.end;
  return useMemo(() => {
    const out = new Map<string, ReturnType<typeof partings>[number]>();
    for (const parting of all) {
      const row = rows.find((r) => r.seq !== undefined && r.seq > parting.at);
      if (row !== undefined) out.set(row.key, parting);
      else if (parting.at >= seq) out.set("end", parting);
    }
    return out;
  }, [all, rows, seq]);
}

/** How many rows came while the reader was not at the end. */
function useFresh(rows: readonly Row[], atEnd: boolean, past: boolean): number {
  const known = useRef("");
  const last = rows.at(-1)?.key ?? "";
  useEffect(() => {
    if (atEnd || known.current === "" || past) known.current = last;
  });
  const i = atEnd ? -1 : rows.findLastIndex((row) => row.key === known.current);
  return i < 0 ? 0 : rows.length - 1 - i;
}

/** Announces to screen readers what was said: whole messages, transfers and questions, no single words. */
function Announcer({ rows, past }: { readonly rows: readonly Row[]; readonly past: boolean }): JSX.Element {
  const [text, say] = useState("");
  const heard = useRef<string | undefined>(undefined);
  const row = rows.findLast((r) => r.kind !== "said" || r.view.status !== "streaming");
  const key = row?.key ?? "";
  useEffect(() => {
    if (heard.current !== undefined && heard.current !== key && !past && row !== undefined) say(spoken(row));
    if (key !== "") heard.current = key;
  }, [key, past]);
  return (
    <div class="hidden-words" role="status" aria-live="polite">
      {text}
    </div>
  );
}

function spoken(row: Row): string {
  return row.kind === "said" ? `${titleOf(row)}: ${visible((row.view.text ?? "").slice(0, 600))}` : titleOf(row);
}

function titleOf(row: Row): string {
  if (row.kind === "said") return row.view.role === "user" ? texts.talk.user : visible(row.view.agent ?? texts.talk.agent);
  if (row.kind === "unkept") return visible(texts.talk.notKept(row.agent));
  const { event } = row;
  if (event.type === "relay") return visible(event.kind === "input" ? texts.decide.asks(event.tool) : texts.decide.runs(event.tool));
  if (event.type === "transfer") return visible(texts.talk.transfers(event.from, event.to, event.outcome === "committed", words(event.reason).text));
  return event.type.replaceAll("_", " ");
}

/** About how high a row is, until it was measured. */
function estimate(row: Row | undefined): number {
  if (row === undefined) return 60;
  if (row.kind === "event") return 36;
  if (row.kind === "question") return 190;
  if (row.kind === "unkept") return 60 + Math.min(400, Math.ceil(row.text.length / 66)) * 23;
  if (row.folded !== undefined) return 34;
  const { text = "", toolCalls = [] } = row.view;
  const lines = Math.min(400, Math.ceil(text.length / 66) + (text.match(/\n/g)?.length ?? 0));
  return 34 + lines * 23 + toolCalls.length * 52;
}

