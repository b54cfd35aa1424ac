import { isObject } from "./json.js";
import { type Item, type State, at, childrenOf, find, findRun, inRun, none, runAt } from "./state.js";

/**
 * Chooses the path through a conversation with branches: where several runs follow the
 * same one, one of them is on the path. {} chooses the newest everywhere. It is plain
 * data that can be sent as JSON, in the form that the server uses too. It refers to
 * runs and nodes by their ids, so it fits every graph of the same events.
 */
export interface Active {
  /** The run that follows each run, by id. */
  readonly next?: Readonly<Record<string, string>>;
  /** Runs that were chosen among alternative beginnings. */
  readonly begins?: readonly string[];
  /** By the run of an edited message without a parent: the run of the original message. */
  readonly beside?: Readonly<Record<string, string>>;
  /** Where the path ends, by run: at a node, or at the end of the run. The runs in without do not follow there. */
  readonly ends?: Readonly<Record<string, { readonly node?: string; readonly without?: readonly string[] }>>;
  /** Runs that are reduced to their text. */
  readonly collapsed?: readonly string[];
  /** Summaries, by the last run that each replaces. */
  readonly summaries?: Readonly<Record<string, string>>;
}

/** A run on the path. */
export interface Step {
  readonly run: number;
  readonly cut: number; // the last node that is on the path; none if all are
  readonly by: readonly number[]; // the runs that resume this one and may have the results of its calls; see continues
}

/** The runs without a parent, and which of them follow each other. */
export interface Beginnings {
  readonly before: ReadonlyMap<number, number>; // the run that each follows, or none
  readonly after: ReadonlyMap<number, readonly number[]>; // the runs that follow a run, or none
}

function entries<T>(value: Readonly<Record<string, T>> | undefined): Map<string, T> {
  return new Map(isObject(value) ? (Object.entries(value) as [string, T][]) : []);
}

// record returns plain data in which any id is safe as a key, or undefined if the map
// is empty.
function record<T>(map: ReadonlyMap<string, T>): Record<string, T> | undefined {
  if (map.size === 0) return undefined;
  const out = Object.create(null) as Record<string, T>;
  for (const [id, value] of map) out[id] = value;
  return out;
}

function list(ids: ReadonlySet<string>): string[] | undefined {
  return ids.size === 0 ? undefined : [...ids].sort();
}

// Kinds of nodes at which a run may be cut off, so that the run that resumes it has
// such a node as its parent.
const canBeCutAt: ReadonlySet<string> = new Set(["harness_start", "text", "reasoning", "tool_result", "tool_progress", "relay", "usage", "error"]);

/** A path through a graph. */
export class Path {
  readonly next: Map<string, string>;
  readonly begins: Set<string>;
  readonly beside: Map<string, string>;
  readonly ends: Map<string, { node: string; without: Set<string> }>;
  readonly collapsed: Set<string>;
  readonly summaries: Map<string, string>;

  constructor(
    /** The state of the graph. It may be replaced by another state of the same events. */
    public s: State,
    active: Active,
  ) {
    this.next = entries(active.next);
    this.begins = new Set(active.begins);
    this.beside = entries(active.beside);
    this.ends = new Map(Array.from(entries(active.ends), ([run, end]) => [run, { node: end.node ?? "", without: new Set(end.without) }]));
    this.collapsed = new Set(active.collapsed);
    this.summaries = entries(active.summaries);
  }

  /** Returns the path as data. Empty members are absent. */
  active(): Active {
    const ends = new Map<string, object>();
    for (const [run, { node, without }] of this.ends) ends.set(run, { ...(node !== "" && { node }), ...(without.size > 0 && { without: list(without) }) });
    const all = {
      next: record(this.next),
      begins: list(this.begins),
      beside: record(this.beside),
      ends: record(ends),
      collapsed: list(this.collapsed),
      summaries: record(this.summaries),
    };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  }

  id(ri: number): string {
    return runAt(this.s, ri).id;
  }

  item(place: number): Item {
    return at(this.s, place);
  }

  /** Returns the runs on the path, starting at the root. */
  steps(): Step[] {
    const steps: Step[] = [];
    const b = this.beginnings();
    for (let ri = this.choose(b, none); ri !== none; ri = this.choose(b, ri)) steps.push(...this.onward(ri));
    return steps;
  }

