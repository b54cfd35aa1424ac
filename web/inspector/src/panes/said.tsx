// One message of the conversation: what the user said, or an answer of an agent with its calls.
import type { ViewNode } from "@agentarbor/conversation";
import type { ComponentChildren, JSX } from "preact";
import { may } from "../state/app.js";
import { type LogEvent, words } from "../state/events.js";
import type { Parting } from "../state/family.js";
import type { OpenSession } from "../state/open.js";
import { type Selection, type SessionRoute, type Tab, change, route } from "../state/route.js";
import { type Event, type Row, callsOf, measure } from "../state/talk.js";
import { texts } from "../texts.js";
import { clock, span } from "../ui/amount.js";
import { Fold } from "../ui/fold.js";
import { Icon } from "../ui/icons.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { Media } from "../ui/media.js";
import { oneLine, visible } from "../ui/visible.js";
import { Branches, Call } from "./calls.js";
import { EditWords } from "./edit.js";
import { Clipped, Long } from "./long.js";
import { Alternatives, Relatives } from "./picker.js";

export type SaidRow = Extract<Row, { kind: "said" }>;

interface Props {
  readonly session: OpenSession;
  readonly row: SaidRow;
  readonly parting?: Parting | undefined;
  readonly editing?: boolean;
  /** Called with the key of the row that is edited, "" for none. */
  readonly edit?: (key: string) => void;
  readonly depth?: number;
  /** Whether its block can be folded. */
  readonly folds?: boolean;
}

export function Said(props: Props): JSX.Element {
  return props.row.view.role === "user" ? <User {...props} /> : <Answer {...props} />;
}

/** What is selected with a message, and the tab that explains it best. */
export function selectionOf(row: Row): { readonly sel: Selection; readonly tab: Tab } {
  if (row.kind === "said") {
    const sel: Selection = row.seq === undefined ? { kind: "run", id: row.view.runId } : { kind: "ev", seq: row.seq };
    return { sel, tab: row.view.role === "user" ? "if" : "seen" };
  }
  return { sel: { kind: "ev", seq: row.seq! }, tab: "why" };
}

/** The text of an agent that was stopped, which the log does not have. */
export function Unkept({ row }: { readonly row: Extract<Row, { kind: "unkept" }> }): JSX.Element {
  return (
    <>
      <div class="talk-head">
        <h3>
          <button class="talk-name" data-select onClick={() => change(selectionOf(row))}>
            <Mark agent={row.agent} active={false} /> <bdi>{visible(row.agent)}</bdi>
          </button>
        </h3>
        <NotKept />
      </div>
      <div class="talk-body unkept" dir="auto">
        {visible(row.text)}
      </div>
    </>
  );
}

function NotKept(): JSX.Element {
  return <p class="fact asked">{texts.talk.stopped}</p>;
}

function User({ session, row, parting, editing = false, edit }: Props): JSX.Element {
  const { view, seq } = row;
  const event = seq === undefined ? undefined : (session.stored.value.event(seq) as Event<"user"> | undefined);
  return (
    <>
      <Head session={session} row={row} mark={<span class="talk-you">{route.value.user === undefined ? texts.you : texts.talk.userMark}</span>} facts={clock(event?.time)} parting={parting}>
        {seq !== undefined && edit !== undefined && (
          <button class="talk-do" onClick={() => edit(editing ? "" : row.key)}>
            <Icon name="edit" /> {texts.talk.editIt}
          </button>
        )}
      </Head>
      <div class="talk-body">
        {editing && event !== undefined && edit !== undefined ? (
          <EditWords session={session} event={event} close={() => edit("")} />
        ) : Array.isArray(event?.content) ? (
          event.content.map((part, i) =>
            part.type === "text" ? (
              <Clipped key={i} session={session} seq={seq!} plain text={words(part.text).text} clip={words(part.text).clip} whole={(e) => partOf(e, i)} />
            ) : (
              <Media
                key={i}
                name={part.name ?? `${part.type} ${i + 1}`}
                type={part.mediaType ?? part.type}
                {...(typeof part.data === "object" && { size: part.data.bytes, from: `${session.path}/events/${seq}/media/${i}` })}
                {...(part.url !== undefined && { url: part.url })}
                user={session.key.user}
              />
            ),
          )
        ) : (
          <Clipped session={session} seq={seq} plain text={view.text ?? ""} clip={session.stored.value.clips.get(seq ?? 0)} whole={textOf} />
        )}
      </div>
    </>
  );
}

function partOf(event: LogEvent, i: number): string {
  const content = event.type === "user" ? event.content : undefined;
  return Array.isArray(content) ? words(content[i]?.text).text : "";
}

function textOf(event: LogEvent): string {
  if (event.type === "text" || event.type === "reasoning") return words(event.content).text;
  return event.type === "user" && typeof event.content === "string" ? event.content : "";
}

