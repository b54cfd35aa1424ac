// All texts of the page in the reader's language, for what is loaded after the conversation of a session.
import { type First, texts as first } from "./texts.js";
import * as english from "./texts/en-behind.js";

/** All texts. Each language but English has them in one table, which compiles only if nothing is missing or left over. */
export type Texts = First & typeof english;

export const texts: Texts = "tour" in first ? (first as Texts) : { ...first, ...english };
