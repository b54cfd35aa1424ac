// Streams of server-sent events that resume after each interruption where they stopped.
import { createParser } from "eventsource-parser";
import { type Ask, ApiError, send } from "./api.js";

export interface Frame {
  /** The id after which the stream resumes; "" for a frame that is not an event of the log. */
  readonly id: string;
  /** "" for an event of the log, else the name of the frame. */
  readonly type: string;
  readonly data: unknown;
}

export interface StreamOptions {
  readonly path: string;
  readonly query?: Ask["query"];
  /** Where to begin: the id of the last frame that is known. */
  readonly after?: string;
  /** The frames that one read has brought, at least one. */
  readonly frames: (frames: readonly Frame[]) => void;
  /** Whether the stream is connected, and since when it is not. */
  readonly connected: (yes: boolean) => void;
  /** An answer that trying again does not change, such as 401 or 404. The stream has ended. */
  readonly failed: (error: ApiError) => void;
}

/** The least and the longest pause before it is tried again, in milliseconds. */
const pause = { least: 500, most: 15_000 };

/** How long a connection may be silent before it counts as dead, in milliseconds. The server sends a comment every 15 s. */
const silence = 45_000;

/** Follows a stream until the returned function is called. */
export function follow(options: StreamOptions): () => void {
  const stop = new AbortController();
  void run(options, stop.signal);
  return () => stop.abort();
}

async function run(options: StreamOptions, signal: AbortSignal): Promise<void> {
  let last = options.after ?? "";
  for (let tries = 0; !signal.aborted; tries++) {
    try {
      const answer = await send(options.path, {
        ...(options.query && { query: options.query }),
        headers: { Accept: "text/event-stream", ...(last !== "" && { "Last-Event-ID": last }) },
        signal,
      });
      if (answer.status === 204 || answer.body === null) return;
      options.connected(true);
      tries = 0;
      await read(answer.body, (frames) => {
        for (const f of frames) if (f.id !== "") last = f.id;
        options.frames(frames);
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
        options.connected(false);
        options.failed(error);
        return;
      }
    }
    if (signal.aborted) return;
    options.connected(false);
    const wait = Math.min(pause.most, pause.least * 2 ** Math.min(tries, 10));
    await sleep(wait / 2 + (Math.random() * wait) / 2, signal);
  }
}

async function read(body: ReadableStream<Uint8Array>, tell: (frames: readonly Frame[]) => void): Promise<void> {
  let frames: Frame[] = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => {
      frames.push({ id: id ?? "", type: event ?? "", data: JSON.parse(data) });
    },
  });
  const text = new TextDecoder();
  const reader = body.getReader();
  let dead: ReturnType<typeof setTimeout> | undefined;
  const next = (): ReturnType<typeof reader.read> => {
    dead = setTimeout(() => void reader.cancel(), silence);
    return reader.read().finally(() => clearTimeout(dead));
  };
  for (let part = await next(); !part.done; part = await next()) {
    parser.feed(text.decode(part.value, { stream: true }));
    if (frames.length > 0) tell(frames);
    frames = [];
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
