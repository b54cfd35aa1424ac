// A question to a person: whether a call may run, or something that a call has to know.
import "./question.css";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { me } from "../state/app.js";
import { type Decision, decidedAbout, questionOf, take } from "../state/decisions.js";
import { words } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { change } from "../state/route.js";
import type { Row } from "../state/talk.js";
import { wholeEvent } from "../state/whole.js";
import { texts } from "../texts.js";
import { clock } from "../ui/amount.js";
import { Mark } from "../ui/mark.js";
import { Arguments, Colleague } from "../ui/args.js";
import { Undo } from "../ui/undo.js";
import { asText, visible } from "../ui/visible.js";
import { Fields, emptyAnswer } from "./fields.js";
import { ShowAll } from "./long.js";
import { selectionOf } from "./said.js";

export type QuestionRow = Extract<Row, { kind: "question" }>;

/** An open question as the server reports it; undefined until it has. */
export function callOf(session: OpenSession, { event, open }: QuestionRow): Schemas["Call"] | undefined {
  return open && !session.inPast.value ? session.question(event.toolCallId, event.digest) : undefined;
}

/** Takes the reader's decision about a question; what comes of it is seen in the log. */
export function answer(session: OpenSession, row: QuestionRow, decision: Decision): void {
  const call = callOf(session, row);
  if (call !== undefined) take(session, row.event.turnId ?? session.facts.value.turnId, call, decision);
}

interface Props {
  readonly session: OpenSession;
  readonly row: QuestionRow;
  readonly denying: boolean;
  readonly deny: (yes: boolean) => void;
  /** Whether the buttons at the foot of the conversation decide about this one, on a phone. */
  readonly target: boolean;
}

export function QuestionCard({ session, row, denying, deny, target }: Props): JSX.Element {
  const { event, resolved, open } = row;
  const past = session.inPast.value;
  const call = callOf(session, row);
  const input = event.kind === "input";
  const [given, give] = useState<unknown>(() => emptyAnswer(event.schema));
  const asked = call === undefined ? "" : questionOf(session, call);
  const taken = decidedAbout(asked) !== undefined;
  const decided = (decision: Decision): void => {
    deny(false);
    answer(session, row, decision);
  };
  const within = event.within ?? [];
  return (
    <div class="question" data-open={open} data-target={target && !input}>
      <h3 class="question-head">
        <button class="talk-name" data-select onClick={() => change(selectionOf(row))}>
          <Mark agent={event.agent ?? ""} active={open && !past} /> <bdi>{visible(event.agent ?? "")}</bdi>
        </button>
        <span class="fact soft">{[...within.map(visible), clock(event.time)].join(" › ")}</span>
      </h3>
      <div class="question-card">
        <p class="question-what" dir="auto">
          <strong class="code">{visible(event.tool)}</strong> {input ? texts.decide.asksIt : texts.decide.runsIt}
        </p>
        {event.message !== undefined && <p dir="auto">{visible(words(event.message).text)}</p>}
        {call !== undefined ? (!input || call.params != null) && <Arguments of={call.params} /> : <Recorded session={session} row={row} />}
        {open && past ? (
          <div class="question-decided">
            <p class="fact soft">{texts.decide.nothingThen}</p>
            <p class="question-do">{texts.decide.waited}</p>
          </div>
        ) : open && call?.mayDecide !== true ? (
          <>
            <p class="fact soft">{texts.decide.nothing}</p>
            {call !== undefined && <Colleague call={call} />}
          </>
        ) : open && taken ? (
          <>
            <p class="fact soft">{texts.decide.nothing}</p>
            <Undo question={asked} />
          </>
        ) : open && denying ? (
          <Denial deny={(reason) => decided({ approved: false, ...(reason !== "" && { reason }) })} close={() => deny(false)} />
        ) : open ? (
          <form
            class="question-ask"
            onSubmit={(e) => {
              e.preventDefault();
              decided(input ? { content: given } : { approved: true });
            }}
          >
            {input && <Fields schema={event.schema} value={given} change={give} />}
            <p class="fact soft">{texts.decide.nothing}</p>
            <div class="question-do">
              <button class="button main" data-approve>
                {input ? texts.decide.answer : texts.decide.approve} {!input && <kbd>A</kbd>}
              </button>
              <button class="button" type="button" data-deny onClick={() => deny(true)}>
                {input ? texts.decide.declineWhy : texts.decide.denyWhy} <kbd>D</kbd>
              </button>
            </div>
          </form>
        ) : (
          <Decided resolved={resolved} input={input} />
        )}
      </div>
    </div>
  );
}

/** The arguments as the log has them, of which the stream may have sent the beginning. */
function Recorded({ session, row }: { readonly session: OpenSession; readonly row: QuestionRow }): JSX.Element | null {
  const { event } = row;
  const whole = wholeEvent(session, event.seq!);
  const params = whole?.type === "relay" ? whole.params : event.params;
  const clipped = whole === undefined && JSON.stringify(params ?? null).includes('"clipped":');
  if (event.kind === "input" && params == null) return null;
  return (
    <>
      <Arguments of={params} />
      {clipped && <ShowAll session={session} seqs={[event.seq!]} size={JSON.stringify(params).length} />}
    </>
  );
}

function Denial({ deny, close }: { readonly deny: (reason: string) => void; readonly close: () => void }): JSX.Element {
  const [why, say] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <form
      class="question-why"
      onSubmit={(e) => {
        e.preventDefault();
        deny(why.trim());
      }}
      onKeyDown={(e) => {
        if (e.key !== "Escape") return;
        e.preventDefault();
        e.stopPropagation();
        close();
      }}
    >
      <label class="fact soft">
        {texts.decide.whyModel}
        <input ref={field} class="field" dir="auto" maxLength={2000} value={why} onInput={(e) => say(e.currentTarget.value)} />
      </label>
      <div class="question-do">
        <button class="button main">
          {texts.decide.deny}
        </button>
        <button type="button" class="button" onClick={close}>
          {texts.decide.back}
        </button>
      </div>
    </form>
  );
}

/** What was decided takes the place of the buttons, in their height. */
function Decided({ resolved, input }: { readonly resolved: QuestionRow["resolved"]; readonly input: boolean }): JSX.Element {
  const reason = words(resolved?.reason).text;
  const by = resolved?.by === undefined || resolved.by === "" ? "" : ` ${texts.decide.by(resolved.by, resolved.by === me.value?.user)}`;
  const what = resolved === undefined ? texts.decide.withdrawn : resolved.approved ? (input ? texts.decide.wasAnswered : texts.decide.wasApproved) : input ? texts.decide.wasDeclined : texts.decide.wasDenied;
  return (
    <div class="question-decided">
      <p class="fact soft" dir="auto">
        {resolved === undefined
          ? texts.decide.noDecision
          : reason !== ""
            ? `“${visible(reason)}”`
            : resolved.content !== undefined
              ? asText(resolved.content)
              : texts.decide.noReason}
      </p>
      <p class="question-do">
        {what}
        {visible(by)} <span class="fact soft">{clock(resolved?.time)}</span>
      </p>
    </div>
  );
}
