// The result of thread, kept between calls, so that a later call rebuilds only what has
// changed.
import { Answers, type Message } from "./answers.js";
import { type Marks, markDifferences } from "./differences.js";
import { keepCall, keepList, keepView, nothing } from "./keep.js";
import type { Beginnings, Path, Step } from "./path.js";
import { type State, none, runAt } from "./state.js";
import type { ThreadOptions, ViewCall, ViewNode } from "./thread.js";

/** A run and the runs that follow it: of the conversation, or inside another run. */
class Strand {
  readonly depth: number;
  readonly steps: Shown[] = [];
  nodes: readonly ViewNode[] = nothing;
  gone = false;

  // The pending work of this call.
  unjoined = false;
  from = Infinity; // the index of the first step that was added or removed
  changed: Shown[] = []; // steps with other view nodes

  constructor(readonly owner: Shown | null) {
    this.depth = owner === null ? 0 : owner.strand.depth + 1;
  }
}

/** A message of a run, with the runs that began inside it and in each of its calls. */
interface Part {
  readonly from: number; // as in Message
  readonly view: ViewNode;
  readonly inside: readonly Strand[];
  readonly inCalls: readonly (readonly Strand[])[];
}

/** A run that is shown. */
class Shown implements Step {
  cut = none;
  by: readonly number[] = nothing;
  parts: readonly Part[] = nothing;
  alternatives: readonly string[] = nothing;
  offset = 0; // the index of its first view node in the strand
  count = 0; // the number of its view nodes there
  gone = false;

  // The pending work of this call.
  turns = false; // determine what follows
  stale = false; // build all messages
  unfinished = false; // build the view nodes
  drafts: (Omit<Part, "view"> & { readonly message: Message })[] | undefined;
  words: number[] = []; // places of blocks whose text has changed
  others = false; // the alternatives or the view nodes inside have changed

  constructor(
    readonly strand: Strand,
    readonly index: number,
    readonly run: number,
    readonly id: string, // the run's
    public was: Shown | undefined, // the run where it was shown before
    readonly messageId: string,
    public twin: Shown | undefined, // the same run in another place, because a path can lead to a run inside another one
  ) {
    this.alternatives = was?.alternatives ?? nothing;
  }
}

/** The pending work for the strands at one depth. */
interface Level {
  readonly turns: Shown[];
  readonly stale: Shown[];
  readonly unfinished: Shown[];
  readonly unjoined: Strand[];
}

export class Strands implements Marks {
  private state: State | undefined;
  private readonly answers: Answers;
  private begins: Beginnings = { before: new Map(), after: new Map() };
  private top: Strand[] = [];
  private out: readonly ViewNode[] = nothing;
  private shown = new Map<number, Shown>(); // by run

  // The pending work of this call.
  private mustClear = false;
  private mustBegin = true;
  private levels: Level[] = [];
  private past = new Map<string, Shown>(); // runs that are no longer shown, by id, because other graphs may number them differently

  constructor(
    private readonly path: Path,
    options: ThreadOptions,
  ) {
    this.answers = new Answers(path, options);
  }

  /** Returns the thread of a graph. After it has thrown an error, no other method may be called. */
  at(state: State): readonly ViewNode[] {
    const before = this.state;
    if (before === state) return this.out;
    this.path.s = this.state = state;
    if (before !== undefined) markDifferences(before, state, this);
    this.update();
    return this.out;
  }

  everything(): void {
    this.mustClear = this.mustBegin = true;
  }

  beginnings(): void {
    this.mustBegin = true;
  }

  grew(ri: number): void {
    for (let step = this.shown.get(ri); step !== undefined; step = step.twin) {
      if (step.turns) continue;
      step.turns = true;
      this.level(step.strand).turns.push(step);
    }
  }

  said(ri: number): void {
    for (let step = this.shown.get(ri); step !== undefined; step = step.twin) this.makeLater(step);
  }

  words(ri: number, place: number): void {
    for (let step = this.shown.get(ri); step !== undefined; step = step.twin) {
      step.words.push(place);
      this.finishLater(step);
    }
  }

  private level({ depth }: Strand): Level {
    while (this.levels.length <= depth) this.levels.push({ turns: [], stale: [], unfinished: [], unjoined: [] });
    return this.levels[depth]!;
  }

