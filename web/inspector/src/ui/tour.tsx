import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { texts } from "../texts-behind.js";
import { Sheet } from "./sheet.js";

/** Four steps that explain the page. It opens only when the reader asks for it. */
export function Tour({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const [at, go] = useState(0);
  const text = useRef<HTMLParagraphElement>(null);
  const { steps } = texts.tour;
  const [title, words] = steps[at]!;
  const last = at === steps.length - 1;
  // A screen reader reads each step as it appears. The focus moves with the text: later it could leave a button that the
  // reader has reached by then.
  useLayoutEffect(() => {
    if (at > 0) text.current?.focus();
  }, [at]);
  return (
    <Sheet title={texts.tour.title(title, at + 1, steps.length)} from="middle" onClose={onClose}>
      <div class="screen">
        <p ref={text} tabIndex={-1}>
          {words}
        </p>
        <p class="ask-actions">
          {at > 0 && (
            <button class="button" onClick={() => go(at - 1)}>
              {texts.tour.back}
            </button>
          )}
          <button class="button main" data-first onClick={last ? onClose : () => go(at + 1)}>
            {last ? texts.tour.finish : texts.tour.next}
          </button>
          {!last && (
            <button class="button plain" onClick={onClose}>
              {texts.tour.leave}
            </button>
          )}
        </p>
      </div>
    </Sheet>
  );
}
