// The instructions in an agent's file, edited in the workshop of a server: what changes is shown before it is written.
import { computed, effect, signal } from "@preact/signals";
import { Fragment, type JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Schemas, get, path, send } from "../net/api.js";
import { lines } from "../state/align.js";
import { texts } from "../texts-behind.js";
import { Link } from "../ui/link.js";
import { visible } from "../ui/visible.js";

type Body = Schemas["Body"];

interface Draft {
  readonly body: Body;
  readonly text: string;
}

/** What is being edited, by the agent's name. It stays when the reader opens other screens, and when the tree is loaded again. */
const drafts = signal<ReadonlyMap<string, Draft>>(new Map());
/** The agents whose text differs from the file. */
const unsaved = computed(() => [...drafts.value].filter(([, { body, text }]) => text !== body.text).map(([agent]) => agent));
/** What came of the last action. */
const told = signal<{ readonly agent: string; readonly text: string; readonly failed: boolean } | undefined>(undefined);
const busy = signal(false);

function draft(agent: string, one: Draft | undefined): void {
  const next = new Map(drafts.value);
  if (one === undefined) next.delete(agent);
  else next.set(agent, one);
  drafts.value = next;
}

// The browser asks before it closes or reloads a page with a text that is not saved.
effect(() => {
  if (unsaved.value.length === 0) return;
  const ask = (e: BeforeUnloadEvent): void => e.preventDefault();
  window.addEventListener("beforeunload", ask);
  return () => window.removeEventListener("beforeunload", ask);
});

/** Reports the result of an action on an agent, and returns nothing if it failed. */
async function ask<T>(agent: string, file: string, what: () => Promise<T>): Promise<T | undefined> {
  if (busy.value) return undefined;
  busy.value = true;
  told.value = undefined;
  try {
    return await what();
  } catch (error) {
    const moved = error instanceof ApiError && error.code === "file_changed";
    const text = moved ? texts.edit.changed(file) : error instanceof Error ? error.message : String(error);
    told.value = { agent, text, failed: true };
    return undefined;
  } finally {
    busy.value = false;
  }
}

interface Props {
  readonly agent: string;
  readonly file: string;
  /** Whether turns use what is saved only after a restart of the server. */
  readonly restart: boolean;
}

export function EditBody({ agent, file, restart }: Props): JSX.Element {
  const of = path("agents", agent, "body");
  const mine = drafts.value.get(agent);
  const others = unsaved.value.filter((other) => other !== agent);
  const says = told.value?.agent === agent ? told.value : undefined;
  const open = async (): Promise<void> => {
    const body = await ask(agent, file, () => get<Body>(of));
    if (body !== undefined) draft(agent, { body, text: drafts.value.get(agent)?.text ?? body.text });
  };
  const save = async ({ text, body: { version } }: Draft): Promise<void> => {
    const body = await ask(agent, file, async () => (await (await send(of, { method: "PUT", body: { text, version } })).json()) as Body);
    if (body === undefined) return;
    // What was written while the file was saved stays a draft.
    const now = drafts.value.get(agent)?.text ?? text;
    draft(agent, now === text ? undefined : { body, text: now });
    told.value = { agent, text: texts.edit.saved(file, restart), failed: false };
  };
  const cancel = (): void => {
    draft(agent, undefined);
    told.value = undefined;
  };
  return (
    <section class="edit-body" aria-label={texts.edit.name}>
      {mine === undefined ? (
        <p class="d-ask">
          <button class="button" aria-disabled={busy.value} onClick={() => void open()}>
            {texts.edit.begin}
          </button>
        </p>
      ) : (
        <Editor draft={mine} file={file} write={(text) => draft(agent, { ...mine, text })} again={() => void open()} save={() => void save(mine)} cancel={cancel} />
      )}
      <div aria-live="polite">{says !== undefined && <p class={says.failed ? "failed" : "soft fact"}>{visible(says.text)}</p>}</div>
      {others.length > 0 && (
        <p class="fact">
          {texts.edit.unsaved}
          {others.map((other) => (
            <Fragment key={other}>
              {" "}
              <Link to={{ screen: "tree", path: other }}>{visible(other)}</Link>
            </Fragment>
          ))}
        </p>
      )}
    </section>
  );
}

interface EditorProps {
  readonly draft: Draft;
  readonly file: string;
  readonly write: (text: string) => void;
  readonly again: () => void;
  readonly save: () => void;
  readonly cancel: () => void;
}

function Editor({ draft: { body, text }, file, write, again, save, cancel }: EditorProps): JSX.Element {
  /** The text and the version whose difference is shown, which alone is saved. */
  const [shown, show] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
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
          {texts.edit.field(<span class="code">{visible(file)}</span>)}
        </span>
        <textarea ref={field} class="field" rows={12} dir="auto" value={text} onInput={(e) => write(e.currentTarget.value)} />
      </label>
      <div aria-live="polite">{shown === these && !same && <Changes old={body.text} text={text} />}</div>
      <p class="d-ask">
        <button class="button main" aria-disabled={same || busy.value}>
          {busy.value ? texts.edit.working : shown === these && !same ? texts.edit.save : texts.edit.show}
        </button>
        <button type="button" class="button" onClick={again}>
          {texts.edit.again}
        </button>
        <button type="button" class="button" onClick={cancel}>
          {texts.edit.cancel}
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
      <p class="fact">{texts.edit.lines(goes, comes)}</p>
      <div class="edit-body-changes code" role="region" aria-label={texts.edit.changes} tabIndex={0}>
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
