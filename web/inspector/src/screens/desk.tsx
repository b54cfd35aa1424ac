import "./desk.css";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { once } from "../state/actions.js";
import { may, tree, type Agent } from "../state/app.js";
import { type Handoff, atDesk, desk, firstWords, handoff, handoffs } from "../state/desk.js";
import { type LogEvent, words } from "../state/events.js";
import { kept } from "../state/kept.js";
import { type OpenSession, open } from "../state/open.js";
import { go, route } from "../state/route.js";
import { texts } from "../texts-behind.js";
import { clock, span } from "../ui/amount.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { usePage } from "../ui/page.js";
import { visible } from "../ui/visible.js";
import { Words } from "../ui/words.js";

/** The steps of a handoff in which a person has the conversation. */
const taken: readonly string[] = ["connected", "on_hold"];

/** A step of a handoff as a text. All steps before a person accepts have one text. */
function plainly(status: string): string {
  if (status === "") return "";
  return (status !== "requested" && texts.handoffs[status]) || texts.handoffs["queued"]!;
}

function waits({ status }: Handoff): boolean {
  return !taken.includes(status);
}

export function Desk(): JSX.Element {
  const all = handoffs.value;
  const now = route.value;
  const waiting = all?.filter(waits).length ?? 0;
  usePage(texts.desk.tab(waiting), waiting > 0 ? "waiting" : "");
  useEffect(desk.watch, []);
  const shown = handoff.value;
  return (
    <div class="desk screen" data-chosen={shown !== undefined}>
      <section class="desk-list" aria-label={texts.desk.handoffs}>
        <h1 tabIndex={-1}>
          {texts.screens.desk} {all !== undefined && <span class="soft desk-count">{texts.desk.count(waiting, all.length - waiting)}</span>}
        </h1>
        {desk.error.value !== undefined ? (
          <p class="failed">{desk.error.value}.</p>
        ) : all === undefined ? (
          <p class="soft">{texts.frame.loading}</p>
        ) : all.length === 0 ? (
          <p>{texts.desk.none}</p>
        ) : (
          <ul>
            {all.map((h) => (
              <Waiting key={h.id} of={h} chosen={shown?.is.id === h.id} />
            ))}
          </ul>
        )}
      </section>
      {shown !== undefined ? (
        <Talk key={shown.is.id} of={shown.is} over={shown.over} />
      ) : (
        now.screen === "desk" &&
        now.handoff !== undefined &&
        all !== undefined && (
          <section aria-label={texts.desk.conversation}>
            <p>{texts.desk.missing}</p>
            <Link to={{ screen: "desk" }}>{texts.desk.all}</Link>
          </section>
        )
      )}
    </div>
  );
}

function Waiting({ of, chosen }: { readonly of: Handoff; readonly chosen: boolean }): JSX.Element {
  const [busy, setBusy] = useState(false);
  const since = Math.max(0, Date.now() - Date.parse(of.since));
  const accept = (): void => {
    setBusy(true);
    void atDesk(of, "accept").then((done) => (done ? go({ screen: "desk", handoff: of.id }) : setBusy(false)));
  };
  return (
    <li class="desk-row" data-chosen={chosen}>
      <span class="desk-who">
        <Link to={{ screen: "desk", handoff: of.id }} current={chosen}>
          {visible(firstWords(of) || of.reason || texts.handoffs["requested"]!)}
        </Link>
        <span class="fact">
          <b>{visible(of.user)}</b> {waits(of) && !Number.isNaN(since) && <span class="asked">{texts.desk.waits(span(since))}</span>}
        </span>
        <span class="soft fact">
          {texts.desk.from(visible(of.from))}
          <Reason text={of.reason} />
        </span>
      </span>
      {waits(of) ? (
        <button class="button" disabled={busy} onClick={accept} aria-label={texts.desk.acceptOne(firstWords(of) || of.session)}>
          {texts.desk.accept}
        </button>
      ) : (
        <span class="soft fact">{plainly(of.status)}</span>
      )}
    </li>
  );
}

function Reason({ text }: { readonly text: string }): JSX.Element | null {
  if (text === "") return null;
  return (
    <>
      , <q>{visible(text)}</q>
    </>
  );
}

