import type { JSX } from "preact";

export function GraphScreen(): JSX.Element {
  return <h1 tabIndex={-1}>GraphScreen</h1>;
}
