import type { ComponentChildren, JSX } from "preact";
import { type Route, format, go } from "../state/route.js";

export interface LinkProps {
  readonly to: Route;
  readonly class?: string;
  readonly children: ComponentChildren;
  readonly label?: string;
  readonly current?: boolean;
}

/** A link to an address of the page, which can be opened in another window as any link can. */
export function Link({ to, children, label, current, class: style }: LinkProps): JSX.Element {
  const click = (e: MouseEvent): void => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return (
    <a href={format(to)} onClick={click} class={style} aria-label={label} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}
