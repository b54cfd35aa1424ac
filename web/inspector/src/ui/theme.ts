// Light or dark: as the system says, or as the reader has chosen in this browser.
import { effect, signal } from "@preact/signals";
import { store, stored } from "../stored.js";

export type Scheme = "system" | "light" | "dark";

const kept = "arbor-scheme";
const chosen = stored(kept);

export const scheme = signal<Scheme>(chosen === "light" || chosen === "dark" ? chosen : "system");

export function setScheme(to: Scheme): void {
  scheme.value = to;
  store(kept, to === "system" ? null : to);
}

effect(() => {
  const { value } = scheme;
  if (value === "system") delete document.documentElement.dataset["scheme"];
  else document.documentElement.dataset["scheme"] = value;
});
