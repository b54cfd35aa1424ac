// Bundles modules of src for tests in Node, which has no page: what the modules ask of a browser
// when they are loaded is stood in for here.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** A store as a browser has it. */
function store() {
  const kept = new Map();
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, String(value)),
    removeItem: (name) => void kept.delete(name),
  };
}

/** Gives what is missing of a browser: a window that takes events, an address, a history, a store. */
export function pretend(href = "http://arbor.test/inspect/") {
  const page = new EventTarget();
  globalThis.window ??= Object.assign(page, { innerWidth: 1440, matchMedia: () => new EventTarget() });
  globalThis.location = new URL(href);
  globalThis.history = { pushState: (_, __, to) => go(to), replaceState: (_, __, to) => go(to) };
  const go = (to) => (globalThis.location = new URL(to, globalThis.location));
  globalThis.HTMLElement ??= class HTMLElement {};
  Object.defineProperty(globalThis, "localStorage", { value: store(), configurable: true, writable: true });
}

/** The exports of modules below src, all of one bundle: load("state/address.ts", "state/route.ts"). */
export async function load(...modules) {
  if (globalThis.window === undefined) pretend();
  const made = await build({
    absWorkingDir: root,
    stdin: { contents: modules.map((m) => `export * from "./src/${m}";`).join("\n"), resolveDir: root, loader: "ts" },
    bundle: true,
    format: "esm",
    target: "es2022",
    platform: "browser",
    jsx: "automatic",
    jsxImportSource: "preact",
    alias: { "@agentarbor/conversation": join(root, "../conversation/src/index.ts") },
    loader: { ".css": "empty" },
    write: false,
    logLevel: "silent",
  });
  return import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
}

/** Numbers from 0 to below 1 that are the same in each run (mulberry32's recurrence). */
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
