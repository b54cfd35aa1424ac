// The budgets of the page: figures are printed, and bounded by the goal where they do not depend on the machine, by
// given.slack times the goal where they do.
import { api, check, control, figure, given, log, measure, newPage, run, settled, step, until, visit } from "./lib.mjs";

const events = await log("long");
const turns = events.filter((e) => e.type === "user").length;
const last = events
  .filter((e) => e.type === "text")
  .at(-1)
  .content.replaceAll("*", "");

function bound(name, value, goal, unit = "ms", slack = given.slack) {
  figure(name, `${value.toFixed(1)} ${unit} (goal ${goal})`);
  check(value <= goal * slack, `${name}: ${value.toFixed(1)} ${unit}, ${goal} is the goal`);
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const p95 = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)];

/** The work of the main thread during n frames of the page, in milliseconds a frame. */
async function frames(page, target, count, each) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const look = async () =>
    Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value * 1000]));
  const before = await look();
  const times = await target.evaluate(
    (element, { count, each }) =>
      new Promise((done) => {
        const steps = {
          scroll: (e, i) => (e.scrollTop += i < 120 ? 60 : -60),
          drag: (e, i) => {
            e.value = String(Math.max(Number(e.min || 0), Number(e.max) - 37 * i));
            e.dispatchEvent(new Event("input", { bubbles: true }));
          },
          nothing: () => {},
        };
        const times = [];
        let then = performance.now();
        let i = 0;
        const frame = () => {
          const now = performance.now();
          times.push(now - then);
          then = now;
          if (i === count) return done(times.slice(1));
          steps[each](element, i++);
          requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
      }),
    { count, each },
  );
  const after = await look();
  const of = (name) => (after[name] - before[name]) / count;
  return {
    layout: of("LayoutDuration"),
    style: of("RecalcStyleDuration"),
    script: of("ScriptDuration"),
    task: of("TaskDuration"),
    p95: p95(times),
  };
}

/** The same while the wheel of a mouse turns over an element, which takes the path of real input. */
async function turning(page, target, count, zooms) {
  const box = await target.evaluate((e) => {
    while (e.getBoundingClientRect().height < 50 || getComputedStyle(e).overflowX === "visible") e = e.parentElement;
    return e.getBoundingClientRect().toJSON();
  });
  const place = () =>
    target.evaluate((e) => Object.values(e.querySelector("[role=treeitem]").getBoundingClientRect().toJSON()));
  const before = await place();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const running = frames(page, page.locator("body"), count, "nothing");
  if (zooms) await page.keyboard.down("Control");
  let over = false;
  const measured = running.finally(() => (over = true));
  for (let i = 0; !over; i++) {
    const way = i % 40 < 25 ? 1 : -1;
    await page.mouse.wheel(zooms ? 0 : 16 * way, 16 * way);
    if (i === 20) check(String(await place()) !== String(before), "the wheel moves nothing");
  }
  if (zooms) await page.keyboard.up("Control");
  return measured;
}

/** The next ancestor that scrolls, or the element itself. */
const scroller = (locator) =>
  locator.evaluateHandle((e) => {
    const scrolls = (x) => /(auto|scroll)/.test(getComputedStyle(x).overflowY) && x.scrollHeight > x.clientHeight;
    if (scrolls(e)) return e;
    for (const x of e.querySelectorAll("*")) if (scrolls(x)) return x;
    for (let x = e.parentElement; x; x = x.parentElement) if (scrolls(x)) return x;
    return document.scrollingElement;
  });