/** The conversation of a handoff, and the field to answer in it. */
function Talk({ of, over }: { readonly of: Handoff; readonly over: boolean }): JSX.Element {
  const session = open.value;
  const failed = session?.error.value;
  return (
    <section class="desk-talk" aria-label={texts.desk.conversation}>
      <div class="desk-head">
        <p>
          <strong>{visible(of.user)}</strong> <span class={waits(of) && !over ? "asked" : "soft"}>{texts.desk.stands(plainly(over ? "ended" : of.status), clock(of.since), of.from, of.session)}</span>
        </p>
        <Link to={{ screen: "desk" }} class="talk-do desk-back">
          {texts.desk.all}
        </Link>
      </div>
      {failed !== undefined ? (
        <p>
          {failed.status === 403 ? texts.desk.blind : texts.desk.failed(failed.message)}
        </p>
      ) : session === undefined ? (
        <p class="soft">{texts.frame.loading}</p>
      ) : (
        <Said session={session} of={of} />
      )}
      {!over && <Answer of={of} />}
    </section>
  );
}

/** How many entries of a conversation are in the document; what is older is in the session's own screen. */
const most = 200;

function Said({ session, of }: { readonly session: OpenSession; readonly of: Handoff }): JSX.Element {
  const { events } = session.log.value;
  const said = shownOf(events);
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [said.length]);
  return (
    <>
      <Decision session={session} of={of} />
      <div
        class="desk-said"
        role="log"
        aria-label={texts.desk.conversation}
        tabIndex={0}
        ref={box}
        onScroll={({ currentTarget: b }) => (atEnd.current = b.scrollHeight - b.scrollTop - b.clientHeight < 24)}
      >
        {said.length > most && (
          <p>
            <Link to={{ screen: "session", id: of.session, middle: "talk", ...session.query }}>{texts.desk.before}</Link>
          </p>
        )}
        {said.slice(-most).map(({ event, by }) => (
          <Entry key={event.seq} event={event} by={by} />
        ))}
      </div>
    </>
  );
}

/**
 * What is shown of a log, and its author. The texts of "human" are a person's while one is connected;
 * before and after that they are the server's own. A repeated status is left out.
 */
function shownOf(events: readonly LogEvent[]): { readonly event: LogEvent; readonly by: string }[] {
  const shown: { readonly event: LogEvent; readonly by: string }[] = [];
  let status = "";
  let person: string = texts.desk.person;
  for (const event of events) {
    if ((event.scope ?? "") !== "") continue;
    if (event.type === "handoff_status") {
      const again = plainly(event.status) === plainly(status);
      status = event.status;
      if (status === "connected" && event.targetAgent) person = event.targetAgent;
      if (!again) shown.push({ event, by: "" });
    } else if (event.type === "user") shown.push({ event, by: texts.talk.userMark });
    else if (event.type === "transfer") shown.push({ event, by: "" });
    else if (event.type === "text") {
      const here = taken.includes(status);
      shown.push({ event, by: event.agent !== "human" ? (event.agent ?? "") : here ? person : texts.desk.notice });
    }
  }
  return shown;
}

function Entry({ event, by }: { readonly event: LogEvent; readonly by: string }): JSX.Element | null {
  const line = (text: string, reason: string): JSX.Element => (
    <p class="desk-line soft fact">
      {visible(text)} {reason !== "" && <q>{visible(reason)}</q>} {clock(event.time)}
    </p>
  );
  switch (event.type) {
    case "transfer":
      return event.outcome === "committed" ? line(`${event.from} → ${event.to}`, words(event.reason).text) : null;
    case "handoff_status":
      return line(
        `${plainly(event.status)}${event.targetAgent ? `, ${event.targetAgent}` : ""}`,
        words(event.reason).text,
      );
    case "user":
    case "text": {
      const parts = Array.isArray(event.content) ? event.content : undefined;
      const text =
        parts === undefined
          ? words(event.content as Parameters<typeof words>[0]).text
          : parts.map((p) => ("text" in p ? words((p as { text?: Parameters<typeof words>[0] }).text).text : texts.desk.file)).join("\n");
      const agent = event.type === "text" && event.agent !== "human";
      const human = event.agent === "human" && by !== texts.desk.notice;
      return (
        <div class="desk-entry" data-human={human}>
          <p class="desk-name fact">
            {agent && <Mark agent={by} />}
            <strong>{visible(by)}</strong> <span class="soft">{clock(event.time)}</span>
          </p>
          <Words text={text} />
        </div>
      );
    }
    default:
      return null;
  }
}

