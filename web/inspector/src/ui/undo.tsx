import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { decidedAbout, grace, undo } from "../state/decisions.js";
import { texts } from "../texts.js";
import { useKeys } from "./keys.js";

/** Takes the place of the buttons after a decision: it shows the decision and offers to undo it. */
export function Undo({ question }: { readonly question: string }): JSX.Element | null {
  const held = decidedAbout(question);
  const box = useRef<HTMLDivElement>(null);
  useKeys({ u: [texts.decide.undoKey, () => undo()] });
  // The button that was pressed is gone: the keys stay with the card.
  useLayoutEffect(() => {
    if (document.activeElement !== document.body) return;
    const card = box.current?.closest<HTMLElement>("article");
    (card?.querySelector<HTMLElement>("[data-select]") ?? card)?.focus({ preventScroll: true });
  }, []);
  if (held === undefined) return null;
  const { approved } = held.decision;
  const what = approved === true ? texts.decide.approved : approved === false ? texts.decide.denied : texts.decide.answered;
  return (
    <div class="question-do" ref={box}>
      <span role="status">{held.sent ? texts.decide.sending : what(grace / 1000)}</span>
      {!held.sent && (
        <button type="button" class="button" onClick={() => undo(question)}>
          {texts.decide.undo} <kbd>U</kbd>
        </button>
      )}
    </div>
  );
}
