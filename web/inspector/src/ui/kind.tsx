import type { JSX } from "preact";
import type { Schemas } from "../net/api.js";

export type Kind = Schemas["Agent"]["kind"];

const shapes: { readonly [K in Kind]?: string } = {
  router: "M7 1l6 6-6 6-6-6z",
  graph: "M3 2.5h.01M3 11.5h.01M11 7h.01M4.5 3.5 9.5 6.3M4.5 10.5 9.5 7.7",
  workflow: "M2 3l4 4-4 4M8 3l4 4-4 4",
  remote: "M4 10 10 4M5 4h5v5",
  human: "M7 6.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM2 13c0-3 2-4.5 5-4.5s5 1.5 5 4.5",
};

/** The sign of an agent that is more than a model with instructions. Screen readers get the word next to it. */
export function KindSign({ kind }: { readonly kind: Kind }): JSX.Element | null {
  const d = shapes[kind];
  if (d === undefined) return null;
  return (
    <svg class="kind" width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
      <title>{kind}</title>
      <path d={d} fill={kind === "router" ? "currentColor" : "none"} stroke="currentColor" stroke-width={kind === "graph" ? 2 : 1.4} stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
