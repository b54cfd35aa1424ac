import type { JSX } from "preact";
import { type Side, bounds, setWidth, widths } from "./width.js";

/** The border of a column, which is dragged, or moved with the arrow keys. */
export function Separator({ side, label }: { readonly side: Side; readonly label: string }): JSX.Element {
  const at = widths.value[side];
  const towards = side === "tree" ? 1 : -1;
  const drag = (e: PointerEvent): void => {
    const line = e.currentTarget as HTMLElement;
    const whole = line.parentElement!.getBoundingClientRect();
    line.setPointerCapture(e.pointerId);
    const move = ({ clientX }: PointerEvent): void => {
      const part = (100 * (clientX - whole.left)) / whole.width;
      setWidth(side, side === "tree" ? part : 100 - part);
    };
    line.addEventListener("pointermove", move);
    line.addEventListener("lostpointercapture", () => line.removeEventListener("pointermove", move), { once: true });
  };
  const key = (e: KeyboardEvent): void => {
    const { least, most } = bounds[side];
    const to = { ArrowLeft: at - 2 * towards, ArrowRight: at + 2 * towards, Home: least, End: most }[e.key];
    if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    setWidth(side, to);
  };
  return (
    <div
      class={`separator separator-${side}`}
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={Math.round(at)}
      aria-valuemin={bounds[side].least}
      aria-valuemax={bounds[side].most}
      onPointerDown={drag}
      onKeyDown={key}
    />
  );
}
