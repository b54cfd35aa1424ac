import "./request.css";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { type Difference, type Message, type Request, noteOf, said, split } from "../state/compare.js";
import { texts } from "../texts-behind.js";
import { Copy } from "./copy.js";
import { Folded, Json } from "./json.js";

/** How many messages are shown at once. */
const page = 60;

interface Props {
  readonly request: Request;
  /** The agent's last request, and what is new since, if there was one. */
  readonly before?: Request | undefined;
  readonly since?: Difference | undefined;
  /** The users' messages, word for word, to mark what was changed for the model. */
  readonly words?: ReadonlySet<string>;
}

/** A request to a model: what it was shown, what of it is new, and what was left out. */
export function RequestView({ request, before, since, words }: Props): JSX.Element {
  const { system, rest } = split(request);
  const [unfolded, unfold] = useState(false);
  const [older, more] = useState(page);
  const hidden = since === undefined || unfolded ? 0 : since.same;
  const shown = rest.slice(hidden);
  const skipped = Math.max(0, shown.length - older);
  const settings = Object.keys(request.settings).length > 0;
  return (
    <div class="request">
      {system.map((m, i) => (
        <Part key={`s${i}`} sign={since?.system === "changed" ? "≠" : since === undefined ? "" : "="} title={texts.request.system} state={since === undefined ? "" : since.system === "same" ? texts.request.same : texts.request.changed} begins={since?.system === "same" ? said(m) : ""} open={since?.system !== "same"}>
          {since?.system === "changed" && before !== undefined && <Lines now={said(m)} before={split(before).system.map(said).join("\n")} />}
          <Words text={said(m)} most={480} />
        </Part>
      ))}
      {since !== undefined && since.same > 0 && (
        <button class="request-fold" aria-expanded={unfolded} onClick={() => unfold(!unfolded)}>
          <span aria-hidden="true">{unfolded ? "▾" : "▸"}</span> {texts.request.unchanged(since.same)} <Begins text={said(rest[0]!)} />
        </button>
      )}
      {since !== undefined && since.gone > 0 && (
        <p class="request-gone">{texts.request.gone(since.gone)}</p>
      )}
      {skipped > 0 && (
        <button class="request-fold" onClick={() => more(older + 5 * page)}>
          {texts.request.older(skipped)}
        </button>
      )}
      {shown.slice(skipped).map((m, i) => {
        const n = hidden + skipped + i;
        return <MessageView key={n} message={m} fresh={since !== undefined && n >= since.same} words={words} />;
      })}
      <Tools request={request} since={since} />
      {settings && (
        <Part sign={since?.settings ? "≠" : ""} title={texts.request.settings} state={since?.settings ? texts.request.changed : ""} open>
          <Json value={request.settings} label={texts.request.settings} />
        </Part>
      )}
      <div class="request-actions">
        <Copy label={texts.request.json} text={() => JSON.stringify(body(request), null, 2)} />
        <Copy label={texts.request.curl} text={() => curl(request)} />
      </div>
    </div>
  );
}

function body({ model, messages, tools, settings }: Request): unknown {
  return { model, messages, ...(tools.length > 0 && { tools }), ...settings };
}

function curl(request: Request): string {
  const data = JSON.stringify(body(request)).replaceAll("'", "'\\''");
  return `curl "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer $OPENAI_API_KEY" -H "Content-Type: application/json" -d '${data}'`;
}

interface PartProps {
  readonly sign: string;
  readonly title: string;
  readonly state: string;
  readonly note?: string;
  /** What a folded part begins with. */
  readonly begins?: string;
  readonly open?: boolean;
  readonly children: ComponentChildren;
}

function Part({ sign, title, state, note = "", begins = "", open = false, children }: PartProps): JSX.Element {
  return (
    <details class="request-part" data-new={sign === "+"} open={open}>
      <summary>
        {sign !== "" && (
          <span class="request-sign" aria-hidden="true">
            {sign}
          </span>
        )}
        <span class="request-title">{title}</span>
        <span class="soft">{state}</span>
        {note !== "" && <span class="request-note">{note}</span>}
        <Begins text={begins} />
      </summary>
      {children}
    </details>
  );
}

