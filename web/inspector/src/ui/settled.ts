// Keys and buttons do nothing right after a list has moved, because the reader may still mean what was there before.
import type { RefObject } from "preact";
import { useEffect, useReducer, useRef } from "preact/hooks";

/** How long something must have stood still before it can be acted on, in milliseconds. */
const still = 600;

export interface Settled {
  readonly settled: boolean;
  /** Starts the wait again, as after a move. */
  readonly move: () => void;
}

/**
 * Whether something has stood still: neither what it says has changed, nor the size of its box or of what stands
 * above it. Its first state is no change, and it has none as long as what it says is not known.
 */
export function useSettled(what: string | undefined, box?: RefObject<HTMLElement | null>): Settled {
  const known = useRef(what);
  const moved = useRef(-Infinity);
  const [, again] = useReducer<number, void>((n) => n + 1, 0);
  if (what !== undefined && known.current !== what) {
    if (known.current !== undefined) moved.current = performance.now();
    known.current = what;
  }
  const move = (): void => {
    moved.current = performance.now();
    again();
  };
  const left = moved.current + still - performance.now();
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => again(), left + 1);
    return () => clearTimeout(timer);
  });
  useEffect(() => {
    const element = box?.current;
    if (!element) return;
    const heights = new Map<Element, number>();
    const sized = new ResizeObserver((entries) => {
      let changed = false;
      for (const { target, contentRect } of entries) {
        const height = Math.round(contentRect.height);
        changed ||= heights.has(target) && heights.get(target) !== height;
        heights.set(target, height);
      }
      if (changed) move();
    });
    const above: Element[] = [...document.querySelectorAll(".bars")];
    for (let e: Element | null = element; e !== null && e.tagName !== "MAIN"; e = e.parentElement) {
      for (let s = e.previousElementSibling; s !== null; s = s.previousElementSibling) above.push(s);
    }
    for (const e of [element, ...above]) sized.observe(e);
    return () => sized.disconnect();
  }, []);
  return { settled: left <= 0, move };
}
