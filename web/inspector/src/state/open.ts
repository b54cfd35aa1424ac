// The session that is open: its log, which is loaded from its end and followed, and where the page
// looks at it.
import { texts } from "../texts.js";
import { type ReadonlySignal, type Signal, computed, effect, signal } from "@preact/signals";
import { ApiError, type Schemas, get, getExact, path } from "../net/api.js";
import { type Frame, follow } from "../net/stream.js";
import { attempt, may, tell } from "./app.js";
import type { LogEvent } from "./events.js";
import { Log, type Moment } from "./log.js";
import { route } from "./route.js";

/** How many events are asked for first, and how many with each page before them. */
const first = 500;
const page = 2000;
/** A longer log is not loaded as a whole unless the reader goes there. In events. */
const most = 50_000;
/** How long the page works on events before it lets the browser draw, in milliseconds. */
const slice = 8;
/** How long a hidden page stays connected, in milliseconds. */
const patience = 30_000;

/** Lets the browser draw and answer. A timer would wait for some milliseconds each time. */
function rest(): Promise<void> {
  return new Promise((goOn) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      goOn();
    };
    port2.postMessage(0);
  });
}

export type Phase = "loading" | "live" | "lost" | "ended" | "failed";

/** What the address asks of the native API about a session. */
export interface Key {
  readonly id: string;
  readonly user?: string;
}

export class OpenSession {
  /** Changes with each change of the log; the log itself is one object that grows. */
  readonly version = signal(0);
  readonly phase = signal<Phase>("loading");
  /** What went wrong, if the phase is "failed", or why the stream has ended. */
  readonly error = signal<ApiError | undefined>(undefined);
  /** Since when the server has not answered. */
  readonly lostSince = signal<Date | undefined>(undefined);
  /** The session as the server describes it: its title, its state, its parent. */
  readonly detail = signal<Schemas["SessionDetail"] | undefined>(undefined);
  readonly family = signal<readonly Schemas["Session"][]>([]);
  /** The session's state by the server's name: running, waiting, cut_off, done, failed, canceled. */
  readonly state = signal<Schemas["State"] | undefined>(undefined);
  /** The revision of the tree that serves the session. */
  readonly revision = signal("");
  /** Whether events before the first one of the log are being loaded. */
  readonly loadingOlder = signal(false);
  /** Runs whose blocks are folded in the conversation. They stay folded while the session is open. */
  readonly folded = signal<ReadonlySet<string>>(new Set());
  /** Positions that the session can be forked at, of a log that is too long to be loaded as a whole. */
  readonly checkpoints = signal<readonly number[]>([]);
  /** How often the server said that its tree answers otherwise now. */
  readonly trees = signal(0);
  private readonly gaps = !may("inspect");
  private readonly held = signal(new Log());
  private stopped = false;
  private disconnect: (() => void) | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private queue: Frame[] = [];
  private drawing = false;
  private lastId = "";
  private looked: unknown;

  private readonly stopLooking: () => void;

  constructor(readonly key: Key) {
    // If the reader looks at a position before the first loaded event, the events before it are loaded.
    this.stopLooking = effect(() => {
      const { from } = this.held.value;
      const at = this.asked.value;
      if (at !== undefined && at < from && this.phase.value !== "loading") void this.reach(at);
    });
    void this.load();
  }

  /** The position of the address; undefined is the live end. */
  private readonly asked = computed(() => {
    const now = route.value;
    return now.screen === "session" && now.id === this.key.id ? now.at : undefined;
  });

  /** The log. It is one object that grows; reading it here subscribes to each new version. */
  readonly log = growing(this.version, this.held);

  /** What the page shows: the live end, or the position of the address. */
  readonly moment = computed((): Moment => {
    const log = this.log.value;
    const at = this.asked.value;
    return at === undefined ? log.end : log.at(at);
  });

  /** The facts of what the page shows. No delta changes them. */
  readonly facts = computed(() => this.moment.value.facts);

  /** The log for readers that need no deltas: they are notified of stored events only. */
  readonly stored = growing(computed(() => this.log.value.end.facts), this.held);

  /** Whether the page shows a position in the past. */
  readonly inPast = computed(() => (this.asked.value ?? Infinity) < this.log.value.end.seq);

  /** Whether the address names a position that the log does not have, so that its end is shown. */
  readonly beyond = computed(() => this.phase.value !== "loading" && (this.asked.value ?? 0) > this.log.value.end.seq);

  /** The path of the session in the native API. */
  get path(): string {
    return path("sessions", this.key.id);
  }

  get query(): { readonly user?: string } {
    return this.key.user === undefined ? {} : { user: this.key.user };
  }