function MessageView({ message, fresh, words }: { readonly message: Message; readonly fresh: boolean; readonly words: ReadonlySet<string> | undefined }): JSX.Element {
  const text = said(message);
  let note = noteOf(message);
  if (note === "" && message.role === "user" && words !== undefined && !words.has(text)) note = texts.request.differs;
  const media = Array.isArray(message.content) && message.content.some((p: { type?: string }) => p.type !== "text");
  return (
    <Part sign={fresh ? "+" : ""} title={message.role} state={fresh ? texts.request.fresh : ""} note={note} open>
      {text !== "" && <Words text={text} />}
      {message.tool_calls?.map(({ id, function: f }) => (
        <p key={id} class="code request-words">
          {f.name}
          <Folded text={f.arguments} />
        </p>
      ))}
      {media && <p class="fact soft">{texts.request.media}</p>}
    </Part>
  );
}

/** The lines that only one of two texts has. */
function Lines({ now, before }: { readonly now: string; readonly before: string }): JSX.Element {
  const [here, there] = [now.split("\n"), before.split("\n")];
  const only = (some: readonly string[], others: readonly string[]): readonly string[] => {
    const known = new Set(others);
    return some.filter((line) => line.trim() !== "" && !known.has(line)).slice(0, 20);
  };
  return (
    <ul class="request-lines" aria-label={texts.request.lines}>
      {only(there, here).map((line, i) => (
        <li key={`-${i}`}>
          <span aria-label={texts.request.lineGone}>−</span> <del>{line}</del>
        </li>
      ))}
      {only(here, there).map((line, i) => (
        <li key={`+${i}`}>
          <span aria-label={texts.request.fresh}>+</span> {line}
        </li>
      ))}
    </ul>
  );
}

function Begins({ text }: { readonly text: string }): JSX.Element | null {
  return text === "" ? null : <span class="request-begins">{text.slice(0, 120)}</span>;
}

function Words({ text, most = 900 }: { readonly text: string; readonly most?: number }): JSX.Element {
  return (
    <p class="request-words">
      <Folded text={text} most={most} />
    </p>
  );
}

function Tools({ request, since }: { readonly request: Request; readonly since: Difference | undefined }): JSX.Element {
  const { tools } = request;
  const changed = since !== undefined && since.newTools.size + since.changedTools.size + since.goneTools.length > 0;
  const [all, show] = useState(false);
  if (tools.length === 0 && !changed) return <p class="fact soft request-gone">{texts.request.noTools}</p>;
  return (
    <Part sign={changed ? "≠" : ""} title={texts.request.tools(tools.length)} state={since === undefined ? "" : changed ? texts.request.changed : texts.request.same} open={since === undefined || changed}>
      {since?.goneTools.map((name) => (
        <p key={name} class="request-gone">
          {texts.request.toolGone(<span class="code">{name}</span>)}
        </p>
      ))}
      {tools.slice(0, all ? 500 : 30).map((tool) => (
        <Tool key={tool.function.name} tool={tool} state={since?.newTools.has(tool.function.name) ? texts.request.fresh : since?.changedTools.has(tool.function.name) ? texts.request.changed : ""} />
      ))}
      {tools.length > 30 && !all && (
        <button class="request-fold" onClick={() => show(true)}>
          {texts.request.moreTools(tools.length - 30)}
        </button>
      )}
    </Part>
  );
}

/** A tool; its description and schema are there when it is opened. */
function Tool({ tool: { function: f }, state }: { readonly tool: Schemas["ChatTool"]; readonly state: string }): JSX.Element {
  const [open, set] = useState(false);
  return (
    <details class="request-tool" open={open} onToggle={(e) => set(e.currentTarget.open)}>
      <summary>
        <span class="code">{f.name}</span> {state !== "" && <span class="request-note">{state}</span>}
      </summary>
      {open && f.description !== undefined && <Words text={f.description} />}
      {open && <Json value={f.parameters ?? {}} label={texts.request.schema(f.name)} />}
    </details>
  );
}