  /**
   * Returns the runs without a parent in their order: each follows the one before it.
   * But some are alternatives of an earlier one: an edited message, and a user
   * message with the same seq. A log has each seq once, so two such messages are the
   * first ones of a session and of a fork that shares no events with it.
   */
  beginnings(): Beginnings {
    const before = new Map<number, number>();
    const after = new Map<number, number[]>();
    const bySeq = new Map<string, number>();
    let last = none;
    for (let ri = 0; ri < this.s.runs.length; ri++) {
      const run = runAt(this.s, ri);
      if (run.first === none || run.parent !== none) continue;
      let follows = last;
      const { content } = this.item(run.first);
      if (content.kind === "user") {
        const key = `${content.seq} ${run.waitsFor}`;
        const other = bySeq.get(key);
        const edited = this.beside.get(run.id);
        if (other !== undefined && content.seq > 0) follows = before.get(other)!;
        else if (edited !== undefined) follows = before.get(findRun(this.s, edited)) ?? last; // it may not be here
        else bySeq.set(key, ri);
      }
      before.set(ri, follows);
      const beside = after.get(follows);
      if (beside === undefined) after.set(follows, [ri]);
      else beside.push(ri);
      last = ri;
    }
    return { before, after };
  }

  /** Returns the beginning that follows a beginning on the path, or none. */
  choose(b: Beginnings, ri: number): number {
    const all = b.after.get(ri) ?? [];
    return all.find((next) => this.begins.has(this.id(next))) ?? all.at(-1) ?? none;
  }

  /** Returns a run and the runs that follow it, in order. */
  onward(ri: number): Step[] {
    const steps: { run: number; cut: number; by: number[] }[] = [];
    while (ri !== none) {
      const next = this.follower(ri);
      steps.push({ run: ri, cut: this.cut(ri, next), by: [] });
      ri = next;
    }
    for (let i = steps.length - 2; i >= 0; i--) {
      const next = steps[i + 1]!;
      if (this.continues(next.run)) steps[i]!.by = [next.run, ...next.by];
    }
    return steps;
  }

  /** Returns the last node of a run that is on the path if the run next, or none, follows it. The result is none if all nodes are. */
  cut(ri: number, next: number): number {
    let cut = none;
    const end = this.ends.get(this.id(ri));
    if (next !== none) cut = runAt(this.s, next).parent;
    else if (end !== undefined) cut = find(this.s, end.node);
    return cut !== none && (this.item(cut).run !== ri || this.isEnd(cut)) ? none : cut;
  }

  /** Returns the run that follows a run on the path, or none. */
  follower(ri: number): number {
    const id = this.id(ri);
    const chosen = this.next.get(id);
    if (chosen !== undefined) {
      const ni = findRun(this.s, chosen);
      if (ni !== none) {
        const next = runAt(this.s, ni);
        if (next.first !== none && next.parent !== none && this.item(next.parent).run === ri) return ni;
      }
    }
    let newest = none;
    let first = none;
    const without = this.ends.get(id)?.without;
    for (const ni of this.followers(ri)) {
      const next = runAt(this.s, ni);
      if (next.first > first && without?.has(next.id) !== true) {
        newest = ni;
        first = next.first;
      }
    }
    return newest;
  }

  /** Returns all runs that follow a run; they are alternatives. */
  followers(ri: number): number[] {
    const found: number[] = [];
    for (let place = runAt(this.s, ri).first; place !== none; ) {
      const item = this.item(place);
      if (item.spawned !== null) {
        for (const ni of this.spawnedBy(item)) if (this.follows(ni)) found.push(ni);
      }
      place = item.next;
    }
    return found;
  }

  /**
   * Returns the alternatives of a run, including the run itself: the runs that follow
   * the same run. A run that follows no other has none.
   */
  rivals(ri: number, b: Beginnings): readonly number[] {
    const { parent } = runAt(this.s, ri);
    if (this.follows(ri)) return this.followers(this.item(parent).run);
    return parent === none ? (b.after.get(b.before.get(ri)!) ?? []) : [];
  }

  /** Returns the runs whose parent is a node, in the order in which they were first seen. */
  spawnedBy(item: Item): number[] {
    if (item.spawned === null) return [];
    return childrenOf(this.s, item)
      .map((child) => this.item(child).run)
      .filter((ni) => ni !== item.run);
  }

