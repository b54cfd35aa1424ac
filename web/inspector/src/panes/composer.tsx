// The field in which the user writes to a session, with buttons that stop or resume its turn.
import "./composer.css";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { branchAndSay, control, say, sayAgain } from "../state/actions.js";
import { mayWrite } from "../state/app.js";
import { checkpointAt } from "../state/checkpoint.js";
import { draftOf } from "../state/draft.js";
import type { OpenSession } from "../state/open.js";
import { texts } from "../texts.js";
import { bytes } from "../ui/amount.js";
import { Icon } from "../ui/icons.js";
import { useKeys } from "../ui/keys.js";
import { pictures } from "../ui/media.js";
import { visible } from "../ui/visible.js";

/** A longer pasted text becomes an attachment next to the field. In characters. */
const long = 10_000;

export function Composer({ session }: { readonly session: OpenSession }): JSX.Element {
  const draft = draftOf(session);
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const facts = session.facts.value;
  const past = session.inPast.value;
  const state = session.state.value;
  const at = past ? checkpointAt(session.stored.value, facts.seq) : 0;
  const sending = draft.sending.value;
  const busy = !past && state === "running";
  const mine = mayWrite(session.key.user);
  const live = session.phase.value !== "ended" && session.phase.value !== "failed" && session.phase.value !== "loading";
  const able = mine && live && !sending && !draft.empty;
  const send = (): void => {
    if (!able) return;
    if (busy) draft.waits.value = true;
    else void draft.send((content, key) => (past ? branchAndSay(session, at, content, key) : say(session, content, key)));
  };
  const waits = draft.waits.value;
  useEffect(() => {
    if (!waits || busy || past) return;
    // A turn that asks, or was cut off, is not over: what was written waits for its writer.
    if (state === "done" || state === "failed" || state === "canceled") send();
    else draft.waits.value = false;
  }, [waits, busy, past, state]);
  const turn = (what: "stop" | "resume" | "cancel") => (): void => void control(session, facts.turnId, what);
  const keysOfWriter = {
    c: [texts.composer.write, () => field.current?.focus()],
    "mod+Enter": [texts.composer.send, send],
    "mod+.": [texts.composer.stop, () => (busy ? turn("stop")() : false)],
  } as const;
  useKeys(mine ? keysOfWriter : {});
  if (!mine) return <p class="composer composer-note soft">{texts.composer.noRight}</p>;
  const keys = (e: KeyboardEvent): void => {
    if (e.key === "Escape") return field.current?.blur();
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    e.stopPropagation();
    send();
  };
  const paste = (e: ClipboardEvent): void => {
    const pasted = [...(e.clipboardData?.files ?? [])];
    const text = e.clipboardData?.getData("text/plain") ?? "";
    if (pasted.length === 0 && text.length <= long) return;
    e.preventDefault();
    if (pasted.length > 0) void draft.attach(pasted);
    else draft.attachText(text);
  };
  const drop = (e: DragEvent): void => {
    setOver(false);
    const text = e.dataTransfer?.getData("text/plain") ?? "";
    if (e.dataTransfer?.files.length === 0 && text.length <= long) return;
    e.preventDefault();
    if (e.dataTransfer?.files.length === 0) draft.attachText(text);
    else void draft.attach([...(e.dataTransfer?.files ?? [])]);
  };
  const whom = past ? texts.composer.forkAnd(at) : texts.composer.to(facts.active);
  return (
    <form
      class="composer"
      data-over={over}
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
      onDragOver={(e) => {
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <Note session={session} past={past} busy={busy} at={at} />
      {draft.lost.value !== "" && (
        <p class="composer-note fact asked" role="status">
          {texts.composer.notKept(visible(draft.lost.value))}
        </p>
      )}
      {draft.attached.value.length > 0 && (
        <ul class="composer-files" aria-label={texts.composer.attached}>
          {draft.attached.value.map(({ part, name, size }, i) => (
            <li key={i} class="fact">
              {pictures.includes(part.mediaType ?? "") && <img src={`data:${part.mediaType};base64,${part.data}`} alt={visible(name)} />}
              <bdi>{visible(name)}</bdi> <span class="soft">{bytes(size)}</span>
              <button type="button" class="talk-do" aria-label={texts.composer.remove(name)} onClick={() => draft.remove(i)}>
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="composer-line">
        <textarea
          ref={field}
          class="field"
          rows={1}
          dir="auto"
          aria-label={past ? texts.composer.forkHere : whom}
          placeholder={`${visible(whom)}…`}
          value={draft.text.value}
          onInput={(e) => draft.write(e.currentTarget.value)}
          onKeyDown={keys}
          onPaste={paste}
        />
        <input
          ref={files}
          type="file"
          multiple
          class="hidden-words"
          tabIndex={-1}
          aria-label={texts.composer.files}
          onChange={(e) => {
            void draft.attach([...(e.currentTarget.files ?? [])]);
            e.currentTarget.value = "";
          }}
        />
        <button type="button" class="button plain" aria-label={texts.composer.attach} onClick={() => files.current?.click()}>
          <Icon name="attach" />
        </button>
        {busy ? (
          <button type="button" class="button" onClick={turn("stop")}>
            <Icon name="stop" /> {texts.composer.stop}
          </button>
        ) : (
          <button class="button main" disabled={!able}>
            {past ? (
              <>
                <Icon name="fork" /> {texts.composer.forkSay}
              </>
            ) : (
              <>
                <Icon name="send" /> {texts.composer.send}
              </>
            )}
          </button>
        )}
      </div>
    </form>
  );
}

interface NoteProps {
  readonly session: OpenSession;
  readonly past: boolean;
  readonly busy: boolean;
  readonly at: number;
}

/** One sentence about what writing does now, with what else can be done. */
function Note({ session, past, busy, at }: NoteProps): JSX.Element | null {
  const facts = session.facts.value;
  const state = session.state.value;
  const turn = (what: "resume" | "cancel") => (): void => void control(session, facts.turnId, what);
  if (past) {
    return (
      <p class="composer-note fact soft">
        {texts.composer.past(at, at !== facts.seq)}
      </p>
    );
  }
  if (session.phase.value === "lost") return <p class="composer-note fact asked">{texts.composer.lost}</p>;
  if (busy) {
    const who = visible(facts.active || texts.composer.agent);
    return (
      <p class="composer-note fact soft">
        {draftOf(session).waits.value ? texts.composer.waits(who) : texts.composer.busy(who)}
      </p>
    );
  }
  if (state === "cut_off") {
    return (
      <div class="composer-note fact asked">
        {texts.composer.cut}
        <button type="button" class="button" onClick={turn("resume")}>
          {texts.composer.resume}
        </button>
        <button type="button" class="button" onClick={turn("cancel")}>
          {texts.composer.cancelTurn}
        </button>
      </div>
    );
  }
  if (state === "failed") {
    return (
      <div class="composer-note fact failed">
        {texts.composer.failed}
        <button type="button" class="button" onClick={() => void sayAgain(session)}>
          {texts.composer.again}
        </button>
        <span class="soft">{texts.composer.sendsAgain}</span>
      </div>
    );
  }
  if (state === "waiting") {
    const { length } = facts.questions;
    return (
      <div class="composer-note fact asked">
        {length === 0 ? texts.composer.elsewhere : texts.composer.asked}
        <button type="button" class="button" onClick={turn("cancel")}>
          {texts.composer.cancelTurn}
        </button>
      </div>
    );
  }
  return null;
}
