import type { JSX } from "preact";

export function Diff(): JSX.Element {
  return <h1 tabIndex={-1}>Diff</h1>;
}