  close(): void {
    this.stopped = true;
    this.stopLooking();
    this.disconnect?.();
    clearTimeout(this.hiding);
  }

  /** Called when the page is hidden or visible again: a hidden one closes its connection after a while. */
  seen(yes: boolean): void {
    clearTimeout(this.hiding);
    if (yes) this.connect();
    else {
      this.hiding = setTimeout(() => {
        this.disconnect?.();
        this.disconnect = undefined;
      }, patience);
    }
  }

  private async load(): Promise<void> {
    try {
      const [detail, newest] = await Promise.all([
        this.ask(),
        this.page({ before: "end", align: "turn", limit: first }),
      ]);
      if (this.stopped) return;
      this.detail.value = detail;
      this.state.value = detail.state;
      const events = newest.events as LogEvent[];
      const log = new Log(events[0]?.seq ?? 1, this.gaps);
      log.add(events);
      this.held.value = log;
      this.phase.value = "live";
      this.version.value++;
      this.lastId = log.end.seq > 0 ? String(log.end.seq) : "";
      this.connect();
      this.look();
      void this.relatives();
      if (log.end.seq <= most) void this.reach(1);
      else void this.loadCheckpoints();
    } catch (error) {
      this.fail(error);
    }
  }

  private ask(): Promise<Schemas["SessionDetail"]> {
    return getExact(this.path, { query: this.query });
  }

  /** A question as the server has it: with all of its arguments, and whether the reader may decide. Undefined until the server has reported it. */
  question(callId: string, digest: string | undefined): Schemas["Call"] | undefined {
    return this.detail.value?.pending.find((q) => q.callId === callId && (q.digest ?? "") === (digest ?? ""));
  }

  /** Asks the server about questions of the log that are new. */
  private look(): void {
    const { questions } = this.held.peek().end.facts;
    if (questions !== this.looked && questions.some((q) => this.question(q.callId, q.digest) === undefined)) void this.refresh();
    this.looked = questions;
  }

  /** Asks the server for the session's state again. */
  async refresh(): Promise<void> {
    const detail = await attempt(() => this.ask());
    if (detail !== undefined && !this.stopped && detail.seq >= (this.detail.peek()?.seq ?? 0)) this.detail.value = detail;
  }

  /** Loads older events than the log has, if the reader wants to see them. */
  loadAll(): Promise<void> {
    return this.reach(1);
  }

  private async relatives(): Promise<void> {
    const family = await attempt(() => get<Schemas["Sessions"]>(`${this.path}/family`, { query: this.query }));
    if (family !== undefined && !this.stopped) this.family.value = family.sessions;
  }

  private async loadCheckpoints(): Promise<void> {
    let after: string | undefined = "0";
    const query = { ...this.query, limit: 5000 };
    while (after !== undefined && !this.stopped) {
      const page: Schemas["Checkpoints"] | undefined = await attempt(() => get(`${this.path}/checkpoints`, { query: { ...query, after } }));
      if (page === undefined) return;
      this.checkpoints.value = [...this.checkpoints.value, ...page.checkpoints.map((c) => c.seq)];
      after = page.next;
    }
  }

