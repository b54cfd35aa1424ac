import type { JSX } from "preact";

// Icons are 16 px wide and drawn with a line of 1.5 px.
const shapes = {
  close: "M4 4l8 8M12 4l-8 8",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM11 11l3 3",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  copy: "M6 5h7v9H6zM3 11V2h7",
  fork: "M8 14V9M8 9 4.5 5.5M8 9l3.5-3.5M3 4h2v2H3zM11 4h2v2h-2z",
  edit: "M3 13l1-4 7-7 3 3-7 7z",
  send: "M13 3v5H4M7 5 4 8l3 3",
  stop: "M4 4h8v8H4z",
  play: "M5 3l8 5-8 5z",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  first: "M12 3 7 8l5 5M4 3v10",
  last: "M4 3l5 5-5 5M12 3v10",
  attach: "M12 7l-5 5a2.8 2.8 0 0 1-4-4l6-6a2 2 0 0 1 3 3l-6 6",
  menu: "M2 4h12M2 8h12M2 12h12",
} as const;

export type IconName = keyof typeof shapes;

/** A decorative picture: the element next to it has a text or a label. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={shapes[name]} />
    </svg>
  );
}
