// The page's addresses as values. Nothing else knows how they are written.

export type Middle = "talk" | "feed" | "runs" | "graph";
export type Tab = "why" | "seen" | "cost" | "if" | "state" | "files";

/** What is selected in a session: an event, a call of a tool, or a run. */
export type Selection = { readonly kind: "ev"; readonly seq: number } | { readonly kind: "call" | "run"; readonly id: string };

export interface SessionRoute {
  readonly screen: "session";
  readonly id: string;
  readonly middle: Middle;
  /** A position in the log; absent is the live end. */
  readonly at?: number;
  readonly sel?: Selection;
  readonly tab?: Tab;
  /** What the feed shows. */
  readonly filter?: string;
  /** The path through a conversation that branches, as JSON. */
  readonly active?: string;
}

export type Route = (
  | { readonly screen: "sessions"; readonly filter?: string }
  | SessionRoute
  | { readonly screen: "diff"; readonly a: string; readonly b: string }
  | { readonly screen: "tree"; readonly path?: string }
  | { readonly screen: "graph"; readonly name: string; readonly session?: string; readonly run?: string }
  | { readonly screen: "usage" }
  | { readonly screen: "approvals" }
  | { readonly screen: "desk"; readonly handoff?: string }
  | { readonly screen: "nowhere"; readonly path: string }
) & {
  /** Whose sessions, if not the caller's own. */
  readonly user?: string;
};

const base = "/inspect/";
const middles: readonly string[] = ["talk", "feed", "runs", "graph"];
const tabs: readonly string[] = ["why", "seen", "cost", "if", "state", "files"];

/** Parses an address. Invalid parts are ignored; an address of no screen is "nowhere". */
export function parse(url: URL): Route {
  const [screen = "", ...rest] = url.pathname.slice(base.length).split("/").map(decode);
  const q = (name: string): string | undefined => url.searchParams.get(name) || undefined;
  const user = q("user");
  const whose = user === undefined ? {} : { user };
  const [one = "", two = ""] = rest;
  switch (screen) {
    case "":
      return { screen: "sessions", ...given("filter", q("f")), ...whose };
    case "s": {
      if (one === "" || (two !== "" && !middles.includes(two))) break;
      const at = Number(q("at"));
      const tab = q("tab");
      return {
        screen: "session",
        id: one,
        middle: two === "" ? "talk" : (two as Middle),
        ...given("at", Number.isSafeInteger(at) && at > 0 ? at : undefined),
        ...given("sel", selection(q("sel"))),
        ...given("tab", tab !== undefined && tabs.includes(tab) ? (tab as Tab) : undefined),
        ...given("filter", q("f")),
        ...given("active", q("path")),
        ...whose,
      };
    }
    case "diff":
      if (one !== "" && two !== "") return { screen: "diff", a: one, b: two, ...whose };
      break;
    case "tree":
      return { screen: "tree", ...given("path", rest.join("/") || undefined), ...whose };
    case "graph":
      if (one !== "") return { screen: "graph", name: rest.join("/"), ...given("session", q("s")), ...given("run", q("run")), ...whose };
      break;
    case "usage":
    case "approvals":
      return { screen, ...whose };
    case "desk":
      return { screen: "desk", ...given("handoff", one || undefined), ...whose };
  }
  return { screen: "nowhere", path: url.pathname };
}

/** Writes an address. */
export function format(route: Route): string {
  const query = new URLSearchParams();
  const set = (name: string, value: string | number | undefined): void => {
    if (value !== undefined && value !== "") query.set(name, String(value));
  };
  set("user", route.user);
  let path = "";
  switch (route.screen) {
    case "sessions":
      set("f", route.filter);
      break;
    case "session":
      path = join("s", route.id) + (route.middle === "talk" ? "" : `/${route.middle}`);
      set("at", route.at);
      if (route.sel !== undefined) set("sel", `${route.sel.kind}:${route.sel.kind === "ev" ? route.sel.seq : route.sel.id}`);
      set("tab", route.tab);
      set("f", route.filter);
      set("path", route.active);
      break;
    case "diff":
      path = join("diff", route.a, route.b);
      break;
    case "tree":
      path = join("tree", ...(route.path?.split("/") ?? []));
      break;
    case "graph":
      path = join("graph", ...route.name.split("/"));
      set("s", route.session);
      set("run", route.run);
      break;
    case "usage":
    case "approvals":
      path = route.screen;
      break;
    case "desk":
      path = join("desk", ...(route.handoff === undefined ? [] : [route.handoff]));
      break;
    case "nowhere":
      return route.path;
  }
  const text = query.toString();
  return base + path + (text === "" ? "" : `?${text}`);
}

function selection(text: string | undefined): Selection | undefined {
  const [kind = "", ...rest] = (text ?? "").split(":");
  const id = rest.join(":");
  if (kind === "ev") return Number.isSafeInteger(Number(id)) && Number(id) > 0 ? { kind, seq: Number(id) } : undefined;
  return (kind === "call" || kind === "run") && id !== "" ? { kind, id } : undefined;
}

function given<K extends string, V>(name: K, value: V | undefined): { readonly [P in K]?: V } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [P in K]?: V };
}

function join(...segments: string[]): string {
  return segments.map(encodeURIComponent).join("/");
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
