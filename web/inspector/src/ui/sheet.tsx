import "./sheet.css";
import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icons.js";
import { texts } from "../texts.js";
import { useKeys } from "./keys.js";

interface Props {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** From where it comes: below, as on a phone, or the middle, for questions and lists. */
  readonly from?: "below" | "middle" | "corner";
  /** Whether only screen readers get the title. */
  readonly bare?: boolean;
}

/** Covers the page until it is closed. The focus goes in, Escape closes it, and the focus goes back. */
export function Sheet({ title, onClose, children, from = "below", bare = false }: Props): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useKeys({ Escape: [texts.close, onClose] }, true);
  useLayoutEffect(() => {
    const dialog = box.current!;
    const before = document.activeElement;
    dialog.showModal();
    (dialog.querySelector<HTMLElement>("[data-first]") ?? dialog.querySelector<HTMLElement>("h2"))?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class="sheet"
      data-from={from}
      aria-labelledby={heading}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => {
        if (e.target === box.current) onClose();
      }}
    >
      <div class="sheet-box">
        <div class={bare ? "hidden-words" : "sheet-title"}>
          <h2 id={heading} tabIndex={-1}>
            {title}
          </h2>
          <button class="button plain" aria-label={texts.close} onClick={onClose}>
            <Icon name="close" />
          </button>
        </div>
        <div class="sheet-body">{children}</div>
      </div>
    </dialog>
  );
}
