import "./rows.css";
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { texts } from "../texts.js";
import { Icon } from "./icons.js";
import { useKeys } from "./keys.js";

// Rows of one height, of which those in sight are in the document, and a few around them.
export const rowHeight = 28;
const around = 8;
const most = 100;

/** Something that is listed, by place; the keys ascend, so that a row is found again. */
export interface Listed {
  readonly length: number;
  readonly key: (i: number) => number;
}

export interface Window {
  readonly box: RefObject<HTMLDivElement | null>;
  readonly from: number;
  readonly to: number;
  /** How many rows came below while the reader was elsewhere. */
  readonly fresh: number;
  readonly toEnd: () => void;
  readonly show: (i: number) => void;
}

/**
 * Keeps a window on rows. The reader's place stays where it is when rows come before or after it; it
 * sticks to the end only if the reader is there.
 */
export function useWindow(list: Listed, start: number): Window {
  const box = useRef<HTMLDivElement>(null);
  const [{ top, height }, see] = useState({ top: 0, height: 0 });
  const place = useRef({ atEnd: start < 0, key: NaN, offset: 0, seen: list.length });
  const { length } = list;

  const look = (): void => {
    const el = box.current;
    if (el === null) return;
    const atEnd = el.scrollTop + el.clientHeight >= el.scrollHeight - rowHeight / 2;
    const i = Math.min(Math.floor(el.scrollTop / rowHeight), length - 1);
    const seen = atEnd ? length : place.current.atEnd ? length : place.current.seen;
    place.current = { atEnd, key: i < 0 ? NaN : list.key(i), offset: el.scrollTop - i * rowHeight, seen };
    see((was) => (Math.floor(was.top / rowHeight) === Math.floor(el.scrollTop / rowHeight) && was.height === el.clientHeight ? was : { top: el.scrollTop, height: el.clientHeight }));
  };

  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    if (start >= 0) el.scrollTop = Math.max(0, start * rowHeight - el.clientHeight / 2);
    else el.scrollTop = el.scrollHeight;
    const seen = new ResizeObserver(() => {
      if (place.current.atEnd) el.scrollTop = el.scrollHeight;
      look();
    });
    seen.observe(el);
    return () => seen.disconnect();
  }, []);

  useLayoutEffect(() => {
    const el = box.current;
    if (el === null) return;
    const { atEnd, key, offset } = place.current;
    if (atEnd) el.scrollTop = el.scrollHeight;
    else if (!Number.isNaN(key)) {
      const i = find(list, key);
      if (i < length && Math.abs(el.scrollTop - (i * rowHeight + offset)) > 1) {
        place.current.seen += i - Math.floor(el.scrollTop / rowHeight);
        el.scrollTop = i * rowHeight + offset;
      }
    }
    look();
  }, [length, length > 0 ? list.key(0) : 0]);

  useEffect(() => {
    const el = box.current;
    el?.addEventListener("scroll", look, { passive: true });
    return () => el?.removeEventListener("scroll", look);
  });

  const first = Math.max(0, Math.floor(top / rowHeight) - around);
  const from = Math.max(0, Math.min(first, length - 1));
  const to = Math.min(length, from + Math.min(most, Math.ceil(height / rowHeight) + 2 * around));
  return {
    box,
    from,
    to,
    fresh: place.current.atEnd ? 0 : Math.max(0, length - place.current.seen),
    toEnd: () => {
      place.current.atEnd = true;
      if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
      look();
    },
    show: (i) => {
      const el = box.current;
      if (el === null || i < 0) return;
      const y = i * rowHeight;
      if (y < el.scrollTop) el.scrollTop = y;
      else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight - el.clientHeight;
    },
  };
}

