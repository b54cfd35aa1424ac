import "./canvas.css";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { texts } from "../texts.js";
import type { PanZoom } from "./panzoom.js";

interface Props {
  readonly view: PanZoom;
  readonly width: number;
  readonly height: number;
  readonly label: string;
  /** What is shown next to the buttons. */
  readonly foot?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A box of its own for a drawing, which is moved and scaled in it. */
export function Canvas({ view, width, height, label, foot, children }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  useEffect(() => view.attach(box.current!, content.current!), [view]);
  useEffect(() => view.measure(width, height), [view, width, height]);
  return (
    <div class="canvas">
      <div ref={box} class="canvas-box" role="group" aria-label={label}>
        <div ref={content} class="canvas-content" style={{ width: `${width}px`, height: `${height}px` }}>
          {children}
        </div>
      </div>
      <div class="canvas-zoom" role="group" aria-label={texts.pieces.zoom}>
        <span class="fact soft">{foot}</span>
        <button class="button" aria-label={texts.pieces.zoomOut} onClick={() => view.zoom(1 / 1.25)}>
          −
        </button>
        <button class="button" aria-label={texts.pieces.zoomIn} onClick={() => view.zoom(1.25)}>
          +
        </button>
        <button class="button" onClick={() => view.fit()}>
          {texts.pieces.fit}
        </button>
      </div>
    </div>
  );
}
