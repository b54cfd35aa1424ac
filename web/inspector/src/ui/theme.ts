// Light or dark: as the system says, or as the reader has chosen in this browser.
import { effect, signal } from "@preact/signals";

export type Scheme = "system" | "light" | "dark";

const kept = "arbor-scheme";
const stored = localStorage.getItem(kept);

export const scheme = signal<Scheme>(stored === "light" || stored === "dark" ? stored : "system");

export function setScheme(to: Scheme): void {
  scheme.value = to;
  if (to === "system") localStorage.removeItem(kept);
  else localStorage.setItem(kept, to);
}

effect(() => {
  const { value } = scheme;
  if (value === "system") delete document.documentElement.dataset["scheme"];
  else document.documentElement.dataset["scheme"] = value;
});
