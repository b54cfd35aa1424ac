// Markdown as elements. It is read by the lexer of marked; HTML in it is text, pictures are loaded only
// when the reader asks for them, and links lead only to addresses that a browser may be sent to.
import { Marked, type Token, type Tokens } from "marked";
import { type ComponentChild, type JSX, Component } from "preact";
import { useRef } from "preact/hooks";
import { texts } from "../texts.js";
import { Elsewhere, pictureAt } from "./elsewhere.js";
import { Pre, pieces } from "./words.js";

// A formula in LaTeX of one paragraph: \(…\), \[…\] or $$…$$. Markdown would remove its backslashes.
const within = String.raw`(?:[^\n]|\n(?!\s*\n)){1,4000}?`;
const formula = new RegExp(String.raw`^(?:\\\(${within}\\\)|\\\[${within}\\\]|\$\$${within}\$\$)`);
const alone = new RegExp(`${formula.source}[ \\t]*(?:\\n+|$)`);

const marked = new Marked({
  extensions: [
    {
      name: "formulas",
      level: "block",
      tokenizer(src) {
        const raw = /^(?:\\\[|\$\$)/.test(src) ? alone.exec(src)?.[0] : undefined;
        return raw === undefined ? undefined : { type: "formulas", raw, text: raw.trimEnd() };
      },
    },
    {
      name: "formula",
      level: "inline",
      // A backslash ends a text anyway; this is called for each text, and must be quick.
      start: (src) => (src.includes("$$") ? src.indexOf("$$") : undefined),
      tokenizer(src) {
        const raw = formula.exec(src)?.[0];
        return raw === undefined ? undefined : { type: "formula", raw, text: raw };
      },
    },
  ],
});
export const lexer = (text: string): Token[] => marked.lexer(text);

/** The most elements that one text is drawn with. The text after them is shown as it was written. */
const most = 500;

interface Read {
  readonly text: string;
  readonly blocks: readonly Token[];
}

/**
 * Reads blocks. Of a text that has grown only the last blocks are read anew, so that a long answer
 * costs no more with each word.
 */
function read(text: string, before: Read | undefined): Read {
  if (before !== undefined && text.startsWith(before.text)) {
    const kept = before.blocks.slice(0, -2);
    const from = kept.reduce((sum, { raw }) => sum + raw.length, 0);
    // What marked has changed on its way, such as tabs, cannot be cut by length.
    if (kept.length > 0 && text.startsWith(kept.at(-1)!.raw, from - kept.at(-1)!.raw.length)) {
      return { text, blocks: [...kept, ...lexer(text.slice(from))] };
    }
  }
  return { text, blocks: lexer(text) };
}

export function Markdown({ text, growing = false }: { readonly text: string; readonly growing?: boolean }): JSX.Element {
  const last = useRef<Read | undefined>(undefined);
  if (last.current?.text !== text) last.current = read(text, growing ? last.current : undefined);
  const { blocks } = last.current!;
  let left = most;
  const drawn: ComponentChild[] = [];
  for (const [i, block] of blocks.entries()) {
    left -= size(block, left);
    if (left <= 0) {
      drawn.push(
        <p key="rest" class="as-is">
          {blocks.slice(i).map(({ raw }) => raw).join("")}
        </p>,
      );
      break;
    }
    drawn.push(<Block key={i} token={block} />);
  }
  return (
    <div class="words" dir="auto">
      {drawn}
    </div>
  );
}

// size counts the tokens within a token, as far as it matters.
function size(token: Token, limit: number): number {
  let n = 0;
  const stack: unknown[] = [token];
  for (let next = stack.pop(); next !== undefined && n <= limit; next = stack.pop()) {
    n++;
    const { tokens, items, rows, header } = next as Tokens.Generic;
    for (const inner of [tokens, items, header, ...(rows ?? [])]) if (Array.isArray(inner)) stack.push(...inner);
  }
  return n;
}

/** A block is drawn again only if it has changed. */
class Block extends Component<{ readonly token: Token }> {
  override shouldComponentUpdate({ token }: { readonly token: Token }): boolean {
    return token !== this.props.token && token.raw !== this.props.token.raw;
  }

  override render(): ComponentChild {
    return block(this.props.token as Tokens.Generic, 0);
  }
}

const deepest = 24;

function block(token: Tokens.Generic, depth: number): ComponentChild {
  if (depth > deepest) return token.raw;
  const inner = (): ComponentChild[] => (token.tokens ?? []).map((t) => block(t as Tokens.Generic, depth + 1));
  switch (token.type) {
    case "space":
      return null;
    case "code":
      return <Pre text={token["text"]} label={texts.pieces.code(token["lang"] ?? "")} />;
    case "formulas":
      return <Pre text={token["text"]} label={texts.pieces.formula} />;
    case "heading": {
      const Level = `h${Math.min(6, token["depth"] + 3)}` as "h4";
      return <Level>{inline(token.tokens, depth)}</Level>;
    }
    case "hr":
      return <hr />;
    case "blockquote":
      return <blockquote>{inner()}</blockquote>;
    case "list": {
      const items = (token["items"] as Tokens.ListItem[]).map((item, i) => (
        <li key={i}>
          {item.task && (item.checked ? "☑ " : "☐ ")}
          {item.tokens.filter((t) => t.type !== "checkbox").map((t) => block(t as Tokens.Generic, depth + 1))}
        </li>
      ));
      return token["ordered"] ? <ol start={Number(token["start"]) || 1}>{items}</ol> : <ul>{items}</ul>;
    }
    case "paragraph":
      return <p>{inline(token.tokens, depth)}</p>;
    case "table":
      return table(token as Tokens.Table, depth);
    case "text":
      return token.tokens === undefined ? pieces(entities(token["text"])) : inline(token.tokens, depth);
    default: // HTML, definitions, and what is not known
      return <p class="as-is">{token.raw.trimEnd()}</p>;
  }
}

function table({ header, rows }: Tokens.Table, depth: number): JSX.Element {
  return (
    <div class="table" tabIndex={0} role="group" aria-label={texts.pieces.table}>
      <table>
        <thead>
          <tr>
            {header.map((cell, i) => (
              <th key={i} data-align={cell.align ?? undefined}>
                {inline(cell.tokens, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, r) => (
            <tr key={r}>
              {row.map((cell, i) => (
                <td key={i} data-align={cell.align ?? undefined}>
                  {inline(cell.tokens, depth)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined, depth: number, linked = false): ComponentChild[] {
  return (tokens ?? []).map((token) => phrase(token as Tokens.Generic, depth + 1, linked));
}

/** A part of a paragraph. Within a link nothing else can be pressed, so that a picture there is its words. */
function phrase(token: Tokens.Generic, depth: number, linked: boolean): ComponentChild {
  if (depth > deepest) return token.raw;
  const inner = (): ComponentChild[] => inline(token.tokens, depth, linked || token.type === "link");
  switch (token.type) {
    case "text":
      return token.tokens === undefined ? pieces(entities(token["text"])) : inner();
    case "escape":
      return token["text"];
    case "strong":
      return <strong>{inner()}</strong>;
    case "em":
      return <em>{inner()}</em>;
    case "del":
      return <del>{inner()}</del>;
    case "codespan":
    case "formula":
      return <code>{token["text"]}</code>;
    case "br":
      return <br />;
    case "link":
      return outside(token["href"], inner(), token.raw);
    case "image": {
      const url = pictureAt(token["href"]);
      if (linked) return `picture: ${token["text"] || token["href"]}`;
      return url === undefined ? token.raw : <Elsewhere url={url} alt={token["text"]} />;
    }
    default:
      return token.raw;
  }
}

/** A link to another place, if it is one that a browser may be sent to; otherwise what was written. */
function outside(href: string, words: ComponentChild[], raw: string): ComponentChild {
  const url = URL.canParse(href) ? new URL(href) : undefined;
  if (url === undefined || !["http:", "https:", "mailto:"].includes(url.protocol)) return raw;
  return (
    <a href={url.href} target="_blank" rel="noreferrer noopener" title={url.href}>
      {words}
    </a>
  );
}

const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

function entities(text: string): string {
  return text.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#39);/g, (_, name?: string) => (name === undefined ? "'" : named[name]!));
}
