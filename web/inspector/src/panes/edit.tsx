// Another text in place of a message of the user: it makes a branch.
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { branch, once } from "../state/actions.js";
import { words } from "../state/events.js";
import type { OpenSession } from "../state/open.js";
import type { Event } from "../state/talk.js";
import { texts } from "../texts.js";
import { loadWhole, wholeEvent } from "../state/whole.js";

interface Props {
  readonly session: OpenSession;
  readonly event: Event<"user">;
  readonly close: () => void;
}

export function EditWords({ session, event, close }: Props): JSX.Element {
  const seq = event.seq!;
  const parts = typeof event.content === "string" ? undefined : event.content;
  const whole = wholeEvent(session, seq);
  const needed = parts !== undefined || session.stored.value.clips.has(seq);
  const [text, write] = useState<string>();
  const [sending, send] = useState(false);
  const key = useRef({ text: "", key: "" });
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (needed && whole === undefined) void loadWhole(session, [seq]);
    else field.current?.focus();
  }, [needed, whole === undefined]);
  if (needed && whole?.type !== "user") return <p class="soft">{texts.edits.loading}</p>;
  const old = (whole?.type === "user" ? whole : event).content;
  const now = text ?? (typeof old === "string" ? old : textOf(old as readonly Schemas["Part"][]));
  const submit = async (): Promise<void> => {
    if (sending || now.trim() === "") return;
    if (key.current.key === "" || key.current.text !== now) key.current = { text: now, key: once() };
    send(true);
    const rest = Array.isArray(old) ? (old as Schemas["Part"][]).filter((p) => p.type !== "text") : [];
    const done = await branch(session, seq, rest.length === 0 ? now : [{ type: "text", text: now }, ...rest], key.current.key);
    send(false);
    if (done) close();
  };
  const keys = (e: KeyboardEvent): void => {
    if (e.key !== "Escape") return;
    close();
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <form
      class="edit-words"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <textarea ref={field} class="field" rows={3} aria-label={texts.edits.text} dir="auto" value={now} onInput={(e) => write(e.currentTarget.value)} onKeyDown={keys} />
      <div class="edit-foot">
        <button class="button main" disabled={sending || now.trim() === ""}>
          {texts.edits.say}
        </button>
        <button type="button" class="button" onClick={close}>
          {texts.cancel}
        </button>
        <span class="fact soft">{texts.edits.what}</span>
      </div>
    </form>
  );
}

function textOf(parts: readonly Schemas["Part"][]): string {
  return parts.filter((p) => p.type === "text").map((p) => words(p.text ?? undefined).text).join("\n");
}