/** The first place whose key is not less. */
export function find(list: Listed, key: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list.key(middle) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The rows in sight, in a box as high as all of them. */
export function Lines({ view, length, children }: { readonly view: Window; readonly length: number; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div class="rows-all" role="presentation" style={{ height: `${length * rowHeight}px` }}>
      <div role="presentation" style={{ transform: `translateY(${view.from * rowHeight}px)` }}>
        {children}
      </div>
    </div>
  );
}

export interface RowsProps {
  readonly label: string;
  readonly list: Listed;
  /** The names of the columns, for readers. */
  readonly columns: readonly string[];
  /** The cells of a row. */
  readonly cells: (i: number) => readonly ComponentChildren[];
  /** The classes of a row, or of its cells, are made of this. */
  readonly name: string;
  readonly about?: (i: number) => Readonly<Record<string, string | number | undefined>>;
  /** The selected row, by its key. */
  readonly selected: number | undefined;
  /** Called when another row is selected; by keys if `moved`, which makes no entry in the history. */
  readonly select: (i: number, moved: boolean) => void;
  readonly open?: (i: number) => void;
}

/** A grid of rows. */
export function Rows({ label, list, columns, cells, name, about, selected, select, open }: RowsProps): JSX.Element {
  const id = useId();
  const at = selected === undefined ? -1 : find(list, selected);
  const place = at >= 0 && at < list.length && list.key(at) === selected ? at : -1;
  const view = useWindow(list, place);
  const move = (to: number): void => {
    const i = Math.max(0, Math.min(list.length - 1, to));
    if (list.length === 0) return;
    view.show(i);
    select(i, true);
  };
  // Without a selected row, the first key selects the one that is last in sight.
  const by = (n: number): void => move(place < 0 ? (n < 0 ? list.length - 1 : view.from) : place + n);
  useKeys({
    j: [texts.pieces.nextRow, () => by(1)],
    k: [texts.pieces.previousRow, () => by(-1)],
    ...(open !== undefined && { Enter: [texts.pieces.openRow, () => (place < 0 ? false : open(place))] as const }),
  });
  const page = (): number => Math.max(1, Math.floor((view.box.current?.clientHeight ?? 0) / rowHeight) - 1);
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => by(1),
    ArrowUp: () => by(-1),
    PageDown: () => by(page()),
    PageUp: () => by(-page()),
    Home: () => move(0),
    End: () => move(list.length - 1),
  };
  const shown = Array.from({ length: view.to - view.from }, (_, n) => view.from + n);
  return (
    <div class="rows">
      <div
        class="rows-box"
        ref={view.box}
        role="grid"
        aria-label={label}
        aria-rowcount={list.length + 1}
        aria-colcount={columns.length}
        aria-activedescendant={place >= view.from && place < view.to ? `${id}-${list.key(place)}` : undefined}
        tabIndex={0}
        onKeyDown={(e) => {
          if (e.altKey || e.ctrlKey || e.metaKey || e.shiftKey || keys[e.key] === undefined) return;
          e.preventDefault();
          keys[e.key]!();
        }}
      >
        <div role="row" aria-rowindex={1} class="hidden-words">
          {columns.map((c) => (
            <span key={c} role="columnheader">
              {c}
            </span>
          ))}
        </div>
        <Lines view={view} length={list.length}>
          {shown.map((i) => (
            <div
              key={list.key(i)}
              id={`${id}-${list.key(i)}`}
              role="row"
              class={`row ${name}-row`}
              aria-rowindex={i + 2}
              aria-selected={i === place}
              onClick={() => select(i, false)}
              onDblClick={() => open?.(i)}
              {...about?.(i)}
            >
              {cells(i).map((cell, c) => (
                <span key={c} role="gridcell" class={`${name}-${columns[c]!.toLowerCase()}`}>
                  {cell}
                </span>
              ))}
            </div>
          ))}
        </Lines>
      </div>
      {view.fresh > 0 && (
        <button class="button rows-new" onClick={view.toEnd}>
          {texts.fresh(view.fresh)} <Icon name="down" />
        </button>
      )}
    </div>
  );
}
