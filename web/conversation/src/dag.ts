import type { Graph } from "./graph.js";
import type { Content } from "./node.js";
import { type Active, Path, type Step } from "./path.js";
import { speaker, textField, userText } from "./payload.js";
import { none, parentOf, runAt } from "./state.js";

// The dimensions of a drawing, in its own units.
const boxWidth = 200;
const boxHeight = 40;
const gapX = 40; // between columns
const gapY = 30; // between layers

/** A drawing of a graph: boxes that do not overlap, and edges between them. Equal graphs have equal drawings. */
export interface Layout {
  readonly nodes: readonly Box[];
  readonly edges: readonly Edge[];
}

/** The position of a node. x and y are its upper left corner; y grows downwards. */
export interface Box {
  readonly id: string;
  /** One short line of at most 28 code points. */
  readonly label: string;
  /** The node's kind, or "run" for a collapsed run, or "summary". */
  readonly kind: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Connects one box to another, by their ids. */
export interface Edge {
  readonly from: string;
  readonly to: string;
}

/**
 * Lays out the path and the sub-agents inside it: every box is one layer below its
 * parent. The nodes of a run are in one column, and the runs below it are in columns to
 * the right. It takes time in proportion to the number of boxes, and keeps nothing
 * between calls.
 */
export function dag(graph: Graph, active: Active = {}): Layout {
  const path = new Path(graph.state, active);
  const drawing = new Drawing(path);
  const { summary, before, steps } = path.summarized();
  if (before.length > 0) drawing.summary(summary, before);
  path.visit(steps, (step, collapsed) => drawing.run(step, collapsed));
  return drawing.layout();
}

class Drawing {
  private readonly boxes: { -readonly [K in keyof Box]: Box[K] }[] = [];
  private readonly kids: number[][] = []; // by box; the first one is in the same column
  private readonly roots: number[] = [];
  private readonly boxOf = new Map<number, number>(); // by place

  constructor(private readonly path: Path) {}

  summary(text: string, before: readonly Step[]): void {
    const { path } = this;
    for (const step of before) {
      for (const [place] of path.inStep(step)) this.boxOf.set(place, 0);
    }
    this.add(none, path.item(runAt(path.s, before[0]!.run).first).content.id, line(text), "summary");
  }

  run(step: Step, collapsed: boolean): void {
    const { path } = this;
    if (collapsed) {
      const run = runAt(path.s, step.run);
      const first = path.item(run.first).content;
      const box = this.add(run.parent, first.id, line(speaker(first)), "run");
      for (const [place] of path.inStep(step)) this.boxOf.set(place, box);
      return;
    }
    for (const [place, item] of path.inStep(step)) {
      const { content } = item;
      this.boxOf.set(place, this.add(parentOf(path.s, item), content.id, label(content), content.kind));
    }
  }

  // add places a box below that of a parent; none: it is a root.
  private add(parent: number, id: string, label: string, kind: string): number {
    const i = this.boxes.length;
    this.boxes.push({ id, label, kind, x: 0, y: 0, width: boxWidth, height: boxHeight });
    this.kids.push([]);
    const above = parent === none ? undefined : this.boxOf.get(parent);
    if (above === undefined) this.roots.push(i);
    else this.kids[above]!.push(i);
    return i;
  }

  // layout gives each box a column and a layer. A column begins with one box and
  // continues with one box a layer, so that boxes do not overlap.
  layout(): Layout {
    const edges: Edge[] = [];
    const column: number[] = [];
    let columns = 0;
    const stack = this.roots.map((box) => ({ box, layer: 0, beside: true })).reverse();
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const { box, layer } = next;
      if (next.beside) column[box] = columns++;
      const b = this.boxes[box]!;
      b.x = column[box]! * (boxWidth + gapX);
      b.y = layer * (boxHeight + gapY);
      const kids = this.kids[box]!;
      for (let i = kids.length - 1; i >= 0; i--) stack.push({ box: kids[i]!, layer: layer + 1, beside: i > 0 });
      for (const [i, kid] of kids.entries()) {
        if (i === 0) column[kid] = column[box]!;
        edges.push({ from: b.id, to: this.boxes[kid]!.id });
      }
    }
    return { nodes: this.boxes, edges };
  }
}

// label returns a short description of a node.
function label(content: Content): string {
  switch (content.kind) {
    case "user":
      return line(userText(content));
    case "text":
    case "reasoning":
      return line(content.text());
    case "tool_call":
    case "tool_result":
    case "tool_progress":
      return line(textField(content, "name"));
    case "relay":
      return line(textField(content, "tool"));
    case "error":
      return line(textField(content, "message"));
    case "harness_start":
    case "harness_end":
      return line(textField(content, "agentId"));
    default:
      return content.kind;
  }
}

const labelLength = 28; // in letters

// line returns the beginning of a text in one line. A letter is a code point. It reads
// only so many bytes of UTF-8, as the server does.
function line(text: string): string {
  let bytes = 0;
  let start = "";
  for (const letter of text) {
    const code = letter.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > 8 * labelLength) break;
    start += letter;
  }
  const letters = [...start.split(/[\p{White_Space}\p{Cc}]+/u).filter((word) => word !== "").join(" ")];
  return letters.length > labelLength ? letters.slice(0, labelLength - 1).join("") + "…" : letters.join("");
}
