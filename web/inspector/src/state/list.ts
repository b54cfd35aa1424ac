// The sessions of a user, the last changed first, and which of them wait for a decision; followed as
// they change. They are followed on the screens that show them, so that a tab has one stream.
import { computed, signal } from "@preact/signals";
import { ApiError, type Schemas, get, getExact, path } from "../net/api.js";
import { type Frame, follow } from "../net/stream.js";

export type Listed = Schemas["Session"];

/** How many sessions are asked for at a time, and at most. */
const page = 50;
const most = 200;
/** How many waiting sessions are asked what they wait for. */
const inbox = 20;
/** How long a hidden page stays connected, in milliseconds. */
const patience = 30_000;

/** Takes in changed sessions: each stands once, the last changed first. */
export function merge(list: readonly Listed[], changed: readonly Listed[]): Listed[] {
  const byId = new Map(list.map((s) => [s.id, s]));
  for (const s of changed) {
    const old = byId.get(s.id);
    if (old === undefined || old.seq <= s.seq) byId.set(s.id, s);
  }
  return [...byId.values()].sort((a, b) => Date.parse(b.updated) - Date.parse(a.updated) || (a.id < b.id ? -1 : 1));
}

/** A session in its family: forks stand below the session of which they are one. */
export interface Row {
  readonly session: Listed;
  readonly depth: number;
}

/** Sessions as rows: families together, where their last changed member stands, forks indented. */
export function families(list: readonly Listed[]): Row[] {
  const here = new Map(list.map((s) => [s.id, s]));
  const children = new Map<string, Listed[]>();
  const tops: Listed[] = [];
  const topOf = (s: Listed): Listed => {
    const seen = new Set([s.id]);
    for (let above = here.get(s.parent?.id ?? ""); above !== undefined && !seen.has(above.id); above = here.get(s.parent?.id ?? "")) {
      seen.add(above.id);
      s = above;
    }
    return s;
  };
  for (const s of list) {
    const top = topOf(s);
    if (!tops.includes(top)) tops.push(top);
    if (s !== top) children.set(s.parent!.id!, [...(children.get(s.parent!.id!) ?? []), s]);
  }
  const rows: Row[] = [];
  const add = (session: Listed, depth: number): void => {
    if (rows.some((r) => r.session === session)) return;
    rows.push({ session, depth });
    for (const child of children.get(session.id) ?? []) add(child, depth + 1);
  };
  for (const top of tops) add(top, 0);
  return rows;
}

/** What a filter of the list says: `state:waiting refund` is a state, and words that all must occur. */
export interface Filter {
  readonly state?: Schemas["State"];
  readonly words: string;
}

const states: readonly string[] = ["running", "waiting", "cut_off", "done", "failed", "canceled"];

export function parseFilter(text = ""): Filter {
  const found = /(?:^|\s)state:(\w+)(?=\s|$)/.exec(text);
  const known = found !== null && states.includes(found[1]!);
  const words = (known ? text.replace(found[0], " ") : text).trim();
  return known ? { state: found[1] as Schemas["State"], words } : { words };
}

export function formatFilter({ state, words }: Filter): string {
  return [...(state === undefined ? [] : [`state:${state}`]), ...(words === "" ? [] : [words])].join(" ");
}