  private makeLater(step: Shown): void {
    if (!step.stale) this.level(step.strand).stale.push(step);
    step.stale = true;
  }

  private finishLater(step: Shown): void {
    if (!step.unfinished) this.level(step.strand).unfinished.push(step);
    step.unfinished = true;
  }

  private joinLater(strand: Strand): void {
    if (!strand.unjoined) this.level(strand).unjoined.push(strand);
    strand.unjoined = true;
  }

  // update first goes down, because a run determines what is inside it, and then up
  // again, because view nodes contain those inside them. Lists of pending work
  // replace recursion, because agents can be nested deeply.
  private update(): void {
    if (this.mustClear) this.clear();
    if (this.mustBegin) this.begin();
    for (let depth = 0; depth < this.levels.length; depth++) {
      const { turns, stale } = this.levels[depth]!;
      turns.sort((a, b) => a.index - b.index); // one may remove those after it
      for (const step of turns) if (!step.gone) this.turn(step);
      for (const step of stale) if (!step.gone) this.make(step);
    }
    let other = this.mustBegin || this.path.summaries.size > 0;
    for (let depth = this.levels.length - 1; depth >= 0; depth--) {
      const { unfinished, unjoined } = this.levels[depth]!;
      for (const step of unfinished) if (!step.gone) this.finish(step);
      for (const strand of unjoined) {
        if (strand.gone || !this.join(strand)) continue;
        if (strand.owner === null) {
          other = true;
        } else {
          strand.owner.others = true;
          this.finishLater(strand.owner);
        }
      }
    }
    if (other) this.out = keepList(this.out, this.whole());
    this.mustClear = this.mustBegin = false;
    this.levels = [];
    this.past = new Map();
  }

  private clear(): void {
    for (const first of this.shown.values()) {
      this.past.set(first.id, first);
      for (let step: Shown | undefined = first; step !== undefined; step = step.twin) step.gone = step.strand.gone = true;
    }
    this.shown = new Map();
    this.top = [];
    this.levels = [];
  }

  // begin determines the runs with which the conversation begins.
  private begin(): void {
    const { path } = this;
    this.begins = path.beginnings();
    const before = new Map(this.top.map((strand) => [strand.steps[0]!.run, strand]));
    this.top = [];
    for (let ri = path.choose(this.begins, none); ri !== none; ri = path.choose(this.begins, ri)) {
      const strand = before.get(ri);
      before.delete(ri);
      if (strand !== undefined) this.compare(strand.steps[0]!);
      this.top.push(strand ?? this.strand(null, ri));
    }
    for (const strand of before.values()) this.forget(strand, 0);
  }

  private strand(owner: Shown | null, ri: number): Strand {
    const strand = new Strand(owner);
    this.extend(strand, ri);
    const { was } = strand.steps[0]!;
    if (was?.index === 0) strand.nodes = was.strand.nodes;
    return strand;
  }

  // turn determines again which run follows a run.
  private turn(step: Shown): void {
    const { path } = this;
    step.turns = false;
    const next = path.follower(step.run);
    step.cut = path.cut(step.run, next);
    this.makeLater(step);
    const after = step.strand.steps[step.index + 1];
    if ((after?.run ?? none) !== next) {
      this.forget(step.strand, step.index + 1);
      this.extend(step.strand, next);
    } else if (after !== undefined) {
      this.compare(after);
    }
  }

  // extend appends a run and the runs that follow it to a strand.
  private extend(strand: Strand, ri: number): void {
    const { path } = this;
    const { steps } = strand;
    const from = steps.length;
    while (ri !== none) {
      const twin = this.shown.get(ri);
      const id = path.id(ri);
      const above = steps.at(-1) ?? strand.owner;
      const messageId = above === null || path.beginsMessage(ri) ? path.messageId(ri) : above.messageId;
      const step = new Shown(strand, steps.length, ri, id, this.past.get(id) ?? twin, messageId, twin);
      this.shown.set(ri, step);
      steps.push(step);
      this.compare(step);
      this.makeLater(step);
      const next = path.follower(ri);
      step.cut = path.cut(ri, next);
      ri = next;
    }
    strand.from = Math.min(strand.from, from);
    this.joinLater(strand);
    for (let i = steps.length - 1; i >= 0; i--) {
      const next = steps[i + 1];
      const by = keepList(steps[i]!.by, next !== undefined && path.continues(next.run) ? [next.run, ...next.by] : nothing);
      if (by === steps[i]!.by) {
        if (i < from) break;
        continue;
      }
      steps[i]!.by = by;
      this.makeLater(steps[i]!);
    }
  }

