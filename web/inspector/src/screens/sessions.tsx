import type { JSX } from "preact";

export function Sessions(): JSX.Element {
  return <h1 tabIndex={-1}>Sessions</h1>;
}
