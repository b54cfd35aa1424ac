// Titles of sessions, which the server makes of the user's first words, cut after 80 letters.
import { visible } from "./visible.js";

// Marks of Markdown around words, or before all of them. Names such as __init__ and sums such as 2 * 3 have none.
const marks: readonly (readonly [RegExp, string])[] = [
  [/^(?:#{1,6}|>) +/, ""],
  [/!?\[([^\]]+)\]\([^)\s]*\)/g, "$1"],
  [/(`+) ?(.+?) ?\1/g, "$2"],
  [/(?<![\w*~])(\*{1,3}|~~)(?=[^\s*~])([^*~]*[^\s*~])\1(?![\w*~])/g, "$2"],
];

/** How a session is called: its title without marks of Markdown, or its id if it has none. */
export function named(title: string | undefined, id: string): string {
  return visible(marks.reduce((text, [mark, kept]) => text.replace(mark, kept), title ?? "").trim() || id);
}
