// What the browser tests share. Go starts a server, and gives its address and whatever a script needs to know
// in ARBOR_E2E (see server/inspector/e2e_test.go). A script prints what is wrong, and ends with a status.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium, firefox } from "playwright-core";

export const given = JSON.parse(process.env.ARBOR_E2E);
export const { base, token } = given;

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The most elements that a document may have, whatever the session. */
const maxElements = 3000;

/** Conditions that take longer than this will not come. */
const patience = Number(process.env.ARBOR_PATIENCE ?? 120_000);

const faults = [];
const open = new Set(); // windows
let where = "";

/** Notes what is wrong; the script continues. */
export function fault(text) {
  faults.push(`${where ? where + ": " : ""}${text}`);
}

/** Notes what is wrong unless it holds. */
export function check(holds, text) {
  if (!holds) fault(text);
  return holds;
}

export function same(got, want, text) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  return check(a === b, `${text}: got ${a}, want ${b}`);
}

/** Prints a figure, which `go test -v` shows. */
export function figure(name, value) {
  console.log(`figure ${name}: ${value}`);
}

/**
 * Does something that its faults are told with, and closes the windows that it has opened. One that throws does not keep
 * the others from being tried.
 */
export async function step(name, work) {
  const outer = where;
  const before = new Set(open);
  where = outer ? `${outer} › ${name}` : name;
  try {
    await work();
  } catch (error) {
    const [said, ...more] = String(error?.message ?? error)
      .replace(/\x1b\[\d+m/g, "")
      .split("\n");
    const waited = more.find((line) => line.includes("waiting for"))?.trim() ?? "";
    const line = String(error?.stack).match(new RegExp(`${given.script}\\.mjs:\\d+`))?.[0] ?? "";
    fault([line, said, waited].filter(Boolean).join(" "));
  }
  for (const page of [...open].filter((p) => !before.has(p))) await close(page).catch((error) => fault(String(error)));
  where = outer;
}

/** Asks the test's process for something: see host.control. */
export async function control(name, body = {}) {
  const got = await fetch(`${given.control}/${name}`, { method: "POST", body: JSON.stringify(body) });
  const text = await got.text();
  if (!got.ok) throw new Error(`control ${name}: ${text}`);
  return JSON.parse(text).answer;
}

/** Calls the native API as a program does, without a browser. */
export async function api(method, path, body, headers = {}) {
  const got = await fetch(`${base}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...(body && { "Content-Type": "application/json" }), ...headers },
    body: body && JSON.stringify(body),
  });
  const text = await got.text();
  if (!got.ok) throw new Error(`${method} ${path}: ${got.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** The events of a session as they are stored. */
export const log = (session) => control("log", { session });

/** What people and agents have said in a session's own conversation, in its order. */
export async function words(session) {
  const out = [];
  for (const e of await log(session)) {
    if (e.scope) continue;
    if (e.type === "user") out.push(e.content.text ?? e.content);
    if (e.type === "text" && e.content) out.push(e.content);
  }
  return out.map((w) => (typeof w === "string" ? w : JSON.stringify(w)));
}

let browser;
const states = new Map(); // of signing in

// No Playwright default of its own reaches out: the browser is given, and opens what the test asks for.
const installed = (...programs) =>
  execFileSync("sh", ["-c", programs.map((p) => `command -v ${p}`).join(" || ")], { encoding: "utf8" }).trim();

const startChromium = (env, { args = [] }) =>
  chromium.launch({
    executablePath: installed("chromium-headless-shell", "chromium"),
    env,
    headless: true,
    chromiumSandbox: false,
    // The last one has the shell draw letters as wide as Chromium does.
    args: ["--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--font-render-hinting=none", ...args],
  });

/** Starts Debian's Firefox, to which Playwright talks by WebDriver BiDi. */
async function startFirefox(env) {
  const started = await firefox.launch({
    executablePath: installed("firefox-esr"),
    channel: "moz-firefox",
    env,
    headless: true,
    firefoxUserPrefs: { "ui.prefersReducedMotion": 1, "ui.systemUsesDarkTheme": 0 },
  });
  // Playwright sends this command for each window, and Firefox 153 does not have it. The settings above stand in for it.
  const session = Object.getPrototypeOf(started._connection.toImpl(started)._browserSession);
  const { send } = session;
  session.send = function (method, params) {
    return method === "emulation.setMediaFeaturesOverride" ? Promise.resolve({}) : send.call(this, method, params);
  };
  return started;
}

/** Runs a script with a browser, and ends the process. */
export async function run(work, options = {}) {
  // Its settings and its reports of crashes are in a home folder of its own.
  const home = mkdtempSync(path.join(tmpdir(), "arbor-browser-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home };
  browser = await (given.browser === "firefox" ? startFirefox(env) : startChromium(env, options));
  process.once("SIGINT", () => browser.close().finally(() => process.exit(130)));
  await step("", () => work(browser));
  await browser.close();
  for (const f of faults) console.log(`fault: ${f}`);
  process.exit(faults.length ? 1 : 0);
}

/**
 * Opens a window, signed in unless signIn is false. What it reports, and what it asks elsewhere for, are faults;
 * expected says of a message whether it belongs to the test.
 */
export async function newPage({ signIn = true, expected = () => false, context, ...options } = {}) {
  context ??= await browser.newContext({
    viewport: { width: 1440, height: 900 },
    colorScheme: "light",
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "UTC",
    storageState: signIn ? await signedIn() : undefined,
    ...options,
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  open.add(page);
  page.arbor = { expected, violations: 0 };
  const mine = where;
  const tell = (text) => {
    if (!page.arbor.expected(text)) faults.push(`${mine || "page"}: ${text} at ${page.url()}`);
  };
  page.on("pageerror", (error) => tell(`threw ${error.stack ?? error}`));
  page.on("console", (m) => {
    if (m.type() === "error" || /Content Security Policy|Trusted ?Type/i.test(m.text())) {
      tell(`said ${m.text()}${m.location().url ? ` (${m.location().url})` : ""}`);
    }
  });
  page.on("request", (r) => {
    const url = new URL(r.url());
    const inside = url.origin === base || ["data:", "blob:", "about:"].includes(url.protocol);
    if (!inside) tell(`asked ${r.url()} for something`);
  });
  page.on("crash", () => tell("has crashed"));
  return page;
}

/** The state of a browser that has signed in with a code, as the page does it: cookie and key. No page is opened for it. */
async function signedIn() {
  if (!states.has(base)) {
    const context = await browser.newContext();
    const answer = await context.request.post(`${base}/inspect/sign-in`, {
      data: { code: await control("code") },
      timeout: patience,
    });
    if (!answer.ok()) throw new Error(`signing in: ${answer.status()} ${await answer.text()}`);
    const { key } = await answer.json();
    const { cookies } = await context.storageState();
    states.set(base, { cookies, origins: [{ origin: base, localStorage: [{ name: "arbor-key", value: key }] }] });
    await context.close();
  }
  return states.get(base);
}

/** Goes to the page with a code, and waits until it has signed in. */
export async function enter(page, path = "/inspect/") {
  const code = await control("code");
  const [answer] = await Promise.all([
    page.waitForResponse((r) => r.url().endsWith("/inspect/sign-in"), { timeout: patience }),
    page.goto(`${base}${path}#code=${code}`),
  ]);
  if (answer.status() !== 200) throw new Error(`signing in: ${answer.status()}`);
  await page.waitForFunction(() => location.hash === "" && localStorage.length > 0, null, { timeout: patience });
}

/** Goes to an address of the page (below /inspect/), and waits until its heading is there. */
export async function visit(page, path) {
  await page.goto(`${base}/inspect/${path}`);
  await page.getByRole("heading", { level: 1 }).first().waitFor({ state: "attached", timeout: patience });
  await settled(page);
}

/** Goes to another address of the page without loading the page again, as a click on a link does. */
export async function go(page, path) {
  await page.evaluate((to) => {
    history.pushState(null, "", to);
    window.dispatchEvent(new PopStateEvent("popstate"));
  }, `/inspect/${path}`);
  await settled(page);
}

/** Waits until nothing is loading and two frames in a row had the same document. */
export async function settled(page) {
  await page.waitForFunction(
    () =>
      new Promise((done) => {
        let calm = 0;
        const watch = new MutationObserver(() => (calm = 0));
        watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
        const look = () => {
          calm++;
          const busy = document.querySelector("[aria-busy=true]:not([data-live])");
          if (calm > 6 && !busy && document.fonts.status === "loaded") {
            watch.disconnect();
            done(true);
          } else if (calm > 120) {
            watch.disconnect();
            done(true); // an answer that grows stays busy
          } else requestAnimationFrame(look);
        };
        look();
      }),
    null,
    { timeout: patience },
  );
}

/** Whether all views of a screen could be shown. */
export async function whole(page) {
  for (const said of await page.getByText(/could not be shown|konnte nicht angezeigt werden|no se pudo mostrar/).allInnerTexts()) fault(said);
}

/** Looks at how much the document has, which any test may do at any time. */
export async function measure(page) {
  const n = await page.evaluate(() => document.querySelectorAll("*").length);
  check(n <= maxElements, `${page.url()} has ${n} elements, ${maxElements} are the most`);
  return n;
}

/** Closes a window, after a last look. */
export async function close(page) {
  if (!open.delete(page)) return;
  if (!page.isClosed() && page.url().startsWith(base)) await measure(page);
  const context = page.context();
  await page.close();
  if (context.pages().length === 0) await context.close();
}

const standard = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/**
 * Checks the page against WCAG 2.2 AA as far as a program can. Colours do not depend on the language, and hardly on the width:
 * "contrast" checks them alone, and "structure" all but them.
 */
export async function axe(page, name = page.url(), part = "all") {
  if (!(await page.evaluate(() => Boolean(window.axe)))) await page.evaluate(axeSource);
  const alone = part === "contrast";
  const runOnly = alone ? { type: "rule", values: ["color-contrast"] } : { type: "tag", values: standard };
  // The second rule is an experiment, and counts the letters of marks, which are hidden from readers, as part of a label.
  const own = alone ? {} : { "color-contrast": { enabled: part === "all" }, "label-content-name-mismatch": { enabled: false } };
  const options = { runOnly, rules: own, resultTypes: ["violations"] };
  const { violations } = await page.evaluate((options) => window.axe.run(document, options), options);
  for (const v of violations) {
    const why = (n) => [...n.any, ...n.all, ...n.none].map((c) => c.message).join("; ");
    const nodes = v.nodes.slice(0, 4).map((n) => `\n    ${n.target.join(" ")}: ${why(n)}`);
    fault(`axe, ${name}: ${v.id} (${v.nodes.length}): ${v.help}${nodes.join("")}`);
  }
}

/** Keeps a picture for people to look at, where ARBOR_SHOTS names a folder. */
export async function screenshot(page, name) {
  if (!process.env.ARBOR_SHOTS) return;
  mkdirSync(process.env.ARBOR_SHOTS, { recursive: true });
  const file = path.join(process.env.ARBOR_SHOTS, `${name}.png`);
  await page.screenshot({ path: file, animations: "disabled", caret: "hide" });
}

/** Checks that nothing scrolls sideways, landmarks neither overlap nor leave the window, and no label is cut off. */
export async function geometry(page, name = page.url()) {
  const wrong = await page.evaluate(() => {
    const out = [];
    const show = (e) => {
      const role = e.getAttribute("role");
      const label = String(e.getAttribute("aria-label") || e.getAttribute("class") || "").slice(0, 40);
      return `${e.tagName.toLowerCase()}${role ? `[role=${role}]` : ""}${label ? ` "${label}"` : ""}`;
    };
    const box = (b) => `${Math.round(b.left)},${Math.round(b.top)} ${Math.round(b.width)}×${Math.round(b.height)}`;
    const root = document.documentElement;
    if (root.scrollWidth > window.innerWidth) {
      const all = [...document.querySelectorAll("body *")];
      const wide = all.filter((e) => e.getBoundingClientRect().right > window.innerWidth + 0.5).slice(0, 3);
      out.push(
        `scrolls sideways: ${root.scrollWidth} of ${window.innerWidth}, for example by ${wide.map(show).join(", ")}`,
      );
    }
    const marks =
      "header, main, nav, aside, footer, section[aria-label], section[aria-labelledby], dialog[open], [role=banner], [role=main], " +
      "[role=navigation], [role=complementary], [role=contentinfo], [role=region], [role=search], [role=dialog]";
    const landmarks = [...document.querySelectorAll(marks)].filter((e) => {
      const seen = e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
      return seen && e.getBoundingClientRect().height > 0;
    });
    const scrolls = (e) => {
      for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
        if (/(auto|scroll|hidden|clip)/.test(getComputedStyle(p).overflowX + getComputedStyle(p).overflowY))
          return true;
      }
      return false;
    };
    const above = (e) => {
      for (let p = e; p; p = p.parentElement)
        if (getComputedStyle(p).position === "fixed" || p.tagName === "DIALOG") return true;
      return false;
    };
    for (const e of landmarks) {
      const b = e.getBoundingClientRect();
      if (!scrolls(e) && (b.left < -0.5 || b.right > window.innerWidth + 0.5))
        out.push(`${show(e)} leaves the window: ${box(b)}`);
    }
    for (const [i, a] of landmarks.entries()) {
      for (const b of landmarks.slice(i + 1)) {
        if (a.contains(b) || b.contains(a) || above(a) || above(b) || scrolls(a) || scrolls(b)) continue;
        const [x, y] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
        const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
        const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
        if (wide > 1 && high > 1) out.push(`${show(a)} ${box(x)} and ${show(b)} ${box(y)} overlap`);
      }
    }
    for (const e of document.querySelectorAll("button, a[href], h1, h2, h3, label, [role=tab]")) {
      if (!e.checkVisibility({ visibilityProperty: true }) || e.clientWidth <= 1) continue; // 1: for readers alone
      const style = getComputedStyle(e);
      if (e.scrollWidth > e.clientWidth + 1 && style.overflowX !== "visible" && style.textOverflow !== "ellipsis") {
        out.push(`${show(e)} cuts "${e.textContent.trim().slice(0, 40)}" off: ${e.scrollWidth} of ${e.clientWidth}`);
      }
    }
    return out;
  });
  for (const w of wrong) fault(`geometry, ${name}: ${w}`);
}

/**
 * Where the landmarks of a page are, in whole pixels: left, width, top and height. Sheets are as high as what they
 * show, so that their top and height say nothing.
 */
export const landmarks = (page) =>
  page.evaluate(() => {
    const out = {};
    for (const e of document.querySelectorAll("header, main, nav, aside, footer, section[aria-label], dialog[open]")) {
      const b = e.getBoundingClientRect();
      if (!e.checkVisibility({ visibilityProperty: true }) || b.width === 0 || b.height === 0) continue;
      const name = `${e.tagName.toLowerCase()} ${e.getAttribute("aria-label") ?? ""}`.trim();
      out[name] = (e.closest("dialog") ? [b.left, b.width] : [b.left, b.width, b.top, b.height]).map(Math.round);
    }
    return out;
  });

/** Waits until a function gives something true, looking again whenever the page or the server may have changed. */
export async function until(what, look, timeout = patience) {
  const end = Date.now() + timeout;
  for (let last; ;) {
    try {
      const got = await look();
      if (got) return got;
      last = got;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end)
      throw new Error(`${what} did not come: ${last instanceof Error ? last.message : JSON.stringify(last)}`);
    await new Promise((next) => setTimeout(next, 20));
  }
}

/** Counts what a person does: each click and each key. */
export function hands(page) {
  const counted = { clicks: 0, keys: 0 };
  return {
    counted,
    async click(locator) {
      counted.clicks++;
      await locator.click();
    },
    async press(key) {
      counted.keys++;
      await page.keyboard.press(key);
    },
  };
}
