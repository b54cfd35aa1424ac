import "./picture.css";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { Canvas } from "./canvas.js";
import { PanZoom, type Rect, meets } from "./panzoom.js";

type Picture = Schemas["Picture"];

/** The state of a box or line in a drawing: a sign and a text. The tone only makes it easier to find. */
export interface Standing {
  readonly sign: string;
  readonly words: string;
  readonly tone: "soft" | "done" | "now" | "asked" | "failed";
  /** The state of a line, by the server's names. */
  readonly state?: string;
}

export interface PictureProps {
  readonly picture: Picture;
  readonly label: string;
  /** The key of what is chosen: that of a box, or of a line. */
  readonly chosen: string;
  readonly choose: (key: string) => void;
  /** The states of boxes and lines, by their keys. */
  readonly standing: ReadonlyMap<string, Standing>;
}

/** The key of a line: the folder of its graph, and its place among the lines. */
export const lineKey = (folder: string, index: number): string => `${folder}#${index}`;

interface Box extends Rect {
  readonly key: string;
  readonly box: Picture["boxes"][number];
}

interface Line extends Rect {
  readonly key: string;
  readonly line: Picture["lines"][number];
  readonly path: string;
  readonly head: string;
  readonly label: Rect | undefined;
  readonly ends: string;
}

const many = 300;

/** What the server has laid out: boxes that are buttons, above one SVG of lines. */
export function PictureView({ picture, label, chosen, choose, standing }: PictureProps): JSX.Element {
  const [view] = useState(() => new PanZoom());
  const { boxes, lines } = useMemo(() => flat(picture), [picture]);
  // Lines without a text have marks to press, which stay 24 pixels large. The box that begins is seen first.
  if (lines.some(({ line }) => line.text === undefined)) view.floor = 0.75;
  view.home = boxes.find((b) => b.box.kind === "input") ?? boxes[0];
  const window = view.shown.value;
  const all = boxes.length + lines.length <= many;
  const near = (r: Rect): boolean => all || meets(r, window);
  const shownLines = lines.filter(near);
  return (
    <Canvas view={view} width={picture.width + 72} height={picture.height + 32} label={label}>
      <svg width={picture.width + 72} height={picture.height + 32} aria-hidden="true">
        {shownLines.map(({ key, path, head }) => (
          <g key={key} class="picture-line" data-state={standing.get(key)?.state} data-chosen={key === chosen}>
            <path d={path} />
            <path class="picture-head" d={head} />
          </g>
        ))}
      </svg>
      {boxes.filter(near).map(({ key, box, x, y, width, height }) => {
        const how = standing.get(key);
        const style = { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` };
        if (box.id === undefined) {
          return (
            <div key={key} class="picture-begin" style={style}>
              {box.text.join(" ")}
            </div>
          );
        }
        return (
          <button
            key={key}
            class="picture-box"
            style={style}
            data-kind={box.kind}
            data-inner={box.inner !== undefined}
            data-tone={how?.tone}
            aria-pressed={key === chosen}
            title={box.tip}
            onClick={() => choose(key)}
          >
            {box.text.map((words, i) => (
              <span key={i} class={i > 0 ? "soft" : undefined}>
                {i === 0 && box.kind === "router" && "◆ "}
                {words}{" "}
              </span>
            ))}
            <Sign how={how} />
          </button>
        );
      })}
      {shownLines.map(({ key, line, label, ends }) =>
        label === undefined ? null : (
          <button
            key={key}
            class="picture-label"
            style={{ left: `${label.x}px`, top: `${label.y}px`, width: `${label.width}px`, height: `${label.height}px` }}
            data-bare={line.label === undefined}
            aria-pressed={key === chosen}
            title={line.tip}
            onClick={() => choose(key)}
          >
            {line.text?.map((words, i) => <span key={i}>{words}</span>)}
            {line.text === undefined && <span class="hidden-words">{ends}</span>}
            <Sign how={standing.get(key)} short={line.text === undefined} />
          </button>
        ),
      )}
    </Canvas>
  );
}

function Sign({ how, short = false }: { readonly how: Standing | undefined; readonly short?: boolean }): JSX.Element | null {
  if (how === undefined) return null;
  return (
    <span class="picture-sign" data-tone={how.tone}>
      {how.sign} <span class={short ? "hidden-words" : undefined}>{how.words}</span>
    </span>
  );
}

/** Brings the graphs within boxes to the coordinates of the whole. What is within comes after what it is in. */
function flat(picture: Picture): { readonly boxes: readonly Box[]; readonly lines: readonly Line[] } {
  const boxes: Box[] = [];
  const lines: Line[] = [];
  const add = ({ boxes: own, lines: between }: Picture, dx: number, dy: number, folder: string): void => {
    own.forEach((box, i) => {
      const key = folder + (box.id ?? `:${box.kind}${i}`);
      boxes.push({ key, box, x: box.x + dx, y: box.y + dy, width: box.width, height: box.height });
    });
    between.forEach((line, i) => lines.push(drawn(line, lineKey(folder, i), dx, dy, own)));
    own.forEach((box) => {
      if (box.inner !== undefined) add(box.inner, dx + (box.innerAt?.x ?? box.x), dy + (box.innerAt?.y ?? box.y), `${folder}${box.id ?? ""}/`);
    });
  };
  add(picture, 16, 16, "");
  return { boxes, lines };
}

function drawn(line: Line["line"], key: string, dx: number, dy: number, boxes: Picture["boxes"]): Line {
  const points = line.points.map(({ x, y }) => ({ x: x + dx, y: y + dy }));
  const first = points[0] ?? { x: dx, y: dy };
  let path = `M${first.x} ${first.y}`;
  let [before, last] = [first, first];
  let bend = { x: first.x, y: first.y };
  let longest = -1;
  points.forEach((p, i) => {
    if (i === 0) return;
    // Lines are vertical from points with an even index to the next, and bend between.
    const middle = (last.y + p.y) / 2;
    path += i % 2 === 1 ? `V${p.y}` : `C${last.x} ${middle} ${p.x} ${middle} ${p.x} ${p.y}`;
    const length = Math.abs(p.x - last.x) + Math.abs(p.y - last.y);
    if (length > longest) {
      longest = length;
      bend = { x: (last.x + p.x) / 2, y: middle };
    }
    if (p.y !== last.y) before = last;
    last = p;
  });
  const up = last.y < before.y ? 1 : -1;
  const head = `M${last.x} ${last.y}l-4 ${7 * up}h8z`;
  const [from, to] = [boxes[line.from]?.id, boxes[line.to]?.id];
  const label = line.label;
  const at = label !== undefined ? { x: label.x + dx, y: label.y + dy, width: label.width, height: label.height } : { x: bend.x - 16, y: bend.y - 16, width: 32, height: 32 };
  const xs = points.map((p) => p.x);
  const ys = points.map((p) => p.y);
  const [x, y] = [Math.min(...xs, at.x), Math.min(...ys, at.y)];
  return {
    key,
    line,
    path,
    head,
    // A line from the beginning, or from "on error", says no more than its box.
    label: from === undefined || to === undefined ? undefined : at,
    ends: `${from} to ${to}`,
    x,
    y,
    width: Math.max(...xs, at.x + at.width) - x,
    height: Math.max(...ys, at.y + at.height) - y,
  };
}
