// The session that is open: its log, which is loaded from its end and followed, and where the page
// looks at it.
import { computed, signal } from "@preact/signals";
import { ApiError, type Schemas, get, path } from "../net/api.js";
import { type Frame, follow } from "../net/stream.js";
import type { LogEvent } from "./events.js";
import { Log, type Moment } from "./log.js";
import { route } from "./route.js";

/** How many events are asked for first, and how many with each page before them. */
const first = 500;
const page = 2000;
/** A log above this length is not loaded as a whole unless somebody goes there. */
const most = 50_000;
/** How long the page works on events before it lets the browser draw, in milliseconds. */
const slice = 8;
/** How long a hidden page stays connected, in milliseconds. */
const patience = 30_000;

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
  /** The session as the server tells it: its title, its state, its parent. */
  readonly detail = signal<Schemas["SessionDetail"] | undefined>(undefined);
  readonly family = signal<readonly Schemas["Session"][]>([]);
  /** How the server says that the session stands: running, waiting, cut_off, done, failed, canceled. */
  readonly state = signal<Schemas["State"] | undefined>(undefined);
  /** The revision of the tree that serves the session. */
  readonly revision = signal("");
  /** How often the server said that its tree answers otherwise now. */
  readonly trees = signal(0);
  private readonly held = signal(new Log());
  private stopped = false;
  private disconnect: (() => void) | undefined;
  private hiding: ReturnType<typeof setTimeout> | undefined;
  private queue: Frame[] = [];
  private drawing = false;
  private lastId = "";

  constructor(readonly key: Key) {
    void this.load();
  }

  /** The log; it grows, and `version` says when. */
  readonly log = computed((): Log => {
    this.version.value;
    return this.held.value;
  });

  /** What the page shows: the live end, or the position of the address. */
  readonly moment = computed((): Moment => {
    const log = this.log.value;
    const at = route.value.screen === "session" ? route.value.at : undefined;
    return at === undefined ? log.end : log.at(at);
  });

  /** Whether the page shows a position in the past. */
  readonly inPast = computed(() => {
    const at = route.value.screen === "session" ? route.value.at : undefined;
    return at !== undefined && at < this.log.value.end.seq;
  });

  /** The path of the session in the native API. */
  get path(): string {
    return path("sessions", this.key.id);
  }

  get query(): { readonly user?: string } {
    return this.key.user === undefined ? {} : { user: this.key.user };
  }

  close(): void {
    this.stopped = true;
    this.disconnect?.();
    clearTimeout(this.hiding);
  }

  /** Called when the page is hidden or seen again: a hidden one gives its connection back after a while. */
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
      const query = { ...this.query, media: "omit", clip: 16_384 };
      const [detail, newest] = await Promise.all([
        get<Schemas["SessionDetail"]>(this.path, { query: this.query }),
        get<Schemas["Events"]>(`${this.path}/events`, { query: { ...query, before: "end", align: "turn", limit: first } }),
      ]);
      if (this.stopped) return;
      this.detail.value = detail;
      this.state.value = detail.state;
      const events = newest.events as LogEvent[];
      const log = new Log(events[0]?.seq ?? 1);
      log.add(events);
      this.held.value = log;
      this.phase.value = "live";
      this.version.value++;
      this.lastId = log.end.seq > 0 ? String(log.end.seq) : "";
      this.connect();
      void this.relatives();
      if (!log.whole && log.end.seq <= most) await this.older(log.from);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Loads what is older than the log goes back, if somebody wants to see it. */
  async loadAll(): Promise<void> {
    const { from } = this.held.value;
    if (from > 1) await this.older(from).catch((error: unknown) => this.fail(error));
  }

  private async relatives(): Promise<void> {
    const { sessions } = await get<Schemas["Sessions"]>(`${this.path}/family`, { query: this.query });
    if (!this.stopped) this.family.value = sessions;
  }

  /** Loads the log from its beginning beside the one that is shown, whose place it then takes. */
  private async older(before: number): Promise<void> {
    const whole = new Log();
    const query = { ...this.query, media: "omit", clip: 16_384, limit: page };
    while (!this.stopped && whole.end.seq < before - 1) {
      const { events } = await get<Schemas["Events"]>(`${this.path}/events`, { query: { ...query, after: whole.end.seq } });
      if (events.length === 0) return;
      await this.sliced(whole, (events as LogEvent[]).filter((e) => (e.seq ?? 0) < before));
    }
    const held = this.held.value;
    let done = 0;
    while (!this.stopped && done < held.events.length) {
      const some = held.events.slice(done, done + 256);
      await this.sliced(whole, some);
      done += some.length;
    }
    if (this.stopped) return;
    for (const [seq, clip] of held.clips) whole.clips.set(seq, clip);
    this.held.value = whole;
    this.version.value++;
  }

  private async sliced(log: Log, events: readonly LogEvent[]): Promise<void> {
    for (let done = 0; done < events.length; ) {
      const end = performance.now() + slice;
      for (; done < events.length && performance.now() < end; done += 16) log.add(events.slice(done, done + 16));
      await new Promise((resume) => setTimeout(resume));
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
        if (this.stopped) return;
        if (yes) this.lostSince.value = undefined;
        else this.lostSince.value ??= new Date();
        this.phase.value = yes ? "live" : "lost";
      },
      failed: (error) => this.fail(error),
    });
  }

  /** Frames wait for the next picture of the browser: many make one change of the page. */
  private receive(frames: readonly Frame[]): void {
    for (const frame of frames) this.queue.push(frame);
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
      if (frame.id !== "") this.lastId = frame.id;
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
  }

  private end({ reason }: Schemas["StreamEnd"]): void {
    if (reason === "stopping" || reason === "turn") return; // the stream goes on with the next process
    this.disconnect?.();
    this.error.value =
      reason === "deleted"
        ? new ApiError(404, "not_found", "This session was deleted while it was open.")
        : new ApiError(401, "unauthorized", "Your token no longer holds.");
    this.phase.value = "ended";
  }

  private fail(error: unknown): void {
    if (this.stopped) return;
    this.error.value = error instanceof ApiError ? error : new ApiError(0, "page", error instanceof Error ? error.message : String(error));
    this.phase.value = "failed";
  }
}

/** The session of the address, if it is one's screen. It stays open as long as the address names it. */
export const open = signal<OpenSession | undefined>(undefined);
