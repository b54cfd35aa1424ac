import type { JSX } from "preact";

export function Usage(): JSX.Element {
  return <h1 tabIndex={-1}>Usage</h1>;
}
