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

/** Merges changed sessions: each is listed once, the last changed first. */
export function merge(list: readonly Listed[], changed: readonly Listed[]): Listed[] {
  const byId = new Map(list.map((s) => [s.id, s]));
  for (const s of changed) {
    const old = byId.get(s.id);
    if (old === undefined || old.seq <= s.seq) byId.set(s.id, s);
  }
  return [...byId.values()].sort((a, b) => Date.parse(b.updated) - Date.parse(a.updated) || (a.id < b.id ? -1 : 1));
}

/** A session in its family: forks come below the session that they were forked from. */
export interface Row {
  readonly session: Listed;
  readonly depth: number;
}

/** Sessions as rows: families together, at the place of their last changed member, forks indented. */
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

/** A filter of the list as text: `state:waiting agent:billing "my router" slow`. Words and phrases must all occur. */
export interface Filter {
  readonly state?: Schemas["State"];
  readonly agent?: string;
  /** Days as 2026-03-01, where the reader is. */
  readonly since?: string;
  readonly until?: string;
  readonly words: string;
}

const states: readonly string[] = ["running", "waiting", "cut_off", "done", "failed", "canceled"];
const names = ["state", "agent", "since", "until"] as const;

function known(name: string, value: string): boolean {
  if (name === "state") return states.includes(value);
  return name === "agent" || (/^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value)));
}

export function parseFilter(text = ""): Filter {
  const given: Record<string, string> = {};
  const words = text
    .split('"')
    .map((part, i) =>
      i % 2 === 1
        ? part
        : part.replace(/(?<=^|\s)(state|agent|since|until):(\S+)(?=\s|$)/g, (all, name: string, value: string) => {
            if (!known(name, value)) return all;
            given[name] = value;
            return "";
          }),
    )
    .join('"')
    .replace(/\s+/g, " ")
    .trim();
  return { ...given, words };
}

export function formatFilter(filter: Filter): string {
  return [...names.flatMap((name) => (filter[name] ? [`${name}:${filter[name]}`] : [])), ...(filter.words === "" ? [] : [filter.words])].join(" ");
}

/** Whether all words and phrases occur in what a row shows. */
export function fits(s: Listed, words: string): boolean {
  const shown = `${s.title}\n${s.id}\n${s.active}`.toLowerCase();
  const terms = words.toLowerCase().split('"').flatMap((part, i) => (i % 2 === 1 ? [part.trim()] : part.split(/\s+/)));
  return terms.every((term) => shown.includes(term));
}

/** The beginning of a day where the reader is, or its end. */
function dayAt(day: string | undefined, end: boolean): string | undefined {
  return day === undefined ? undefined : new Date(`${day}T${end ? "23:59:59" : "00:00:00"}`).toISOString();
}

export class SessionList {
  readonly phase = signal<"loading" | "live" | "lost" | "failed">("loading");
  readonly error = signal<ApiError | undefined>(undefined);
  readonly lostSince = signal<Date | undefined>(undefined);
  readonly sessions = signal<readonly Listed[]>([]);
  /** Whether the server looks for what the filter wants. */
  readonly finding = signal(true);
  /** How far a search went; undefined without one. */
  readonly searched = signal<Schemas["Sessions"]["searched"]>(undefined);
  /** Where the next page begins; undefined if all are there. */
  readonly next = signal<string | undefined>(undefined);
  /** How often the server said that its tree answers otherwise now. */
  readonly trees = signal(0);
  private readonly asked = signal<ReadonlyMap<string, Schemas["SessionDetail"]>>(new Map());
  private arrived: Listed[] = [];
  private stop: (() => void) | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private asks = 0;

  constructor(
    readonly user: string | undefined,
    private filter: Filter,
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

  /** Applies another filter. The list changes when the server has answered. */
  search(filter: Filter): void {
    if (formatFilter(filter) === formatFilter(this.filter)) return;
    this.filter = filter;
    if (this.phase.peek() !== "failed") this.find(page).catch((error: unknown) => this.fail(error));
  }

  private async find(limit: number): Promise<void> {
    const nth = ++this.asks;
    this.finding.value = true;
    const first = await this.ask({ limit });
    if (this.closed || nth !== this.asks) return; // something else is looked for by now
    this.sessions.value = merge(first.sessions, this.arrived.filter((s) => this.wants(s)));
    this.next.value = first.next;
    this.searched.value = first.searched;
    this.finding.value = false;
  }

  /** Loads the next page. */
  async more(): Promise<void> {
    const after = this.next.value;
    if (after === undefined) return;
    const nth = this.asks;
    const { sessions, next, searched } = await this.ask({ after, limit: page });
    if (this.closed || nth !== this.asks) return;
    if (searched !== undefined) this.searched.value = { ...searched, sessions: searched.sessions + (this.searched.value?.sessions ?? 0) };
    this.sessions.value = merge(this.sessions.value, sessions);
    this.next.value = next;
  }

  /** Removes a deleted session from the list, since no stream reports that. */
  drop(id: string): void {
    this.sessions.value = this.sessions.value.filter((s) => s.id !== id);
    this.answered(id);
  }

  private async ask(query: { readonly after?: string; readonly limit: number; readonly state?: string }): Promise<Schemas["Sessions"]> {
    const { state, agent, words, since, until } = query.state === undefined ? this.filter : { words: "" };
    return get("/sessions", { query: { user: this.user, state, agent, q: words, since: dayAt(since, false), until: dayAt(until, true), ...query } });
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

  /** Loads the list again, since the page does not know what changed or was deleted while it followed no stream. */
  private async load(): Promise<void> {
    this.arrived = [];
    try {
      const limit = Math.min(most, Math.max(page, this.sessions.value.length));
      const [, waiting] = await Promise.all([this.find(limit), this.ask({ state: "waiting", limit: inbox })]);
      const details = await Promise.all(waiting.sessions.map((s) => this.detail(s.id)));
      if (this.closed) return;
      this.asked.value = new Map(details.filter((d) => d !== undefined && d.pending.length > 0).map((d) => [d!.id, d!]));
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

  private wants(s: Listed, found = false): boolean {
    const { state, agent, words, since, until } = this.filter;
    if ((state !== undefined && s.state !== state) || (agent !== undefined && s.active !== agent)) return false;
    if (since !== undefined && Date.parse(s.updated) < Date.parse(dayAt(since, false)!)) return false;
    if (until !== undefined && Date.parse(s.updated) > Date.parse(dayAt(until, true)!)) return false;
    // The server has found it by words that no row shows.
    return found || fits(s, words);
  }

  private take(frames: readonly Frame[]): void {
    if (this.closed) return;
    if (frames.some((f) => f.type === "tree")) this.trees.value++;
    const changed = frames.filter((f) => f.type === "").map((f) => f.data as Listed);
    if (changed.length === 0) return;
    this.arrived.push(...changed);
    const found = new Set(this.sessions.peek().map((s) => s.id));
    const gone = changed.filter((s) => !this.wants(s, found.has(s.id))).map((s) => s.id);
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