function Answer({ session, row, parting, depth = 0, folds = false }: Props): JSX.Element {
  const { view, next } = row;
  // Deltas change only what is not complete.
  const facts = session.facts.value;
  const log = session.stored.value;
  const moment = view.status === "complete" ? session.moment.peek() : session.moment.value;
  const took = measure(moment.graph, view, next);
  const cut = session.state.value === "cut_off";
  const streaming = view.status === "streaming" && !session.inPast.value;
  const growing = streaming && !cut;
  const calls = callsOf(log, moment, view);
  const agent = view.agent ?? "";
  const active = agent === facts.active && facts.turn !== "over" && view.status === "streaming";
  const amounts = [
    ...(took.ms === undefined ? [] : [span(took.ms)]),
    ...(took.tokens === undefined ? [] : [texts.talk.tokens(took.tokens)]),
    ...(growing ? [view.text === undefined && calls.length === 0 ? texts.talk.asked : texts.talk.answers] : []),
  ].join(" · ");
  const name = (
    <>
      <Mark agent={agent} active={active} /> <bdi>{visible(agent)}</bdi>
    </>
  );
  const fold = folds && row.begins && <FoldBlock session={session} row={row} />;
  if (row.folded !== undefined) return <Head session={session} row={row} mark={name} fold={fold} parting={parting} />;
  return (
    <>
      <Head session={session} row={row} mark={row.named ? name : <span class="hidden-words">{visible(agent)}</span>} fold={fold} facts={amounts} parting={parting} />
      {streaming && cut && view.text !== undefined && <NotKept />}
      <div class={streaming && cut ? "talk-body unkept" : "talk-body"} aria-busy={growing}>
        {view.reasoning !== undefined && (
          <Fold id={`thought:${view.id}`} class="talk-thought" summary={<>{texts.talk.thought} <span class="soft">{oneLine(visible(view.reasoning), 72)}</span></>}>
            {() => <Long session={session} seqs={took.thoughts} text={view.reasoning!} plain />}
          </Fold>
        )}
        {view.text !== undefined && <Long session={session} seqs={took.words} text={view.text} growing={growing} />}
        {calls.map((call) => (
          <Call key={call.id} session={session} call={call} depth={depth} />
        ))}
        {view.branches !== undefined && <Branches session={session} id={view.id} branches={view.branches} depth={depth} />}
        {view.status === "error" && <p class="failed">✗ {visible(view.error ?? texts.talk.itFailed)}</p>}
      </div>
    </>
  );
}

/** Folds the block that a row begins to this row, with a line of what it holds, and unfolds it. */
function FoldBlock({ session, row }: { readonly session: OpenSession; readonly row: SaidRow }): JSX.Element {
  const { runId, agent = texts.talk.agent } = row.view;
  const toggle = (): void => {
    const folded = new Set(session.folded.value);
    if (!folded.delete(runId)) folded.add(runId);
    session.folded.value = folded;
  };
  return (
    <button class="talk-do talk-fold" aria-expanded={row.folded === undefined} onClick={toggle}>
      <Icon name={row.folded === undefined ? "down" : "right"} />
      <span class="hidden-words">{texts.talk.part(visible(agent))}</span>
      {row.folded !== undefined && <InShort session={session} views={row.folded} />}
    </button>
  );
}

function InShort({ session, views }: { readonly session: OpenSession; readonly views: readonly ViewNode[] }): JSX.Element {
  const calls = views.flatMap((view) => callsOf(session.stored.value, session.moment.value, view)).length;
  const { status } = views.at(-1)!;
  const words = views.findLast((view) => view.text !== undefined)?.text ?? "";
  return (
    <>
      <span class="talk-in-short" dir="auto">
        {oneLine(visible(words), 160)}
      </span>{" "}
      <span class="fact">
        {texts.talk.inShort(views.length, calls)}
        {status === "streaming" && !session.inPast.value && ` · ${texts.talk.answers}`}
        {status === "error" && <span class="failed"> · ✗ {texts.talk.failed}</span>}
      </span>
    </>
  );
}

interface HeadProps {
  readonly session: OpenSession;
  readonly row: SaidRow;
  readonly mark: ComponentChildren;
  readonly fold?: ComponentChildren;
  /** Undefined if the row is a folded block, which shows no more. */
  readonly facts?: string;
  readonly parting: Parting | undefined;
  readonly children?: ComponentChildren;
}

function Head({ session, row, mark, fold, facts, parting, children }: HeadProps): JSX.Element {
  const here = selectionOf(row);
  const now = route.value as SessionRoute;
  const link = (tab: Tab, title: string, label = title): JSX.Element => (
    <Link to={{ ...now, sel: here.sel, tab }} class="talk-do" label={label}>
      {title}
    </Link>
  );
  return (
    <div class="talk-head">
      <h3>
        <button class="talk-name" data-select onClick={() => change(here)}>
          {mark}
        </button>
      </h3>
      {fold}
      {facts !== undefined && (
        <>
          <span class="fact soft">{facts}</span>
          <span class="talk-links fact">
            {children}
            {row.view.role === "assistant" && link("why", texts.talk.why)}
            {row.view.role === "assistant" && may("inspect") && link("seen", texts.session.tabs.seen, texts.talk.seenBy(visible(row.view.agent ?? "")))}
          </span>
        </>
      )}
      {parting !== undefined ? <Relatives parting={parting} /> : <Alternatives session={session} view={row.view} />}
    </div>
  );
}