/** Whether all words occur in what a row shows. */
export function fits(s: Listed, words: string): boolean {
  const shown = `${s.title} ${s.id} ${s.active}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => shown.includes(word));
}


export class SessionList {
  readonly phase = signal<"loading" | "live" | "lost" | "failed">("loading");
  readonly error = signal<ApiError | undefined>(undefined);
  readonly lostSince = signal<Date | undefined>(undefined);
  readonly sessions = signal<readonly Listed[]>([]);
  /** Where the next page begins; undefined if all are there. */
  readonly next = signal<string | undefined>(undefined);
  /** How often the server said that its tree answers otherwise now. */
  readonly trees = signal(0);
  private readonly asked = signal<ReadonlyMap<string, Schemas["SessionDetail"]>>(new Map());
  private arrived: Listed[] = [];
  private stop: (() => void) | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(
    readonly user: string | undefined,
    readonly state: Schemas["State"] | undefined,
  ) {
    this.connect();
  }

  /** The sessions that wait for a decision, the one that waits longest first. */
  readonly inbox = computed(() => [...this.asked.value.values()].sort((a, b) => Date.parse(a.updated) - Date.parse(b.updated)));

  close(): void {
    this.closed = true;
    this.stop?.();
    clearTimeout(this.hiding);
  }

  /** Called when the page is hidden or seen again. */
  seen(yes: boolean): void {
    clearTimeout(this.hiding);
    if (yes) this.connect();
    else {
      this.hiding = setTimeout(() => {
        this.stop?.();
        this.stop = undefined;
      }, patience);
    }
  }

  /** Loads the next page. */
  async more(): Promise<void> {
    const after = this.next.value;
    if (after === undefined) return;
    const { sessions, next } = await this.ask({ after, limit: page });
    if (this.closed) return;
    this.sessions.value = merge(this.sessions.value, sessions);
    this.next.value = next;
  }

  /** Takes a session out that was deleted, which no stream says. */
  drop(id: string): void {
    this.sessions.value = this.sessions.value.filter((s) => s.id !== id);
    this.answered(id);
  }

  private async ask(query: { readonly after?: string; readonly limit: number; readonly state?: string }): Promise<Schemas["Sessions"]> {
    return get("/sessions", { query: { user: this.user, state: this.state, ...query } });
  }

  private connect(): void {
    if (this.closed || this.stop !== undefined || this.phase.value === "failed") return;
    this.stop = follow({
      path: "/changes",
      query: { user: this.user },
      frames: (frames) => this.take(frames),
      connected: (yes) => {
        if (this.closed) return;
        if (yes) void this.load();
        else {
          this.lostSince.value ??= new Date();
          this.phase.value = "lost";
        }
      },
      failed: (error) => this.fail(error),
    });
  }

  /** Asks for the list anew, since nobody says what changed, or was deleted, while nothing was followed. */
  private async load(): Promise<void> {
    this.arrived = [];
    try {
      const limit = Math.min(most, Math.max(page, this.sessions.value.length));
      const [first, waiting] = await Promise.all([this.ask({ limit }), this.ask({ state: "waiting", limit: inbox })]);
      const details = await Promise.all(waiting.sessions.map((s) => this.detail(s.id)));
      if (this.closed) return;
      this.asked.value = new Map(details.filter((d) => d !== undefined && d.pending.length > 0).map((d) => [d!.id, d!]));
      this.sessions.value = merge(first.sessions, this.arrived.filter((s) => this.wants(s)));
      this.next.value = first.next;
      this.lostSince.value = undefined;
      this.phase.value = "live";
    } catch (error) {
      this.fail(error);
    }
  }

  private async detail(id: string): Promise<Schemas["SessionDetail"] | undefined> {
    try {
      return await getExact<Schemas["SessionDetail"]>(path("sessions", id), { query: { user: this.user } });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined; // deleted meanwhile
      throw error;
    }
  }

  private wants(s: Listed): boolean {
    return this.state === undefined || s.state === this.state;
  }

  private take(frames: readonly Frame[]): void {
    if (this.closed) return;
    if (frames.some((f) => f.type === "tree")) this.trees.value++;
    const changed = frames.filter((f) => f.type === "").map((f) => f.data as Listed);
    if (changed.length === 0) return;
    this.arrived.push(...changed);
    const gone = changed.filter((s) => !this.wants(s)).map((s) => s.id);
    this.sessions.value = merge(this.sessions.value, changed).filter((s) => !gone.includes(s.id));
    for (const s of changed) {
      if (s.state === "waiting") void this.question(s);
      else this.answered(s.id);
    }
  }

  private async question({ id }: Listed): Promise<void> {
    const detail = await this.detail(id).catch(() => undefined);
    if (this.closed) return;
    if (detail === undefined || detail.pending.length === 0) this.answered(id);
    else if ((this.asked.value.get(id)?.seq ?? 0) <= detail.seq) this.asked.value = new Map(this.asked.value).set(id, detail);
  }

  private answered(id: string): void {
    if (!this.asked.value.has(id)) return;
    const left = new Map(this.asked.value);
    left.delete(id);
    this.asked.value = left;
  }

  private fail(error: unknown): void {
    if (this.closed) return;
    this.stop?.();
    this.stop = undefined;
    this.error.value = error instanceof ApiError ? error : new ApiError(0, "page", error instanceof Error ? error.message : String(error));
    this.phase.value = "failed";
  }
}

/** The list of the address, as long as a screen of the address shows one. */
export const list = signal<SessionList | undefined>(undefined);