  // compare determines the alternatives of a run.
  private compare(step: Shown): void {
    const { path } = this;
    const rivals = path.rivals(step.run, this.begins);
    const ids = rivals.length < 2 ? nothing : rivals.map((ri) => path.item(runAt(path.s, ri).first).content.id);
    const alternatives = keepList(step.alternatives, ids);
    if (alternatives === step.alternatives) return;
    step.alternatives = alternatives;
    step.others = true;
    this.finishLater(step);
  }

  // forget removes the steps of a strand from an index on, and what is inside them.
  private forget(strand: Strand, from: number): void {
    strand.gone = from === 0;
    const todo = strand.steps.splice(from);
    for (let step = todo.pop(); step !== undefined; step = todo.pop()) {
      step.gone = true;
      if (!this.past.has(step.id)) this.past.set(step.id, step.was ?? step); // it may have been added in this call
      this.unlink(step);
      for (const inner of within(step)) {
        inner.gone = true;
        for (const step of inner.steps) todo.push(step);
      }
    }
  }

  private unlink(gone: Shown): void {
    const first = this.shown.get(gone.run)!;
    if (first !== gone) {
      let step = first;
      while (step.twin !== gone) step = step.twin!;
      step.twin = gone.twin;
    } else if (gone.twin !== undefined) {
      this.shown.set(gone.run, gone.twin);
    } else {
      this.shown.delete(gone.run);
    }
  }

  // make builds the messages of a run, without what is inside them.
  private make(step: Shown): void {
    step.stale = false;
    const before = new Map<number, Strand>();
    for (const strand of within(step)) before.set(strand.steps[0]!.run, strand);
    const inner = (ri: number): Strand => {
      const strand = before.get(ri) ?? this.strand(step, ri);
      before.delete(ri);
      return strand;
    };
    step.drafts = this.answers.of(step, step.messageId).map((message) => {
      const { inside, inCalls } = message;
      return { message, from: message.from, inside: inside.map(inner), inCalls: inCalls.map((runs) => runs.map(inner)) };
    });
    for (const strand of before.values()) this.forget(strand, 0);
    this.finishLater(step);
  }

  // finish builds the view nodes of a run after those inside it.
  private finish(step: Shown): void {
    const { drafts, words } = step;
    const old = drafts !== undefined && step.was !== undefined ? step.was.parts : step.parts;
    let parts: Part[];
    if (drafts !== undefined) {
      const before = byId(old.map((part) => part.view));
      const callsBefore = byId(old.flatMap((part) => part.view.toolCalls ?? nothing));
      parts = drafts.map(({ message: { view, calls }, from, inside, inCalls }, i) => {
        const part = { from, inside, inCalls, view: { ...view, toolCalls: calls } };
        return { ...part, view: this.view(step, i, part, before(view.id), callsBefore) };
      });
    } else {
      parts = old.slice();
      for (const place of words) {
        const i = lastFrom(parts, place);
        const part = parts[i];
        // Hidden reasoning may come after a message of the user.
        if (part === undefined || part.view.role === "user" || (step.cut !== none && place > step.cut)) continue;
        const end = parts[i + 1]?.from ?? Infinity;
        const view = { ...part.view, text: this.answers.words("text", step, part.from, end), reasoning: this.answers.words("reasoning", step, part.from, end) };
        parts[i] = { ...part, view: this.view(step, i, { ...part, view }, part.view, byId(part.view.toolCalls)) };
      }
      for (let i = 0; step.others && i < parts.length; i++) {
        const part = parts[i]!;
        if (i > 0 && part.inside.length === 0 && part.inCalls.length === 0) continue;
        parts[i] = { ...part, view: this.view(step, i, part, part.view, byId(part.view.toolCalls)) };
      }
    }
    if (parts.length !== step.count || parts.some((part, i) => part.view !== step.parts[i]!.view)) {
      step.strand.changed.push(step);
      this.joinLater(step.strand);
    }
    step.parts = parts;
    step.was = step.drafts = undefined;
    step.words = [];
    step.unfinished = step.others = false;
  }

