// What users, models and tools say is shown as text: nothing of it runs, is loaded, or gets out of its place.
import {
  axe,
  check,
  geometry,
  given,
  go,
  log,
  measure,
  newPage,
  run,
  same,
  screenshot,
  step,
  until,
  visit,
  whole,
} from "./lib.mjs";

const events = await log("hostile");
const of = (type) => events.filter((e) => e.type === type).at(-1);
const screens = {
  sessions: "",
  talk: "s/hostile",
  feed: "s/hostile/feed",
  runs: "s/hostile/runs",
  graph: "s/hostile/graph",
  why: `s/hostile?sel=ev:${of("transfer").seq}&tab=why`,
  seen: `s/hostile?sel=ev:${of("text").seq}&tab=seen`,
  cost: "s/hostile?tab=cost",
  tree: "tree",
  usage: "usage",
};

async function inert(page, name) {
  await until("what was asked for", async () => (await page.getByText(/^Loading /).count()) === 0);
  const found = await page.evaluate(() => ({
    hit: window.hit ?? null,
    elements: [
      ...document.querySelectorAll("script, iframe, object, embed, style, link, base, form, img, svg [onload]"),
    ]
      .filter((e) => !(e instanceof HTMLImageElement && new URL(e.src).pathname.startsWith("/inspect/")))
      .filter(
        (e) =>
          !e.matches(
            "head > script[src^='/inspect/'], head > link[href^='/inspect/'], head > style, form.composer, form[role=search]",
          ),
      )
      .map((e) => e.outerHTML.slice(0, 120)),
    handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name)))
      .length,
    links: [...document.querySelectorAll("a[href]")].map((a) => a.href).filter((h) => !/^https?:/.test(h)),
    // Invisible signs that change how others are read.
    unseen: [...document.querySelectorAll("body *")]
      .filter(
        (e) =>
          e.checkVisibility() &&
          [...e.childNodes].some((n) => n.nodeType === 3 && /[\u202a-\u202e\u2066-\u2069\x1b]/.test(n.data)),
      )
      .map((e) => `${e.tagName.toLowerCase()}.${e.className}`),
  }));
  same(found.hit, null, `${name}: something ran`);
  same(
    found.elements.filter((e) => !e.startsWith("<form")),
    [],
    `${name}: elements that nobody made`,
  );
  same(found.handlers, 0, `${name}: elements with handlers`);
  same([...new Set(found.unseen)], [], `${name}: elements with signs that change how others are read`);
  same(found.links, [], `${name}: links to something else than pages`);
}

await run(async () => {
  const page = await newPage();
  for (const [name, path] of Object.entries(screens)) {
    await step(name, async () => {
      await visit(page, path);
      await whole(page);
      await inert(page, name);
      await geometry(page, name);
      await measure(page);
      await screenshot(page, `hostile-${name}`);
    });
  }
  // Each of the texts is in the window once: what the user said in the conversation, what a tool gave in the feed.
  for (const [type, middle] of [
    ["user", ""],
    ["tool_result", "/feed"],
  ]) {
    await step(`all of ${type}`, async () => {
      for (const e of events.filter((e) => e.type === type && !e.error)) {
        await go(page, `s/hostile${middle}?at=${e.seq}&sel=ev:${e.seq}`);
        await inert(page, `position ${e.seq}`);
        // Invisible signs are written as their numbers, so that the words around them are looked for.
        const seen = e.content
          ?.slice(0, 12)
          .split(/[\p{Cc}\p{Cf}]/u)
          .find((s) => s.trim() !== "");
        if (type === "user") await page.getByRole("log").getByText(seen).first().waitFor();
      }
      await geometry(page, "layout");
      await axe(page, "a position");
    });
  }
  same(given.last, (await log("hostile")).length, "looking stored something");
});
