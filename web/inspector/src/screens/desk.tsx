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
import { clock, span } from "../ui/amount.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { usePage } from "../ui/page.js";
import { visible } from "../ui/visible.js";
import { Words } from "../ui/words.js";

/** How a handoff stands, in words. */
const stands: Readonly<Record<string, string>> = { connected: "with a person", on_hold: "on hold" };

/** How a handoff stands, as a line of the conversation; how a person is called is nobody's matter. */
function plainly(status: string): string {
  if (status === "completed" || status === "ended") return "given back";
  return stands[status] ?? (status === "" || status === "cancelled" || status === "failed" ? status : "waits for a person");
}

function waits({ status }: Handoff): boolean {
  return stands[status] === undefined;
}

export function Desk(): JSX.Element {
  const all = handoffs.value;
  const now = route.value;
  const waiting = all?.filter(waits).length ?? 0;
  usePage(waiting > 0 ? `${waiting} waiting · Desk` : "Desk", waiting > 0 ? "waiting" : "");
  useEffect(desk.watch, []);
  const shown = handoff.value;
  return (
    <div class="desk screen" data-chosen={shown !== undefined}>
      <section class="desk-list" aria-label="Handoffs">
        <h1 tabIndex={-1}>
          Desk{" "}
          {all !== undefined && (
            <span class="soft desk-count">
              {waiting} waiting · {all.length - waiting} with a person
            </span>
          )}
        </h1>
        {desk.error.value !== undefined ? (
          <p class="failed">{desk.error.value}.</p>
        ) : all === undefined ? (
          <p class="soft">Loading…</p>
        ) : all.length === 0 ? (
          <p>No conversation waits for a person. When an agent transfers to a person, the conversation appears here.</p>
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
          <section aria-label="Conversation">
            <p>This handoff is over, or does not exist.</p>
            <Link to={{ screen: "desk" }}>All handoffs</Link>
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
          {visible(firstWords(of) || of.reason || "asks for a person")}
        </Link>
        <span class="fact">
          <b>{visible(of.user)}</b> {waits(of) && !Number.isNaN(since) && <span class="asked">waits {span(since)}</span>}
        </span>
        <span class="soft fact">
          from {visible(of.from)}
          {of.reason !== "" && (
            <>
              , <q>{visible(of.reason)}</q>
            </>
          )}
        </span>
      </span>
      {waits(of) ? (
        <button class="button" disabled={busy} onClick={accept} aria-label={`Accept ${firstWords(of) || of.session}`}>
          Accept
        </button>
      ) : (
        <span class="soft fact">{stands[of.status]}</span>
      )}
    </li>
  );
}

/** The conversation of a handoff, and what a person can say in it. */
function Talk({ of, over }: { readonly of: Handoff; readonly over: boolean }): JSX.Element {
  const session = open.value;
  const failed = session?.error.value;
  return (
    <section class="desk-talk" aria-label="Conversation">
      <div class="desk-head">
        <p>
          <strong>{visible(of.user)}</strong> <span class="soft code">{of.session}</span>{" "}
          <span class={waits(of) && !over ? "asked" : "soft"}>
            {over ? "given back" : (stands[of.status] ?? "waits for a person")} · since {clock(of.since)} · from {of.from}
          </span>
        </p>
        <Link to={{ screen: "desk" }} class="button plain desk-back">
          All handoffs
        </Link>
      </div>
      {failed !== undefined ? (
        <p>
          {failed.status === 403
            ? "What was said before is not shown: reading other users' conversations needs the right inspect. What you say still reaches the user."
            : `The conversation cannot be shown: ${failed.message}`}
        </p>
      ) : session === undefined ? (
        <p class="soft">Loading…</p>
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
        aria-label="Conversation"
        tabIndex={0}
        ref={box}
        onScroll={({ currentTarget: b }) => (atEnd.current = b.scrollHeight - b.scrollTop - b.clientHeight < 24)}
      >
        {said.length > most && (
          <p>
            <Link to={{ screen: "session", id: of.session, middle: "talk", ...session.query }}>What was said before</Link>
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
 * What is shown of a log, and who said it. The words of "human" are a person's while one is connected;
 * before and after that they are the server's own. A status that is told again is left out.
 */
function shownOf(events: readonly LogEvent[]): { readonly event: LogEvent; readonly by: string }[] {
  const shown: { readonly event: LogEvent; readonly by: string }[] = [];
  let status = "";
  let person = "a person";
  for (const event of events) {
    if ((event.scope ?? "") !== "") continue;
    if (event.type === "handoff_status") {
      const again = plainly(event.status) === plainly(status);
      status = event.status;
      if (status === "connected" && event.targetAgent) person = event.targetAgent;
      if (!again) shown.push({ event, by: "" });
    } else if (event.type === "user") shown.push({ event, by: "user" });
    else if (event.type === "transfer") shown.push({ event, by: "" });
    else if (event.type === "text") {
      const here = status === "connected" || status === "on_hold";
      shown.push({ event, by: event.agent !== "human" ? (event.agent ?? "") : here ? person : "notice" });
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
          : parts.map((p) => ("text" in p ? words((p as { text?: Parameters<typeof words>[0] }).text).text : "(a file)")).join("\n");
      const agent = event.type === "text" && event.agent !== "human";
      const human = event.agent === "human" && by !== "notice";
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
  const by = led.type === "transfer" ? `${led.from} handed over` : led.ruleIndex === null ? `${led.from} decided` : `rule ${led.ruleIndex} of ${led.from}`;
  const reason = words(led.reason).text;
  return (
    <p class="fact desk-why">
      <span class="soft">Why a person:</span> {by}
      {reason !== "" && (
        <>
          , <q>{visible(reason)}</q>
        </>
      )}{" "}
      {may("inspect") && (
        <Link
          to={{ screen: "session", id: of.session, middle: "talk", sel: { kind: "ev", seq: led.seq ?? 1 }, tab: "why", ...session.query }}
        >
          Why?
        </Link>
      )}
    </p>
  );
}

function names(agent: Agent | undefined): string[] {
  return agent === undefined ? [] : [agent.name, ...(agent.subAgents ?? []).flatMap(names)];
}

const texts = kept("arbor-desk-texts");

/** Texts that this browser keeps for answers, and the way to keep what is written. */
function Texts({ written, use }: { readonly written: string; readonly use: (text: string) => void }): JSX.Element {
  const all = texts.all.value;
  const text = written.trim();
  return (
    <details class="desk-texts">
      <summary>Kept texts</summary>
      {all.length === 0 && <p class="soft">Write a text that you need often, and keep it here. This browser keeps it.</p>}
      <ul>
        {all.map((one) => (
          <li key={one}>
            <button class="button plain" type="button" onClick={() => use(one)}>
              {visible(one)}
            </button>
            <button class="talk-do" type="button" aria-label={`Forget ${visible(one)}`} onClick={() => texts.forget(one)}>
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      <button class="button" type="button" disabled={text === "" || all.includes(text)} onClick={() => texts.keep(text)}>
        Keep what is written
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
    c: ["Write to the user", () => field.current?.focus()],
    "mod+Enter": ["Send", send],
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
        aria-label="Write to the user"
        placeholder={mine ? "Write to the user…" : "Accept first, then write to the user"}
        value={text}
        onInput={(e) => write(e.currentTarget.value)}
      />
      <Texts written={text} use={add} />
      <div class="desk-do">
        {mine ? (
          <button class="button main" disabled={busy || text.trim() === ""}>
            Send
          </button>
        ) : (
          <button class="button main" type="button" disabled={busy} onClick={() => act("accept")}>
            {of.status === "on_hold" ? "Continue" : "Accept"}
          </button>
        )}
        {mine && (
          <button class="button" type="button" disabled={busy} onClick={() => act("hold")}>
            Hold
          </button>
        )}
        <span class="desk-give">
          {others.length > 0 && (
            <label>
              <span class="hidden-words">Who gets the conversation</span>
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
            Give back to {visible(to || of.from)}
          </button>
        </span>
      </div>
    </form>
  );
}
