// Every screen as it is for people who magnify it four times, or use forced colours.
import { axe, check, geometry, given, newPage, run, screenshot, settled, step, visit, whole } from "./lib.mjs";

await run(async () => {
  // 1280 × 1024 pixels at 400 %.
  const expected = (text) => text.includes("status of 404");
  const small = await newPage({ viewport: { width: 320, height: 256 }, expected });
  for (const path of given.paths) {
    const name = path.replace(/\W+/g, "-");
    await step(`/${path} at 400 %`, async () => {
      await visit(small, path);
      await small.getByRole("heading", { level: 1 }).waitFor({ state: "attached" });
      await whole(small);
      await geometry(small, "400 %");
      const { content, page } = await small.evaluate(() => {
        const main = document.querySelector('[role="log"], .rows-box, .canvas-box, dialog[open], main');
        let { top, bottom } = main.getBoundingClientRect();
        for (let e = main.parentElement; e; e = e.parentElement) {
          const box = e.getBoundingClientRect();
          if (getComputedStyle(e).overflowY !== "visible") [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        for (const e of document.querySelectorAll(".talk-decide")) if (e.checkVisibility()) bottom = Math.min(bottom, e.getBoundingClientRect().top);
        return { content: bottom - top, page: innerHeight };
      });
      check(content >= 0.4 * page, `what is looked at has ${Math.round(content)} of ${page} pixels`);
      await axe(small, "400 %", "structure");
      await screenshot(small, `access-${name}-400`);
    });
  }
  const forced = await newPage({ forcedColors: "active", expected });
  for (const path of given.paths) {
    const name = path.replace(/\W+/g, "-");
    await step(`/${path} in forced colours`, async () => {
      await visit(forced, path);
      await whole(forced);
      await settled(forced);
      await axe(forced, "forced colours", "contrast");
      await screenshot(forced, `access-${name}-forced`);
    });
  }
});
