// Long lists of rows of different heights: only those that can be seen are in the document.
import { Virtualizer, elementScroll, measureElement, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { useLayoutEffect, useReducer, useState } from "preact/hooks";

export interface VirtualOptions {
  readonly count: number;
  readonly keyOf: (index: number) => string;
  readonly height: (index: number) => number;
  readonly scroller: () => HTMLElement | null;
}

/** A list whose reader stays where they are, and at its end as long as they are at its end. */
export function useVirtual({ count, keyOf, height, scroller }: VirtualOptions): Virtualizer<HTMLElement, HTMLElement> {
  const [, redraw] = useReducer<number, void>((n) => n + 1, 0);
  const options = {
    count,
    getItemKey: keyOf,
    estimateSize: height,
    getScrollElement: scroller,
    observeElementRect,
    observeElementOffset,
    measureElement,
    scrollToFn: elementScroll,
    overscan: 4,
    paddingStart: 12,
    paddingEnd: 16,
    anchorTo: "end",
    followOnAppend: true,
    scrollEndThreshold: 24,
    onChange: () => redraw(),
  } as const;
  const [virtual] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), [virtual]);
  useLayoutEffect(() => virtual._willUpdate());
  return virtual;
}
