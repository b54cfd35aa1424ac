// Limits text that is pasted into fields: a browser takes half a minute to lay out megabytes in a field.
import { tell } from "../state/app.js";
import { texts } from "../texts.js";
import { bytes } from "./amount.js";

/** The longest text that a field takes at once, in letters. */
export const most = 100_000;

window.addEventListener("paste", (e) => {
  const pasted = e.defaultPrevented ? "" : (e.clipboardData?.getData("text/plain") ?? "");
  if (pasted.length <= most) return;
  e.preventDefault();
  tell(texts.composer.pasteTooLong(bytes(new Blob([pasted]).size), bytes(most)), true);
});
