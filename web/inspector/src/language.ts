// The language of the page: as the browser asks, or as the reader has chosen in this browser. English is part of the
// page, and the table of another language is loaded before anything is drawn.
import type { Texts } from "./texts-behind.js";
import { store, stored } from "./stored.js";
import { speak } from "./texts.js";
import { localize } from "./ui/amount.js";

const tables = {
  en: undefined,
  de: () => import("./texts/de.js"),
  es: () => import("./texts/es.js"),
} as const satisfies Readonly<Record<string, (() => Promise<{ readonly texts: Texts }>) | undefined>>;

export type Language = keyof typeof tables;

/** The languages by their own names. */
export const languages: Readonly<Record<Language, string>> = { en: "English", de: "Deutsch", es: "Español" };

const kept = "arbor-language";
const known = (name: string | null): Language | "" => (name !== null && Object.hasOwn(tables, name) ? (name as Language) : "");

/** What the reader has chosen; "" is the browser's language. */
export const chosen = known(stored(kept));

/** Keeps the reader's choice and loads the page again in this language. Drafts stay. */
export function choose(language: Language | ""): void {
  store(kept, language || null);
  location.reload();
}

/** The first of some languages, such as de-AT, that the page has. */
export function languageOf(asked: readonly string[], chosen: Language | ""): readonly [language: Language, tag: string] {
  const all = asked.map((tag) => [known(tag.toLowerCase().split("-")[0]!), tag] as const);
  const language = chosen || all.find(([name]) => name !== "")?.[0] || "en";
  return [language, all.find(([name]) => name === language)?.[1] ?? language];
}

/** Loads the reader's language. If its table cannot be loaded, the page is in English. */
export async function translate(): Promise<void> {
  const [language, tag] = languageOf(navigator.languages, chosen);
  const table = await tables[language]?.().catch(() => undefined);
  if (table === undefined) return;
  speak(table.texts);
  localize(tag);
  document.documentElement.lang = language;
}
