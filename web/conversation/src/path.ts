import { isObject } from "./json.js";
import { type Item, type State, at, childrenOf, find, findRun, inRun, none, runAt } from "./state.js";

/**
 * Chooses the path through a conversation that branches: where a message has
 * several that follow it, one is on the path. {} takes the newest everywhere. It
 * is plain data and travels as JSON, in the form that the server uses too. It
 * knows runs and nodes by their ids and serves every graph of the same events.
 */
export interface Active {
  /** Which run follows a run. */
  readonly next?: Readonly<Record<string, string>>;
  /** Runs that were chosen among the beginnings beside them. */
  readonly begins?: readonly string[];
  /** The run of an edited message without a parent, and the run of the message that it stands beside. */
  readonly beside?: Readonly<Record<string, string>>;
  /** Where the path ends, by run: at a node, or with the run. What is in without does not follow there. */
  readonly ends?: Readonly<Record<string, { readonly node?: string; readonly without?: readonly string[] }>>;
  /** Runs that are folded to what they said. */
  readonly collapsed?: readonly string[];
  /** Texts, by the last run that they stand for. */
  readonly summaries?: Readonly<Record<string, string>>;
}

/** A run on the path. */
export interface Step {
  readonly run: number;
  readonly cut: number; // the last node that counts; none if all do
  readonly by: readonly number[]; // runs that take up the calls that the run has left open, see continues
}

/** The runs without a parent, and which of them follow each other. */
export interface Beginnings {
  readonly before: ReadonlyMap<number, number>; // the one that each follows, or none
  readonly after: ReadonlyMap<number, readonly number[]>; // those that follow one, or none
}

function entries<T>(value: Readonly<Record<string, T>> | undefined): Map<string, T> {
  return new Map(isObject(value) ? (Object.entries(value) as [string, T][]) : []);
}

// record returns plain data, in which any id is safe, or undefined if it is empty.
function record<T>(map: ReadonlyMap<string, T>): Record<string, T> | undefined {
  if (map.size === 0) return undefined;
  const out = Object.create(null) as Record<string, T>;
  for (const [id, value] of map) out[id] = value;
  return out;
}

function list(ids: ReadonlySet<string>): string[] | undefined {
  return ids.size === 0 ? undefined : [...ids].sort();
}

// Nodes on which a run can hang that takes up another one.
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
    /** The graph, which may become another one of the same events. */
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

  /** The path as data, without what is empty. */
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

  /** The runs on the path, from the root. */
  steps(): Step[] {
    const steps: Step[] = [];
    const b = this.beginnings();
    for (let ri = this.choose(b, none); ri !== none; ri = this.choose(b, ri)) steps.push(...this.onward(ri));
    return steps;
  }

  /**
   * Each beginning follows the one that was seen before it. But some stand beside
   * each other, where the one that was seen first stands: what was edited, and two
   * messages of the user with the same seq, because a log has every seq once: they
   * are the first ones of a session and of a fork that shares nothing with it.
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

  /** The one that follows a beginning on the path, or none. */
  choose(b: Beginnings, ri: number): number {
    const all = b.after.get(ri) ?? [];
    return all.find((next) => this.begins.has(this.id(next))) ?? all.at(-1) ?? none;
  }

  /** A run and those that follow it, one after the other. */
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

  /** The last node of a run that counts if another run, or none, follows it; none if all do. */
  cut(ri: number, next: number): number {
    let cut = none;
    const end = this.ends.get(this.id(ri));
    if (next !== none) cut = runAt(this.s, next).parent;
    else if (end !== undefined) cut = find(this.s, end.node);
    return cut !== none && (this.item(cut).run !== ri || this.isEnd(cut)) ? none : cut;
  }

  /** The run that follows a run on the path, or none. */
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

  /** The runs that follow a run: the alternatives. */
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
   * The runs that could stand where a run does, itself among them: those that follow
   * the same one. One that follows nothing has none.
   */
  rivals(ri: number, b: Beginnings): readonly number[] {
    const { parent } = runAt(this.s, ri);
    if (this.follows(ri)) return this.followers(this.item(parent).run);
    return parent === none ? (b.after.get(b.before.get(ri)!) ?? []) : [];
  }

  /** The runs that hang on a node, in the order of first sight. */
  spawnedBy(item: Item): number[] {
    if (item.spawned === null) return [];
    return childrenOf(this.s, item)
      .map((child) => this.item(child).run)
      .filter((ni) => ni !== item.run);
  }

  /**
   * Says whether a run follows the one that it hangs on, rather than being a part
   * of what that one does: whether it is the user's, or answers the user, or hangs
   * on the end of a run, or takes up one that was cut off.
   */
  follows(ri: number): boolean {
    const run = runAt(this.s, ri);
    if (run.parent === none || run.first === none) return false;
    return this.item(run.first).content.kind === "user" || this.isEnd(run.parent) || this.continues(ri);
  }

  /**
   * Says whether a run takes up another one where that one was cut off: it is the
   * same agent's, and hangs on what that agent said, used or learnt, or on its start.
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

  /** The id of the message that begins with a run. */
  messageId(begin: number): string {
    return `message:${this.id(begin)}`;
  }

  /**
   * Reports whether a run begins a message: the user's run does, the run that follows it,
   * and a run without a parent. Any other run is a block of the message that it hangs
   * on: a transfer's target, a run that resumes another one, a sub-agent, a child of a
   * workflow.
   */
  beginsMessage(ri: number): boolean {
    const { parent } = runAt(this.s, ri);
    return parent === none || this.isUser(ri) || (this.isUser(this.item(parent).run) && this.follows(ri));
  }

  private isUser(ri: number): boolean {
    return this.item(runAt(this.s, ri).first).content.kind === "user";
  }

  /** Says whether a node closes what somebody had to say: what hangs on it follows the whole run. */
  isEnd(place: number): boolean {
    const { content, next } = this.item(place);
    return content.kind === "user" || content.kind === "harness_end" || (content.kind === "error" && next === none);
  }

  /** The latest summary on the path, the runs that it stands for, and those that follow. */
  summarized(): { summary: string; before: Step[]; steps: Step[] } {
    const steps = this.steps();
    for (let i = steps.length - 1; i >= 0; i--) {
      const summary = this.summaries.get(this.id(steps[i]!.run));
      if (summary !== undefined) return { summary, before: steps.slice(0, i + 1), steps: steps.slice(i + 1) };
    }
    return { summary: "", before: [], steps };
  }

  /**
   * Calls f for the steps and for what began inside of them, but for what is inside of
   * collapsed runs. A list of what is still to be done takes the place of recursion,
   * because agents can nest deeply.
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

  /** The places and nodes of a step. */
  *inStep(step: Step): Generator<[number, Item], void> {
    for (const entry of inRun(this.s, step.run)) {
      yield entry;
      if (entry[0] === step.cut) return;
    }
  }

  /**
   * The place of the result of a call that is made in a step, or none. It can stand
   * anywhere; but if other runs take up this one, the results of the last of them
   * come first, and those of the run itself last: in a graph of several sessions a
   * call can have several, and one that was given behind the place where a later run
   * takes up is off the path.
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
    // Not the answer that the call got in a fork, off the path.
    return place !== none && this.continues(has) ? none : place;
  }
}
