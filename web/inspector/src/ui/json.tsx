import "./json.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { texts } from "../texts.js";
import { visible } from "./visible.js";

/** How many members are shown at first, and how many more with each click. */
const few = 40;
/** How many elements a value may need before its inner values are folded. */
const roomy = 60;
/** How many letters of a text are shown before it is folded. */
const long = 400;

/** A JSON value that can be folded. It is shown as text, whatever it contains. */
export function Json({ value, label }: { readonly value: unknown; readonly label?: string }): JSX.Element {
  return (
    <div class="json code" role="group" aria-label={label ?? "JSON"}>
      <Value value={value} open depth={0} />
    </div>
  );
}

function Value({ name, value, open, depth }: { readonly name?: string; readonly value: unknown; readonly open: boolean; readonly depth: number }): JSX.Element {
  if (value !== null && typeof value === "object") return <Group name={name} value={value} open={open} depth={depth} />;
  return (
    <div class="json-row">
      <Name name={name} />
      {typeof value === "string" ? <Text text={value} /> : <span class="json-plain">{String(value)}</span>}
    </div>
  );
}

function Name({ name }: { readonly name: string | undefined }): JSX.Element | null {
  return name === undefined ? null : <span class="json-name">{name}: </span>;
}

function Group({ name, value, open, depth }: { readonly name: string | undefined; readonly value: object; readonly open: boolean; readonly depth: number }): JSX.Element {
  const array = Array.isArray(value);
  const size = array ? value.length : Object.keys(value).length;
  const [shown, show] = useState(open && size > 0);
  const [limit, more] = useState(few);
  const [left, right] = array ? ["[", "]"] : ["{", "}"];
  if (size === 0) {
    return (
      <div class="json-row">
        <Name name={name} />
        {left + right}
      </div>
    );
  }
  const members = array ? value.slice(0, limit).map((v, i) => [String(i), v] as const) : Object.entries(value).slice(0, limit);
  return (
    <div>
      <button class="json-fold" aria-expanded={shown} onClick={() => show(!shown)}>
        <span aria-hidden="true">{shown ? "▾" : "▸"}</span> <Name name={name} />
        {shown ? left : `${left} ${texts.pieces.inside(size, array)} ${right}`}
      </button>
      {shown && (
        <div class="json-inner">
          {members.map(([key, v]) => (
            <Value key={key} {...(array ? {} : { name: key })} value={v} open={depth < 2 && elements(v) <= roomy} depth={depth + 1} />
          ))}
          {size > limit && (
            <button class="talk-do" onClick={() => more(limit + 5 * few)}>
              {texts.pieces.more(size - limit)}
            </button>
          )}
        </div>
      )}
      {shown && <div class="json-row">{right}</div>}
    </div>
  );
}

/** About how many values a value has inside; it stops counting when it is many. */
function elements(value: unknown): number {
  if (value === null || typeof value !== "object") return 1;
  let n = 1;
  for (const inner of Object.values(value)) if ((n += elements(inner)) > roomy) break;
  return n;
}

/** A text of JSON, which is folded if it is long. */
function Text({ text }: { readonly text: string }): JSX.Element {
  return (
    <span class="json-text">
      "<Folded text={text} />"
    </span>
  );
}

/** Words of which the beginning is shown if they are many. */
export function Folded({ text, most = long }: { readonly text: string; readonly most?: number }): JSX.Element {
  const [whole, show] = useState(false);
  if (text.length <= most + 40) return <>{visible(text)}</>;
  return (
    <>
      {visible(whole ? text : `${text.slice(0, most)}…`)}{" "}
      <button class="talk-do" aria-expanded={whole} onClick={() => show(!whole)}>
        {whole ? texts.pieces.less : texts.pieces.all(text.length)}
      </button>
    </>
  );
}
