// The instructions in an agent's file, edited in the workshop of a server: what changes is shown before it is written.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Schemas, get, path, send } from "../net/api.js";
import { lines } from "../state/align.js";
import { count, counted } from "../ui/amount.js";
import { visible } from "../ui/visible.js";

type Body = Schemas["Body"];

interface Draft {
  readonly agent: string;
  readonly body: Body;
  readonly text: string;
}

/** What is being edited, which outlasts that the tree is loaded anew, and what came of it. */
const draft = signal<Draft | undefined>(undefined);
const told = signal<{ readonly agent: string; readonly text: string; readonly failed: boolean } | undefined>(undefined);
const busy = signal(false);

/** Says of an agent what came of an action, and returns nothing if it failed. */
async function ask<T>(agent: string, file: string, what: () => Promise<T>): Promise<T | undefined> {
  if (busy.value) return undefined;
  busy.value = true;
  told.value = undefined;
  try {
    return await what();
  } catch (error) {
    const moved = error instanceof ApiError && error.code === "file_changed";
    const text = moved ? `${file} has changed since it was read. Read it again to see what is different. Your text stays.` : error instanceof Error ? error.message : String(error);
    told.value = { agent, text, failed: true };
    return undefined;
  } finally {
    busy.value = false;
  }
}

interface Props {
  readonly agent: string;
  readonly file: string;
}

export function EditBody({ agent, file }: Props): JSX.Element {
  const of = path("agents", agent, "body");
  const mine = draft.value?.agent === agent ? draft.value : undefined;
  const says = told.value?.agent === agent ? told.value : undefined;
  const open = async (text?: string): Promise<void> => {
    const body = await ask(agent, file, () => get<Body>(of));
    if (body !== undefined) draft.value = { agent, body, text: text ?? body.text };
  };
  const save = async ({ text, body: { version } }: Draft): Promise<void> => {
    const done = await ask(agent, file, () => send(of, { method: "PUT", body: { text, version } }));
    if (done === undefined) return;
    draft.value = undefined;
    told.value = { agent, text: `Saved in ${file}.`, failed: false };
  };
  return (
    <section class="edit-body" aria-label="Edit the instructions">
      {mine === undefined ? (
        <p class="d-ask">
          <button class="button" aria-disabled={busy.value} onClick={() => void open()}>
            Edit the instructions
          </button>
        </p>
      ) : (
        <Editor draft={mine} file={file} again={() => void open(mine.text)} save={() => void save(mine)} />
      )}
      <div aria-live="polite">{says !== undefined && <p class={says.failed ? "failed" : "soft fact"}>{visible(says.text)}</p>}</div>
    </section>
  );
}

interface EditorProps {
  readonly draft: Draft;
  readonly file: string;
  readonly again: () => void;
  readonly save: () => void;
}

function Editor({ draft: { agent, body, text }, file, again, save }: EditorProps): JSX.Element {
  /** The text and the version whose difference is shown, which alone is saved. */
  const [shown, show] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const same = text === body.text;
  const these = body.version + text;
  return (
    <form
      class="fields"
      onSubmit={(e) => {
        e.preventDefault();
        if (same || busy.value) return;
        if (shown === these) save();
        else show(these);
      }}
    >
      <label class="fields-one">
        <span class="fact">
          Instructions in <span class="code">{visible(file)}</span>
        </span>
        <textarea ref={field} class="field" rows={12} dir="auto" value={text} onInput={(e) => (draft.value = { agent, body, text: e.currentTarget.value })} />
      </label>
      <div aria-live="polite">{shown === these && !same && <Changes old={body.text} text={text} />}</div>
      <p class="d-ask">
        <button class="button main" aria-disabled={same || busy.value}>
          {busy.value ? "Working…" : shown === these && !same ? "Save in the file" : "Show what changes"}
        </button>
        <button type="button" class="button" onClick={again}>
          Read the file again
        </button>
        <button
          type="button"
          class="button"
          onClick={() => {
            draft.value = undefined;
            told.value = undefined;
          }}
        >
          Cancel
        </button>
      </p>
    </form>
  );
}

/** How many lines of the same text are shown around a change. */
const around = 2;

function Changes({ old, text }: { readonly old: string; readonly text: string }): JSX.Element {
  const rows = lines(old, text);
  const near = rows.map((_, i) => rows.slice(Math.max(0, i - around), i + around + 1).some((r) => r.sign !== "="));
  const [goes, comes] = [rows.filter((r) => r.b === undefined).length, rows.filter((r) => r.a === undefined).length];
  return (
    <>
      <p class="fact">
        {counted(goes, "line")} removed, {count(comes)} added
      </p>
      <div class="edit-body-changes code" role="region" aria-label="What changes in the file" tabIndex={0}>
        {rows.map((row, i) =>
          !near[i] ? (
            near[i - 1] !== false && (
              <p key={i} class="soft">
                …
              </p>
            )
          ) : row.sign === "=" ? (
            <p key={i} class="soft">{`  ${visible(row.a!.same)}`}</p>
          ) : row.b === undefined ? (
            <del key={i}>{`− ${visible(row.a!.same)}`}</del>
          ) : (
            <ins key={i}>{`+ ${visible(row.b.same)}`}</ins>
          ),
        )}
      </div>
    </>
  );
}
