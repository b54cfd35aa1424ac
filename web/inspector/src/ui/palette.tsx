import type { JSX } from "preact";

export function openPalette(): void {}

export function Palette(): JSX.Element | null {
  return null;
}

export function HelpOfKeys(): JSX.Element | null {
  return null;
}