  /**
   * Reports whether a run follows the run of its parent, as opposed to being a part
   * of it. It follows if it is the user's, answers the user, has the end of a run as
   * its parent, or resumes a run that was cut off.
   */
  follows(ri: number): boolean {
    const run = runAt(this.s, ri);
    if (run.parent === none || run.first === none) return false;
    return this.item(run.first).content.kind === "user" || this.isEnd(run.parent) || this.continues(ri);
  }

  /**
   * Reports whether a run resumes another one where that one was cut off: it is of
   * the same agent, and its parent is the start of that run, a text, a tool result or
   * another node at which a run may be cut off.
   */
  continues(ri: number): boolean {
    const run = runAt(this.s, ri);
    if (run.parent === none || run.first === none) return false;
    const parent = this.item(run.parent);
    if (!canBeCutAt.has(parent.content.kind)) return false;
    const first = this.item(run.first).content;
    const other = this.item(runAt(this.s, parent.run).first).content;
    return first.kind === "harness_start" && first.agent !== "" && first.agent === other.agent && first.path === other.path;
  }

  /** Returns the id of the message that begins with a run. */
  messageId(begin: number): string {
    return `message:${this.id(begin)}`;
  }

  /**
   * Reports whether a run begins a message: the user's run does, the run that follows
   * it, and a run without a parent. Any other run is a block of its parent's message:
   * a transfer's target, a run that resumes another one, a sub-agent, a child of a
   * workflow.
   */
  beginsMessage(ri: number): boolean {
    const { parent } = runAt(this.s, ri);
    return parent === none || this.isUser(ri) || (this.isUser(this.item(parent).run) && this.follows(ri));
  }

  private isUser(ri: number): boolean {
    return this.item(runAt(this.s, ri).first).content.kind === "user";
  }

  /** Reports whether a node ends its run, so that a run with this parent follows the whole run. */
  isEnd(place: number): boolean {
    const { content, next } = this.item(place);
    return content.kind === "user" || content.kind === "harness_end" || (content.kind === "error" && next === none);
  }

  /** Returns the latest summary on the path, the runs that it replaces, and the runs after it. */
  summarized(): { summary: string; before: Step[]; steps: Step[] } {
    const steps = this.steps();
    for (let i = steps.length - 1; i >= 0; i--) {
      const summary = this.summaries.get(this.id(steps[i]!.run));
      if (summary !== undefined) return { summary, before: steps.slice(0, i + 1), steps: steps.slice(i + 1) };
    }
    return { summary: "", before: [], steps };
  }

  /**
   * Calls f for the steps and for the runs that began inside them, except inside
   * collapsed runs. It uses a stack in place of recursion, because agents can be
   * nested deeply.
   */
  visit(steps: readonly Step[], f: (step: Step, collapsed: boolean) => void): void {
    const todo = [steps];
    for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
      for (const step of next) {
        const collapsed = this.collapsed.has(this.id(step.run));
        f(step, collapsed);
        if (collapsed) continue;
        for (const [, item] of this.inStep(step)) {
          for (const ri of this.spawnedBy(item)) if (!this.follows(ri)) todo.push(this.onward(ri));
        }
      }
    }
  }

  /** Yields the places and nodes of a step. */
  *inStep(step: Step): Generator<[number, Item], void> {
    for (const entry of inRun(this.s, step.run)) {
      yield entry;
      if (entry[0] === step.cut) return;
    }
  }

  /**
   * Returns the place of the result of a call that a step contains, or none. The
   * result may be in any run. In a graph of several sessions a call can have several
   * results: those of the last run that resumes this one come first, and those of the
   * run itself last. A result after the place at which a later run resumes is not on
   * the path.
   */
  resultOf(step: Step, callId: string): number {
    const place = find(this.s, `${callId}:result`);
    const has = place === none ? none : this.item(place).run;
    for (let i = step.by.length; i >= 0; i--) {
      const ri = i > 0 ? step.by[i - 1]! : step.run;
      if (has === ri) return place;
      const own = find(this.s, `${this.id(ri)}:${callId}:result`);
      if (own !== none && this.item(own).run === ri) return own;
    }
    // This is the result of the call in a fork, which is not on the path.
    return place !== none && this.continues(has) ? none : place;
  }
}
