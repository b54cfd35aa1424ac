// The slider's picture: one bar an event, drawn on a canvas. Where bars are thinner than a point of
// the screen, a column shows the one that weighs most.
import type { Course, Pause } from "../state/course.js";
import type { Log } from "../state/log.js";
import { texts } from "../texts-behind.js";
import { span } from "../ui/amount.js";
import { weight, whose } from "../ui/line.js";

/** The places of events on the slider: all have the same width, and long pauses take a place between them. */
export interface Scale {
  readonly first: number;
  readonly last: number;
  readonly unit: number;
  readonly pauses: readonly Pause[];
}

const gap = 52;
const widest = 14;
const labels = 14;

/** Lays events from `first` to `last` out on a width. The longest pauses are shown, as many as there is room for. */
export function scaleOf(course: Course, first: number, last: number, width: number): Scale {
  const room = Math.floor(width / 160);
  const inside = course.pauses.filter((p) => p.after >= first && p.after < last);
  // If there is no room for all, only those that are longer than the longest one left out are shown.
  const least = inside.length <= room ? 0 : inside.map((p) => p.ms).sort((a, b) => b - a)[room]!;
  const shown = inside.filter((p) => p.ms > least);
  const unit = Math.min(widest, (width - gap * shown.length) / Math.max(1, last - first + 1));
  return { first, last, unit, pauses: shown };
}

/** Where the bar of an event begins. */
export function xOf({ first, unit, pauses }: Scale, seq: number): number {
  let x = (seq - first) * unit;
  for (const p of pauses) if (p.after < seq) x += gap;
  return x;
}

/** The event at a place. */
export function seqAt(scale: Scale, x: number): number {
  const { first, last, unit, pauses } = scale;
  for (const p of pauses) {
    const end = xOf(scale, p.after) + unit;
    if (x < end) break;
    x -= Math.min(gap, x - end);
  }
  return Math.max(first, Math.min(last, first + Math.floor(x / unit)));
}

/** The colours of the page, as a canvas takes them. */
export interface Paint {
  readonly hues: readonly string[];
  readonly nobody: string;
  readonly user: string;
  readonly soft: string;
  readonly line: string;
  readonly font: string;
}

export function draw(canvas: HTMLCanvasElement, course: Course, scale: Scale, spoke: readonly string[], paint: Paint, marks: readonly number[]): void {
  const ratio = globalThis.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  pen.scale(ratio, ratio);
  const { log } = course;
  const floor = height - 1;
  const tall = (floor - labels) / 4;
  pen.fillStyle = paint.line;
  pen.fillRect(0, floor, width, 1);
  for (const seq of marks) pen.fillRect(xOf(scale, seq), floor - tall / 2, Math.max(1, scale.unit - 1), tall / 2);
  bars(pen, log, scale, spoke, paint, floor, tall);
  pen.font = paint.font;
  pen.textBaseline = "top";
  let free = 0;
  let lined = -8;
  course.turns.forEach((seq, i) => {
    const x = xOf(scale, seq);
    if (x - lined >= 8) {
      pen.fillStyle = paint.line;
      pen.fillRect(x - 1, 0, 1, floor);
      lined = x;
    }
    const label = texts.slider.nth(log.whole ? i + 1 : undefined);
    const wide = pen.measureText(label).width;
    if (x < free || x + wide > width) return;
    pen.fillStyle = paint.soft;
    pen.fillText(label, x + 3, 2);
    free = x + wide + 12;
  });
  pen.textAlign = "center";
  pen.fillStyle = paint.soft;
  for (const p of scale.pauses) pen.fillText(`⋯ ${span(p.ms)} ⋯`, xOf(scale, p.after) + scale.unit + gap / 2, floor - 13);
}

function bars(pen: CanvasRenderingContext2D, log: Log, scale: Scale, spoke: readonly string[], paint: Paint, floor: number, tall: number): void {
  const places = new Map(spoke.map((agent, i) => [agent, i]));
  const wide = Math.max(1, scale.unit - (scale.unit > 3 ? 1 : 0));
  let column = -1;
  let heaviest = 0;
  let next = 0; // of the pauses
  let x = (Math.max(scale.first, log.from) - scale.first) * scale.unit;
  for (const event of log.events) {
    const seq = event.seq ?? 0;
    while (next < scale.pauses.length && scale.pauses[next]!.after < seq) {
      x += gap;
      next++;
    }
    const heavy = weight(event.type);
    const here = Math.floor(x);
    if (here !== column || heavy > heaviest) {
      heaviest = here === column ? Math.max(heaviest, heavy) : heavy;
      column = here;
      const place = places.get(whose(event));
      pen.fillStyle = event.type === "user" ? paint.user : place === undefined ? paint.nobody : paint.hues[place % paint.hues.length]!;
      pen.fillRect(x, floor - heavy * tall, wide, heavy * tall);
    }
    x += scale.unit;
  }
}
