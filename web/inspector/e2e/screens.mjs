// Opens every screen that is given, in both schemes and three widths: axe, geometry, number of elements, a picture.
//
// geometry/WORLD.json has the places of each screen's landmarks, which hold to 4 px. With ARBOR_GEOMETRY=write these
// files are written anew.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import {
  axe,
  check,
  geometry,
  given,
  landmarks,
  measure,
  newPage,
  run,
  screenshot,
  settled,
  step,
  visit,
  whole,
} from "./lib.mjs";

const kept = new URL(`geometry/${given.world}.json`, import.meta.url);
const boxes = existsSync(kept) ? JSON.parse(readFileSync(kept, "utf8")) : {};
const found = {};

/** Holds where things are against where they were. */
function compare(name, now) {
  found[name] = now;
  if (process.env.ARBOR_GEOMETRY === "write") return;
  const then = boxes[name] ?? {};
  for (const part of new Set([...Object.keys(then), ...Object.keys(now)])) {
    const near = then[part] && now[part] && then[part].every((n, i) => Math.abs(n - now[part][i]) <= 4);
    check(
      near,
      `${part} is at ${now[part] ?? "no place"}, and was at ${then[part] ?? "no place"} (left, width, top, height)`,
    );
  }
}

const widths = { 390: 844, 1024: 768, 1440: 900 };

/** What axe checks at each width in each scheme. */
const looks = {
  1440: { light: "all", dark: "contrast" },
  1024: { light: "structure", dark: "" },
  390: { light: "all", dark: "" },
};

/** What a screen must show before it is looked at, and what is done to get there. */
async function ready(page, screen) {
  for (const [role, name] of screen.waits ?? []) {
    await page
      .getByRole(role, { name: new RegExp(name, "i") })
      .first()
      .waitFor({ state: "attached" });
  }
  if (screen.text) await page.getByText(new RegExp(screen.text, "i")).first().waitFor({ state: "attached" });
  for (const [role, name] of screen.clicks ?? []) {
    const all = page.getByRole(role, { name: new RegExp(name, "i") });
    for (let i = 0, n = await all.count(); i < n; i++) await all.nth(i).click();
  }
  if (screen.press) await page.keyboard.press(screen.press);
  if (screen.press) await settled(page);
}

/** Loads a screen as a phone does, and resizes the window for the other widths. A screen with clicks is loaded again at each width. */
async function reach(page, screen, shown) {
  if (shown && !screen.clicks) return settled(page);
  await visit(page, screen.path);
  await ready(page, screen);
}

await run(async () => {
  const page = await newPage({ expected: (text) => (given.expected ?? []).some((e) => text.includes(e)) });
  for (const screen of given.screens) {
    let shown = false;
    for (const [width, height] of Object.entries(widths)) {
      await step(`${screen.name} ${width}`, async () => {
        await page.emulateMedia({ colorScheme: "light" });
        await page.setViewportSize({ width: Number(width), height });
        await reach(page, screen, shown);
        shown = true;
        check((await page.getByRole("heading", { level: 1 }).count()) === 1, "there is not one heading of level 1");
        await whole(page);
        await geometry(page, "layout");
        compare(`${screen.name} ${width}`, await landmarks(page));
        await measure(page);
        for (const [scheme, part] of Object.entries(looks[width])) {
          await page.emulateMedia({ colorScheme: scheme });
          if (part) {
            await settled(page);
            await axe(page, scheme, part);
          }
          await screenshot(page, `${given.world}-${screen.name}-${width}-${scheme}`);
        }
      });
    }
  }
  if (process.env.ARBOR_GEOMETRY === "write") {
    mkdirSync(new URL("geometry", import.meta.url), { recursive: true });
    const lines = Object.entries(found).map(([name, b]) => `  ${JSON.stringify(name)}: ${JSON.stringify(b)}`);
    writeFileSync(kept, `{\n${lines.join(",\n")}\n}\n`);
  }
});
