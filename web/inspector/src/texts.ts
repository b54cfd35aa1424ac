// The texts of the page in the reader's language. Views read them while they draw, because another language than
// English comes after their modules.
import * as english from "./texts/en.js";

/** The texts of what is loaded first. */
export type First = typeof english;

export let texts: First = english;

/** Replaces the English texts, before anything is drawn. */
export function speak(table: First): void {
  texts = table;
}
