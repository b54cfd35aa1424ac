import "./words.css";
import { signal } from "@preact/signals";
import type { ComponentChildren, ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Copy } from "./copy.js";
import { visible } from "./visible.js";
import { texts } from "../texts.js";

/** Above this length words are shown as they are, since drawing them would hold the page up. */
const longest = 60_000;

interface Drawn {
  readonly text: string;
  /** Whether more of it will come. */
  readonly growing?: boolean;
}

// The part of the page that reads Markdown is loaded when it is first needed.
const markdown = signal<ComponentType<Drawn> | undefined>(undefined);
let asked = false;

function load(): void {
  if (asked) return;
  asked = true;
  import("./markdown.js").then(
    ({ Markdown }) => (markdown.value = Markdown),
    () => (asked = false), // the words are there as they are
  );
}

/** The text of a model or a person, drawn as Markdown: never as HTML, and nothing from other hosts is loaded. */
export function Words({ text, growing = false }: Drawn): JSX.Element {
  useEffect(load, []);
  const Markdown = text.length > longest ? undefined : markdown.value;
  return Markdown === undefined ? <AsIs text={text} /> : <Markdown text={visible(text)} growing={growing} />;
}

/** Words as they are, line by line. */
export function AsIs({ text }: { readonly text: string }): JSX.Element {
  return (
    <div class="words as-is" dir="auto">
      {pieces(visible(text))}
    </div>
  );
}

/**
 * A long text in pieces, cut after spaces, which the browser measures one by one: as the text grows,
 * only the last one.
 */
export function pieces(text: string): string | JSX.Element[] {
  if (text.length < 2000) return text;
  return text.match(/[^]{1000}\S*\s|[^]+/g)!.map((piece, i) => (
    <span key={i} class="piece">
      {piece}
    </span>
  ));
}

/** Code, arguments, output: in a box of its own, with a button that copies it. */
export function Pre({ text, wrapped = false, label }: { readonly text: string; readonly wrapped?: boolean; readonly label: string }): JSX.Element {
  const [all, showAll] = useState(text.length < 8_000);
  return (
    <div class="pre-box">
      <pre class={wrapped ? "wrapped" : undefined} dir="auto" tabIndex={0} aria-label={label}>
        <code>{visible(all ? text : text.slice(0, 8_000))}</code>
        {!all && (
          <More onClick={() => showAll(true)}>{texts.pieces.all(text.length)}</More>
        )}
      </pre>
      <Copy text={text} what={label} />
    </div>
  );
}

export function More({ onClick, children }: { readonly onClick: () => void; readonly children: ComponentChildren }): JSX.Element {
  return (
    <button class="more-link" onClick={onClick}>
      {children}
    </button>
  );
}
