import type { JSX } from "preact";

export function Tree(): JSX.Element {
  return <h1 tabIndex={-1}>Tree</h1>;
}