/** The decision that led to the person: a router's, or an agent's own. */
function Decision({ session, of }: { readonly session: OpenSession; readonly of: Handoff }): JSX.Element | null {
  const { events } = session.log.value;
  const first = events.findIndex((e) => e.type === "handoff_status" && e.handoffId === of.id);
  const led = events.slice(0, first < 0 ? undefined : first + 1).findLast((e) => (e.type === "route" || e.type === "transfer") && e.to === "human");
  if (led?.type !== "route" && led?.type !== "transfer") return null;
  const by = led.type === "transfer" ? texts.desk.transferred(led.from) : texts.desk.decided(led.from, led.ruleIndex);
  return (
    <p class="fact desk-why">
      <span class="soft">{texts.desk.why}</span> {by}
      <Reason text={words(led.reason).text} />{" "}
      {may("inspect") && (
        <Link
          to={{ screen: "session", id: of.session, middle: "talk", sel: { kind: "ev", seq: led.seq ?? 1 }, tab: "why", ...session.query }}
        >
          {texts.talk.why}
        </Link>
      )}
    </p>
  );
}

function names(agent: Agent | undefined): string[] {
  return agent === undefined ? [] : [agent.name, ...(agent.subAgents ?? []).flatMap(names)];
}

const saved = kept("arbor-desk-texts");

/** Answers that this browser stores, and a button that stores the text of the field. */
function Texts({ written, use }: { readonly written: string; readonly use: (text: string) => void }): JSX.Element {
  const all = saved.all.value;
  const text = written.trim();
  return (
    <details class="desk-texts">
      <summary>{texts.desk.saved}</summary>
      {all.length === 0 && <p class="soft">{texts.desk.noneSaved}</p>}
      <ul>
        {all.map((one) => (
          <li key={one}>
            <button class="button plain" type="button" onClick={() => use(one)}>
              {visible(one)}
            </button>
            <button class="talk-do" type="button" aria-label={texts.desk.forget(visible(one))} onClick={() => saved.forget(one)}>
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      <button class="button" type="button" disabled={text === "" || all.includes(text)} onClick={() => saved.keep(text)}>
        {texts.desk.save}
      </button>
    </details>
  );
}

function Answer({ of }: { readonly of: Handoff }): JSX.Element {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [to, setTo] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const key = useRef(once());
  const mine = of.status === "connected";
  const act = (...word: Parameters<typeof atDesk> extends [Handoff, ...infer Rest] ? Rest : never): void => {
    setBusy(true);
    void atDesk(of, ...word).finally(() => setBusy(false));
  };
  const send = (): void => {
    if (text.trim() === "" || busy || !mine) return;
    setBusy(true);
    void atDesk(of, "messages", { text }, key.current)
      .then((done) => {
        if (!done) return;
        setText("");
        key.current = once();
      })
      .finally(() => setBusy(false));
  };
  const write = (words: string): void => {
    key.current = once();
    setText(words);
  };
  const add = (words: string): void => {
    write(text.trim() === "" ? words : `${text.trimEnd()}\n${words}`);
    field.current?.focus();
  };
  useKeys({
    c: [texts.desk.write, () => field.current?.focus()],
    "mod+Enter": [texts.composer.send, send],
  });
  const others = [...new Set(names(tree.value?.root))].filter((name) => name !== of.from);
  return (
    <form
      class="desk-answer"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        class="field"
        rows={3}
        aria-label={texts.desk.write}
        placeholder={mine ? `${texts.desk.write}…` : texts.desk.acceptFirst}
        value={text}
        onInput={(e) => write(e.currentTarget.value)}
      />
      <Texts written={text} use={add} />
      <div class="desk-do">
        {mine ? (
          <button class="button main" disabled={busy || text.trim() === ""}>
            {texts.composer.send}
          </button>
        ) : (
          <button class="button main" type="button" disabled={busy} onClick={() => act("accept")}>
            {of.status === "on_hold" ? texts.desk.continue : texts.desk.accept}
          </button>
        )}
        {mine && (
          <button class="button" type="button" disabled={busy} onClick={() => act("hold")}>
            {texts.desk.hold}
          </button>
        )}
        <span class="desk-give">
          {others.length > 0 && (
            <label>
              <span class="hidden-words">{texts.desk.to}</span>
              <select class="field" value={to} onChange={(e) => setTo(e.currentTarget.value)}>
                <option value="">{of.from}</option>
                {others.map((name) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
          )}
          <button class="button" type="button" disabled={busy} onClick={() => act("complete", { status: mine ? "completed" : "ended", ...(to !== "" && { to }) })}>
            {texts.desk.giveBack(visible(to || of.from))}
          </button>
        </span>
      </div>
    </form>
  );
}
