import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { texts } from "../texts-behind.js";
import { useKeys } from "./keys.js";

interface Props {
  readonly search: string;
  readonly find: (text: string) => void;
  readonly list: boolean;
  readonly show: (list: boolean) => void;
  /** Whether another part of the page uses the key of the search now. */
  readonly away?: () => boolean;
}

/** The bar above a tree: its search, and the choice between the drawing and the list. */
export function TreeBar({ search, find, list, show, away }: Props): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useKeys({ "/": [texts.tree.search, () => (away?.() ? false : field.current?.focus())] });
  return (
    <div class="tree-bar">
      <input
        ref={field}
        class="field"
        type="search"
        aria-label={texts.tree.search}
        placeholder={texts.tree.searchHint}
        value={search}
        onInput={(e) => find(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key !== "Escape") return;
          e.preventDefault();
          find("");
          field.current?.blur();
        }}
      />
      <button class="button" aria-pressed={list} onClick={() => show(!list)}>
        {texts.tree.asList}
      </button>
    </div>
  );
}