  private view(step: Shown, i: number, { view, inside, inCalls }: Part, old: ViewNode | undefined, callsBefore: Before<ViewCall>): ViewNode {
    const nodes = (strand: Strand): readonly ViewNode[] => strand.nodes;
    const calls = (view.toolCalls ?? nothing).map((call, j) => keepCall(callsBefore(call.id), call, inCalls[j]!.map(nodes)));
    return keepView(old, view, calls, inside.map(nodes), i === 0 ? step.alternatives : nothing);
  }

  // join builds the list of a strand's view nodes, and reports whether it has
  // changed.
  private join(strand: Strand): boolean {
    const { steps, changed } = strand;
    let { from } = strand;
    for (const step of changed) if (step.parts.length !== step.count) from = Math.min(from, step.index);
    const before = steps[from - 1];
    const nodes = from === 0 ? [] : [...strand.nodes]; // slice takes fifty times as long for a frozen array
    if (before !== undefined) nodes.length = before.offset + before.count;
    for (const step of changed) {
      if (step.index < from && !step.gone) step.parts.forEach((part, i) => (nodes[step.offset + i] = part.view));
    }
    for (const step of from === Infinity ? [] : steps.slice(from)) {
      step.offset = nodes.length;
      step.count = step.parts.length;
      for (const part of step.parts) nodes.push(part.view);
    }
    strand.unjoined = false;
    strand.from = Infinity;
    strand.changed = [];
    const kept = keepList(strand.nodes, nodes);
    const other = kept !== strand.nodes;
    strand.nodes = kept;
    return other;
  }

  // whole returns the view nodes of the conversation, starting at the latest summary
  // if there is one.
  private whole(): readonly ViewNode[] {
    const { path, top } = this;
    const [only] = top;
    if (only !== undefined && top.length === 1 && path.summaries.size === 0) return only.nodes;
    const out: ViewNode[] = [];
    if (path.summaries.size === 0) {
      for (const { nodes } of top) for (const node of nodes) out.push(node);
      return out;
    }
    const steps = top.flatMap((strand) => strand.steps);
    let last = steps.length - 1;
    while (last >= 0 && !path.summaries.has(path.id(steps[last]!.run))) last--;
    if (last >= 0) {
      const first = runAt(path.s, steps[0]!.run);
      const text = path.summaries.get(path.id(steps[last]!.run))!;
      const view: ViewNode = { id: path.item(first.first).content.id, runId: first.id, messageId: steps[0]!.messageId, role: "summary", text, status: "complete" };
      const [old] = this.out;
      out.push(keepView(old?.role === "summary" ? old : undefined, view, nothing, nothing, nothing));
    }
    for (const step of steps.slice(last + 1)) for (const part of step.parts) out.push(part.view);
    return out;
  }
}

// Before finds an item of the previous list by its id. It is fast if the items are
// requested in their order.
type Before<T> = (id: string) => T | undefined;

function byId<T extends { readonly id: string }>(list: readonly T[] = nothing): Before<T> {
  let next = 0;
  let all: Map<string, number> | undefined;
  return (id) => {
    if (list[next]?.id !== id) {
      all ??= new Map(list.map((item, i) => [item.id, i]));
      next = all.get(id) ?? next;
    }
    return list[next]?.id === id ? list[next++] : undefined;
  };
}

// within returns the strands inside a run.
function within(step: Shown): Strand[] {
  const found: Strand[] = [];
  for (const { inside, inCalls } of step.parts) {
    for (const strand of inside) found.push(strand);
    for (const strands of inCalls) for (const strand of strands) found.push(strand);
  }
  return found;
}

// lastFrom returns the index of the last message that begins at or before a place. The
// nodes of a run are in the order of their places.
function lastFrom(parts: readonly Part[], place: number): number {
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (parts[middle]!.from <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
