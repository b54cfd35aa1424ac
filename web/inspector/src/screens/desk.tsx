import type { JSX } from "preact";

export function Desk(): JSX.Element {
  return <h1 tabIndex={-1}>Desk</h1>;
}