await run(async () => {
  await step("opening", async () => {
    const seen = { paint: [], shown: [], whole: [] };
    for (let i = 0; i < given.repeats; i++) {
      const page = await newPage();
      await page.addInitScript(
        ({ last, turns }) => {
          const marks = (window.arborMarks = {});
          const look = () => {
            const text = document.querySelector("[role=log]")?.textContent;
            if (!marks.shown && text?.includes(last)) marks.shown = performance.now();
            const title = document.querySelector("h1")?.parentElement?.textContent;
            if (!marks.whole && title?.replaceAll(",", "").includes(`${turns} turns`)) marks.whole = performance.now();
            if (!marks.whole || !marks.shown) requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        },
        { last, turns },
      );
      await page.goto(`${given.base}/inspect/s/long`);
      const marks = await page.waitForFunction(
        () => window.arborMarks.whole && window.arborMarks.shown && window.arborMarks,
      );
      const { shown, whole } = await marks.jsonValue();
      seen.paint.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
      seen.shown.push(shown);
      seen.whole.push(whole);
      await page.close();
    }
    bound("first paint", median(seen.paint), 500);
    bound("the last 500 events are shown", median(seen.shown), 800);
    bound(`all of ${events.length} events are reduced`, median(seen.whole), 1500);
  });

  const page = await newPage();
  await visit(page, "s/long");
  await page.waitForFunction(
    (turns) => document.querySelector("h1")?.parentElement?.textContent?.replaceAll(",", "").includes(`${turns} turns`),
    turns,
  );

  await step("memory", async () => {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("HeapProfiler.collectGarbage");
    const { usedSize } = await cdp.send("Runtime.getHeapUsage");
    bound("heap", usedSize / 1e6, 60, "MB", 1);
    figure("elements of a session", await measure(page));
  });

  await step("the slider", async () => {
    const m = await frames(page, page.getByRole("slider").first(), 180, "drag");
    check(/[?&]at=\d/.test(page.url()), "the slider goes nowhere");
    bound("slider, script and layout a step", m.script + m.layout + m.style, 16);
    figure("slider, p95 frame", `${m.p95.toFixed(1)} ms`);
    await page.keyboard.press(".");
  });

  await step("the feed", async () => {
    await visit(page, "s/long/feed");
    const box = await scroller(page.getByRole("grid").first());
    await box.evaluate((e) => (e.scrollTop = 0));
    const m = await frames(page, box, 180, "scroll");
    check((await box.evaluate((e) => e.scrollTop)) > 1000, "the feed does not scroll");
    bound("feed, script and layout a frame", m.script + m.layout + m.style, 6);
    figure("feed, p95 frame", `${m.p95.toFixed(1)} ms`);
    await measure(page);
  });

  await step("500 agents", async () => {
    for (const path of ["s/long", "tree"]) {
      for (const [name, zooms] of [
        ["pan", false],
        ["zoom", true],
      ]) {
        await visit(page, path);
        const tree = page.getByRole("tree").first();
        const m = await turning(page, tree, 180, zooms);
        bound(`${path}, ${name}: layout a frame`, m.layout, 0.2);
        bound(`${path}, ${name}: script a frame`, m.script, 4);
        bound(`${path}, ${name}: p95 frame`, m.p95, 33);
      }
      await measure(page);
    }
  });

  await step("200 deltas a second", async () => {
    await visit(page, "s/long");
    await settled(page);
    await api("POST", "/sessions/long/turns", { content: "Please pour" });
    await control("step", { steps: 50 });
    await page
      .getByText(/word49/)
      .first()
      .waitFor();
    // How long a word takes from the model to the document.
    const ways = [];
    for (let i = 50; i < 60; i++) {
      const seen = page.evaluate(
        (word) =>
          new Promise((done) => {
            const log = document.querySelector("[role=log]");
            const watch = new MutationObserver(() => {
              if (!log.textContent.includes(word)) return;
              watch.disconnect();
              done(Date.now());
            });
            watch.observe(log, { subtree: true, childList: true, characterData: true });
          }),
        `word${i} `.trim(),
      );
      await page.evaluate(() => new Promise((next) => requestAnimationFrame(next)));
      const begun = Date.now();
      await control("step", { steps: 1 });
      ways.push((await seen) - begun);
    }
    figure("a word from the model to the document", `${median(ways)} ms`);
    await page.evaluate(() => {
      window.arborLong = [];
      new PerformanceObserver((list) => window.arborLong.push(...list.getEntries().map((e) => e.duration))).observe({
        type: "longtask",
      });
    });
    const pouring = control("step", { steps: 600, perSecond: 200 });
    const m = await frames(page, page.locator("body"), 150, "nothing");
    await pouring;
    await page
      .getByText(/word659/)
      .first()
      .waitFor();
    bound("200 deltas a second, main thread a frame", m.task, 6);
    // One task can wait for other programs as long as they like, so it is bounded on a quiet machine alone.
    const longest = Math.max(0, ...(await page.evaluate(() => window.arborLong)));
    bound("200 deltas a second, longest task", longest, 50, "ms", given.slack === 1 ? 1 : Infinity);
    await control("step", { steps: 2000 });
    await until("the end of the answer", async () => (await api("GET", "/sessions/long")).state === "done");
    await page
      .getByText(/word1499/)
      .first()
      .waitFor();
    await measure(page);
  });
});
