// The lines between the messages of a conversation: transfers with their reasons, what a
// router decided, persons, files, notices, and discarded attempts.
import type { ComponentChildren, JSX } from "preact";
import { words } from "../state/events.js";
import { type SessionRoute, change, route } from "../state/route.js";
import { type Event, type Row } from "../state/talk.js";
import { open } from "../state/open.js";
import { texts } from "../texts.js";
import { percent, span } from "../ui/amount.js";
import { Fold } from "../ui/fold.js";
import { Link } from "../ui/link.js";
import { visible } from "../ui/visible.js";
import { AsIs } from "../ui/words.js";
import { ShowAll } from "./long.js";
import { Made } from "./made.js";
import { selectionOf } from "./said.js";
import { wholeEvent } from "../state/whole.js";

export type BetweenRow = Extract<Row, { kind: "event" }>;

export function Between({ row }: { readonly row: BetweenRow }): JSX.Element {
  const { event, route: decided } = row;
  switch (event.type) {
    case "transfer":
      return <Transfer row={row} event={event} decided={decided} />;
    case "route":
      return (
        <Divider row={row} what={`${event.from} → ${event.to || texts.between.nobody}`} failed={event.failed !== undefined} why>
          {routed(event)}
          {event.failed !== undefined && `: ${words(event.failed.message).text}`}
        </Divider>
      );
    case "handoff_status":
      return (
        <Divider row={row} what={texts.between.person(event.status)} why>
          {[
            words(event.reason).text,
            event.targetAgent,
            event.queuePosition && texts.between.place(event.queuePosition),
            event.estimatedWaitTime && texts.between.about(span(event.estimatedWaitTime * 1000)),
          ]
            .filter(Boolean)
            .join(" · ")}
        </Divider>
      );
    case "compaction":
      return <Compaction event={event} />;
    case "file":
      return (
        <div class="note">
          <span class="fact soft">{texts.between.made(visible(event.agent ?? ""))}</span>
          <Made session={open.value} file={event} />
        </div>
      );
    case "notice":
    case "discard":
      return (
        <p class="note fact soft" dir="auto">
          {event.type === "discard" && `${texts.between.discarded} `}
          {visible(words(event.message).text)} <span class="code">{visible(event.code)}</span>
        </p>
      );
  }
}

function Transfer({ row, event, decided }: { readonly row: BetweenRow; readonly event: Event<"transfer">; readonly decided: Event<"route"> | undefined }): JSX.Element {
  const refused = event.outcome !== "committed";
  return (
    <Divider row={row} what={`${event.from} ${refused ? "✗" : "→"} ${event.to}`} failed={refused} why>
      {[refused && texts.between.outcomes[event.outcome], event.transferType === "refused" && texts.between.back, decided && routed(decided), words(event.reason).text !== words(decided?.reason).text && words(event.reason).text]
        .filter(Boolean)
        .join(" · ")}
    </Divider>
  );
}


/** How a router came to its decision. */
function routed(event: Event<"route">): string {
  return [
    (event.ruleIndex !== null || words(event.reason).text === "") && texts.between.rule(event.ruleIndex),
    event.intentLabel && `${event.intentLabel}${event.intentConfidence === undefined ? "" : ` ${percent(event.intentConfidence)}`}`,
    event.latencyMs > 0 && span(event.latencyMs),
    words(event.reason).text,
  ]
    .filter(Boolean)
    .join(", ");
}

interface DividerProps {
  readonly row: BetweenRow;
  readonly what: string;
  readonly failed?: boolean;
  readonly why?: boolean;
  readonly children: ComponentChildren;
}

function Divider({ row, what, failed = false, why = false, children }: DividerProps): JSX.Element {
  const here = selectionOf(row);
  return (
    <div class="divider">
      <button class={failed ? "divider-what failed" : "divider-what"} data-select dir="auto" onClick={() => change(here)}>
        {visible(what)}
      </button>
      <span class="divider-why soft" dir="auto">
        {typeof children === "string" ? visible(children) : children}
      </span>
      {why && (
        <Link to={{ ...(route.value as SessionRoute), ...here }} class="talk-do">
          {texts.talk.why}
        </Link>
      )}
    </div>
  );
}

function Compaction({ event }: { readonly event: Event<"compaction"> }): JSX.Element {
  const { text, clip } = words(event.summary);
  const session = open.value;
  const whole = session === undefined ? undefined : wholeEvent(session, event.seq!);
  return (
    <div class="note">
      <Fold
        id={`compaction:${event.seq}`}
        summary={
          <span class="fact soft">
            {texts.between.summary(visible(event.agent ?? ""), event.upTo + 1)}
          </span>
        }
      >
        {() => (
          <>
            <AsIs text={whole?.type === "compaction" ? words(whole.summary).text : text || texts.between.leftOut} />
            {clip !== undefined && whole === undefined && session !== undefined && <ShowAll session={session} seqs={[event.seq!]} size={clip.bytes} />}
          </>
        )}
      </Fold>
    </div>
  );
}