  /** Loads events until a position is there. It reports an error to the reader, and keeps what it has. */
  private async reach(seq: number): Promise<void> {
    if (this.loadingOlder.peek() || this.held.peek().from <= seq) return;
    this.loadingOlder.value = true;
    try {
      await this.older(seq);
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) this.fail(error);
      else tell(texts.session.notLoaded(this.held.peek().from, error instanceof Error ? error.message : ""), true);
    } finally {
      this.loadingOlder.value = false;
    }
  }

  /**
   * Loads the log from its beginning, or what is needed of a long one, while the shown log stays,
   * whose place it then takes.
   */
  private async older(seq: number): Promise<void> {
    const before = this.held.peek().from;
    const whole = await (before > most ? this.backTo(seq, before) : this.fromBeginning(before));
    // What came meanwhile is in the log that is shown, and is copied from there.
    const held = this.held.peek();
    for (let done = 0; !this.stopped && done < held.events.length; ) {
      const some = held.events.slice(done, done + 256);
      await this.sliced(whole, some);
      done += some.length;
    }
    if (this.stopped || whole.end.seq !== held.end.seq) return;
    for (const [at, clip] of held.clips) whole.clips.set(at, clip);
    whole.add(held.deltas);
    whole.unkept = held.unkept;
    this.held.value = whole;
    this.version.value++;
  }

  private async fromBeginning(before: number): Promise<Log> {
    const whole = new Log(1, this.gaps);
    // While one page is added, the next one is loading.
    const ask = (after: number): Promise<LogEvent[]> | undefined =>
      after >= before - 1 ? undefined : this.page({ after, limit: page }).then(({ events }) => events as LogEvent[]);
    for (let coming = ask(0); coming !== undefined && !this.stopped; ) {
      const events = await coming;
      const last = events.at(-1)?.seq;
      if (last === undefined) throw new Error(texts.errors.fewer);
      coming = ask(last);
      coming?.catch(() => {}); // it is awaited later, and reported then
      await this.sliced(whole, events.filter((e) => (e.seq ?? 0) < before));
    }
    return whole;
  }

  private async backTo(seq: number, before: number): Promise<Log> {
    const pages: LogEvent[][] = [];
    let first = before;
    while (!this.stopped && first > seq) {
      const events = (await this.page({ before: first, limit: page, align: "turn" })).events as LogEvent[];
      const some = events.filter((e) => (e.seq ?? 0) < first);
      if (some.length === 0) throw new Error(texts.errors.fewer);
      pages.unshift(some);
      first = some[0]!.seq ?? 1;
    }
    const log = new Log(first, this.gaps);
    for (const some of pages) await this.sliced(log, some);
    return log;
  }

  private page(query: Readonly<Record<string, string | number>>): Promise<Schemas["Events"]> {
    return get<Schemas["Events"]>(`${this.path}/events`, { query: { ...this.query, media: "omit", clip: 16_384, ...query } });
  }

  private async sliced(log: Log, events: readonly LogEvent[]): Promise<void> {
    for (let done = 0; done < events.length; ) {
      const end = performance.now() + slice;
      for (; done < events.length && performance.now() < end; done += 64) log.add(events.slice(done, done + 64));
      await rest();
    }
  }

  private connect(): void {
    if (this.disconnect !== undefined || this.stopped || this.phase.value === "failed") return;
    this.disconnect = follow({
      path: `${this.path}/events`,
      query: { ...this.query, media: "omit", clip: 16_384 },
      after: this.lastId,
      frames: (frames) => this.receive(frames),
      connected: (yes) => {
        if (this.stopped || this.phase.value === "failed") return;
        if (yes) {
          this.lostSince.value = undefined;
          this.looked = undefined;
          this.look();
        } else this.lostSince.value ??= new Date();
        this.phase.value = yes ? "live" : "lost";
      },
      failed: (error) => this.fail(error),
    });
  }

  /** Frames wait for the next picture of the browser: many make one change of the page. */
  private receive(frames: readonly Frame[]): void {
    for (const frame of frames) {
      this.queue.push(frame);
      if (frame.id !== "") this.lastId = frame.id;
    }
    if (this.drawing) return;
    this.drawing = true;
    const draw = (): void => {
      this.drawing = false;
      this.take(this.queue.splice(0));
    };
    if (document.hidden) setTimeout(draw);
    else requestAnimationFrame(draw);
  }

  private take(frames: readonly Frame[]): void {
    if (this.stopped) return;
    const events: LogEvent[] = [];
    for (const frame of frames) {
      if (frame.type === "") events.push(frame.data as LogEvent);
      else if (frame.type === "state") {
        const now = frame.data as Schemas["StreamState"];
        this.state.value = now.state;
        this.revision.value = now.revision;
      } else if (frame.type === "tree") this.trees.value++;
      else if (frame.type === "end") this.end(frame.data as Schemas["StreamEnd"]);
    }
    try {
      this.held.value.add(events);
    } catch (error) {
      this.fail(error);
      return;
    }
    this.version.value++;
    this.look();
  }

  private end({ reason }: Schemas["StreamEnd"]): void {
    if (reason === "stopping" || reason === "turn") return; // the stream resumes with the next process
    if (reason === "deleted") this.fail(new ApiError(404, "not_found", texts.errors.deleted));
    else this.fail(new ApiError(401, "unauthorized", texts.errors.unauthorized));
  }

  private fail(error: unknown): void {
    if (this.stopped) return;
    this.error.value = error instanceof ApiError ? error : new ApiError(0, "page", error instanceof Error ? error.message : String(error));
    this.phase.value = "failed";
    this.lostSince.value = undefined;
    this.disconnect?.();
  }
}

/** The session of the address, if it is one's screen. It stays open as long as the address names it. */
export const open = signal<OpenSession | undefined>(undefined);

// growing reads a log that changes without becoming another object. A computed signal would notify no reader.
function growing(version: ReadonlySignal<unknown>, held: Signal<Log>): { readonly value: Log; peek(): Log } {
  return {
    get value(): Log {
      version.value;
      return held.value;
    },
    peek: () => held.peek(),
  };
}
