import assert from "node:assert/strict";
import { test } from "node:test";
import { load, random } from "./bundle.mjs";

const { parse, format } = await load("state/address.ts");
const at = (path) => parse(new URL(path, "http://arbor.test"));

/** Any route that the page may make, with names that are hard to write into an address. */
function routes(seed) {
  const next = random(seed);
  const one = (list) => list[Math.floor(next() * list.length)];
  const names = ["s1", "a b", "100%", "%2F", "a/b", "?x=1#y", "ünïcode", "日本", "…", "a+b&c=d", "..x", "\u202eevil", "<b>", "'\"", "a\\b", "😀"];
  const path = () => Array.from({ length: 1 + Math.floor(next() * 3) }, () => one(names).replaceAll("/", "-")).join("/");
  const maybe = (name, value) => (next() < 0.5 ? {} : { [name]: value });
  const made = () => {
    const screen = one(["sessions", "session", "diff", "tree", "graph", "usage", "approvals", "desk"]);
    switch (screen) {
      case "sessions":
        return { screen: "sessions", ...maybe("filter", one(names)) };
      case "session":
        return {
          screen: "session",
          id: one(names),
          middle: one(["talk", "feed", "runs", "graph"]),
          ...maybe("at", 1 + Math.floor(next() * 1e9)),
          ...maybe("sel", one([{ kind: "ev", seq: 1 + Math.floor(next() * 99) }, { kind: "call", id: one(names) }, { kind: "run", id: `a:${one(names)}` }])),
          ...maybe("tab", one(["why", "seen", "cost", "if", "state", "files"])),
          ...maybe("filter", 'type:transfer text:"a b"'),
          ...maybe("active", '{"a":[1]}'),
        };
      case "diff":
        return { screen: "diff", a: one(names), b: one(names) };
      case "tree":
        return { screen: "tree", ...maybe("path", path()) };
      case "graph":
        return { screen: "graph", name: path(), ...maybe("session", one(names)), ...maybe("run", one(names)) };
      case "usage":
      case "approvals":
        return { screen };
      default:
        return { screen: "desk", ...maybe("handoff", one(names)) };
    }
  };
  return Array.from({ length: 2000 }, () => ({ ...made(), ...maybe("user", one(names)) }));
}

test("an address that was written is read as the same route", () => {
  for (const route of routes(19)) {
    const url = new URL(format(route), "http://arbor.test");
    assert.ok(url.pathname.startsWith("/inspect/"), url.href);
    assert.equal(url.host, "arbor.test");
    assert.deepEqual(parse(url), route, url.href);
  }
});

test("what makes no sense in an address is left out", () => {
  const talk = { screen: "session", id: "s1", middle: "talk" };
  for (const query of ["at=0", "at=-1", "at=x", "at=1.5", "at=1e99", "tab=cats", "sel=ev", "sel=ev:0", "sel=ev:1.5", "sel=ev:Infinity", "sel=call:", "sel=:", "f=", "user="]) {
    assert.deepEqual(at(`/inspect/s/s1?${query}`), talk, query);
  }
  assert.deepEqual(at("/inspect"), { screen: "sessions" });
  assert.deepEqual(at("/inspect/desk/"), { screen: "desk" });
});

test("any address is read, and read the same when it was written again", () => {
  const hostile = [
    "s", "s/", "s//feed", "s/s1/nothing", "s/%", "s/%ff", "s/%00", "s/..%2f..%2fetc", "diff", "diff/a", "diff/a/", "graph", "graph/", "no/such", "%73/s1", "tree//",
    "s/s1?at=%ff", "s/s1?sel=call:%ff:%00", "s/s1?at=1&at=2", "//evil.test/", "javascript:alert(1)", "s/javascript:alert(1)", "nowhere?user=ann",
  ];
  for (const path of hostile) {
    const route = at(`/inspect/${path}`);
    assert.equal(typeof route.screen, "string");
    const again = new URL(format(route), "http://arbor.test");
    assert.equal(again.host, "arbor.test", path);
    assert.deepEqual(parse(again), route, path);
  }
  for (const path of ["s", "s/", "s/s1/nothing", "diff/a", "graph", "no/such"]) assert.equal(at(`/inspect/${path}`).screen, "nowhere", path);
});
