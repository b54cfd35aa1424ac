// The native API, typed by its OpenAPI document. It knows the network and neither the page nor its state.
import { store, stored } from "../stored.js";
import { texts } from "../texts.js";
import type { components } from "./types.js";

export type Schemas = components["schemas"];
export type Problem = Schemas["Problem"];

const api = "/api/v1";
/** Whether the page is being left. The browser then sends requests itself, because it outlives the page. */
let left = false;
window.addEventListener("pagehide", () => (left = true));
window.addEventListener("pageshow", () => (left = false));
const kept = "arbor-key";

/** A request that failed: the server's error, or no answer (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problem?: Problem,
  ) {
    super(message);
  }
}

export interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  /** Makes a POST happen once, however often it is sent. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The key of the sign-in, which is one half of it; the cookie is the other. */
export const signInKey = {
  get: (): string => stored(kept) ?? "",
  set: (key: string): void => store(kept, key),
  drop: (): void => store(kept, null),
};

/** Sends a request below /api/v1 and returns the answer. An answer with the status of an error is thrown as an ApiError. */
export async function send(path: string, ask: Ask = {}): Promise<Response> {
  return sendTo(api + path, ask);
}

/** Asks the native API. The type is that of the answer, as the OpenAPI document has it. */
export async function get<T>(path: string, ask: Ask = {}): Promise<T> {
  return (await (await send(path, ask)).json()) as T;
}

/** Does the same for answers by which a person decides: numbers stay as they are written, 9007199254740993 and 5.00. */
export async function getExact<T>(path: string, ask: Ask = {}): Promise<T> {
  return JSON.parse(await (await send(path, ask)).text(), exact as Parameters<typeof JSON.parse>[1]) as T;
}

/** Keeps a number that JavaScript would write in another way, if the browser can, as a value that JSON.stringify writes as it was. */
function exact(_: string, value: unknown, at?: { readonly source?: string }): unknown {
  const { rawJSON } = JSON as { readonly rawJSON?: (text: string) => unknown };
  const source = at?.source;
  return typeof value === "number" && source !== undefined && rawJSON !== undefined && String(value) !== source ? rawJSON(source) : value;
}

export async function post<T>(path: string, body: unknown, ask: Ask = {}): Promise<T> {
  const answer = await send(path, { ...ask, method: "POST", body });
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

/** The address of a path below /api/v1, which may have a query already, with more parameters. */
export function address(path: string, query: Ask["query"] = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return path + (set.length === 0 ? "" : `${path.includes("?") ? "&" : "?"}${new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString()}`);
}

/** A path of segments that may contain anything. */
export function path(...segments: (string | number)[]): string {
  return segments.map((s) => `/${encodeURIComponent(s)}`).join("");
}

async function sendTo(url: string, ask: Ask): Promise<Response> {
  const headers: Record<string, string> = { ...ask.headers };
  const key = signInKey.get();
  if (key !== "") headers["Arbor-CSRF"] = key;
  if (ask.key !== undefined) headers["Idempotency-Key"] = ask.key;
  const init: RequestInit = { method: ask.method ?? "GET", headers, cache: "no-store", signal: ask.signal ?? null, keepalive: left };
  if (ask.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(ask.body);
  }
  let answer: Response;
  try {
    answer = await fetch(address(url, ask.query), init);
  } catch (error) {
    if (ask.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", texts.errors.unreachable);
  }
  if (answer.ok) return answer;
  const problem = (await answer.json().catch(() => undefined)) as Problem | undefined;
  throw new ApiError(answer.status, problem?.code ?? "", problem?.detail ?? texts.errors.status(answer.status), problem);
}

/** The version of the page that the server has now, as its index.html names it; "" if it names none. */
export async function pageVersion(): Promise<string> {
  const answer = await fetch("/inspect/", { cache: "no-cache" }).catch(() => undefined);
  return answer?.ok ? (/app\.js\?v=(\w+)/.exec(await answer.text())?.[1] ?? "") : "";
}

/** Signs in with a code that the server has printed, or with a token. */
export async function signIn(secret: { code: string } | { token: string }): Promise<void> {
  const grant = (await (await sendTo("/inspect/sign-in", { method: "POST", body: secret })).json()) as { key: string };
  signInKey.set(grant.key);
}

export async function signOut(): Promise<void> {
  await sendTo("/inspect/sign-out", { method: "POST" });
  signInKey.drop();
}
