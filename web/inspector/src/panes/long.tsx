// Words of which only the beginning was sent, and the way to all of them.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Clip, LogEvent } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import { loadWhole, wholeEvent } from "../state/whole.js";
import { texts } from "../texts.js";
import { bytes } from "../ui/amount.js";
import { AsIs, More, Words } from "../ui/words.js";

interface ClippedProps {
  readonly session: OpenSession;
  readonly seq: number | undefined;
  readonly text: string;
  readonly clip: Clip | undefined;
  /** The words of the whole event. */
  readonly whole: (event: LogEvent) => string;
  readonly plain?: boolean;
  readonly growing?: boolean;
}

/** Words of one event. */
export function Clipped({ session, seq, text, clip, whole, plain = false, growing = false }: ClippedProps): JSX.Element {
  const event = seq === undefined ? undefined : wholeEvent(session, seq);
  const shown = event === undefined ? text : whole(event);
  return (
    <>
      {plain ? <AsIs text={shown} /> : <Words text={shown} growing={growing} />}
      {clip !== undefined && event === undefined && <ShowAll session={session} seqs={[seq!]} size={clip.bytes} />}
    </>
  );
}

interface LongProps {
  readonly session: OpenSession;
  /** The events of the words, in their order. */
  readonly seqs: readonly number[];
  readonly text: string;
  readonly plain?: boolean;
  readonly growing?: boolean;
}

/** Words of an answer, which several events can have. */
export function Long({ session, seqs, text, plain = false, growing = false }: LongProps): JSX.Element {
  const log = session.stored.value;
  const cut = seqs.filter((seq) => log.clips.has(seq) && wholeEvent(session, seq) === undefined);
  const all = seqs.some((seq) => wholeEvent(session, seq) !== undefined);
  const shown = all ? seqs.map((seq) => said(wholeEvent(session, seq) ?? log.event(seq))).join("") : text;
  return (
    <>
      {plain ? <AsIs text={shown} /> : <Words text={shown} growing={growing} />}
      {cut.length > 0 && <ShowAll session={session} seqs={cut} size={cut.reduce((sum, seq) => sum + log.clips.get(seq)!.bytes, 0)} />}
    </>
  );
}

function said(event: LogEvent | undefined): string {
  return (event?.type === "text" || event?.type === "reasoning") && typeof event.content === "string" ? event.content : "";
}

export function ShowAll({ session, seqs, size }: { readonly session: OpenSession; readonly seqs: readonly number[]; readonly size: number }): JSX.Element {
  const [asked, ask] = useState(false);
  const load = (): void => {
    ask(true);
    void loadWhole(session, seqs).then(() => ask(false));
  };
  return (
    <p class="fact soft">
      {asked ? texts.frame.loading : <>{texts.talk.clipped} <More onClick={load}>{texts.talk.showAll(bytes(size))}</More></>}
    </p>
  );
}
