import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Schemas, get } from "../net/api.js";
import { branch } from "../state/actions.js";
import { attempt } from "../state/app.js";
import type { OpenSession } from "../state/open.js";

/** Says something else in place of what the user said, in a fork that shares all that was before. */
export function EditWords({ session, seq, close }: { readonly session: OpenSession; readonly seq: number; readonly close: () => void }): JSX.Element {
  const [text, set] = useState<string | undefined>(undefined);
  const [sending, send] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // Asked of the server, because long words are cut in the page.
    void attempt(() => get<Schemas["UserEvent"]>(`${session.path}/events/${seq}`, { query: { ...session.query, media: "omit" } })).then((event) => {
      if (event === undefined) close();
      else set(textOf(event.content));
    });
  }, [seq]);
  useEffect(() => field.current?.focus(), [text === undefined]);
  const submit = async (): Promise<void> => {
    if (text === undefined || text.trim() === "" || sending) return;
    send(true);
    await branch(session, seq, text);
    send(false);
    close();
  };
  return (
    <form
      class="slider-edit"
      aria-label="Say something else"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
      onKeyDown={(e) => {
        if (e.key === "Escape") {
          e.stopPropagation();
          close();
        } else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void submit();
      }}
    >
      <label>
        In place of event {seq}, in a fork
        <textarea ref={field} class="field" rows={3} disabled={text === undefined} value={text ?? ""} onInput={(e) => set(e.currentTarget.value)} />
      </label>
      <div class="slider-edit-does">
        <button class="button main" disabled={sending || !text?.trim()}>
          Fork with these words
        </button>
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function textOf(content: Schemas["UserEvent"]["content"]): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? (content as readonly { readonly type?: string; readonly text?: unknown }[]) : [];
  return parts.flatMap((p) => (p.type === "text" && typeof p.text === "string" ? [p.text] : [])).join("\n");
}
