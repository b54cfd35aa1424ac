// Every screen as it is for people who magnify it four times, or use forced colours.
import { axe, check, geometry, given, newPage, run, screenshot, settled, step, visit, whole } from "./lib.mjs";

await run(async () => {
  const page = await newPage({ expected: (text) => text.includes("status of 404") });
  for (const path of given.paths) {
    const name = path.replace(/\W+/g, "-");
    await step(`/${path} at 400 %`, async () => {
      await page.emulateMedia({ forcedColors: "none" });
      await page.setViewportSize({ width: 320, height: 256 }); // 1280 × 1024 pixels at 400 %
      await visit(page, path);
      await page.getByRole("heading", { level: 1 }).waitFor({ state: "attached" });
      await whole(page);
      await geometry(page, "400 %");
      const { content, height } = await page.evaluate(() => {
        const main = document.querySelector('[role="log"], .rows-box, .canvas-box, dialog[open], main');
        let { top, bottom } = main.getBoundingClientRect();
        for (let e = main.parentElement; e; e = e.parentElement) {
          const box = e.getBoundingClientRect();
          if (getComputedStyle(e).overflowY !== "visible") [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        }
        for (const e of document.querySelectorAll(".talk-decide")) if (e.checkVisibility()) bottom = Math.min(bottom, e.getBoundingClientRect().top);
        return { content: bottom - top, height: innerHeight };
      });
      check(content >= 0.4 * height, `what is looked at has ${Math.round(content)} of ${height} pixels`);
      await axe(page, "400 %", "structure");
      await screenshot(page, `access-${name}-400`);
    });
    await step(`/${path} in forced colours`, async () => {
      await page.emulateMedia({ forcedColors: "active" });
      await page.setViewportSize({ width: 1440, height: 900 });
      await settled(page);
      await whole(page);
      await axe(page, "forced colours", "contrast");
      await screenshot(page, `access-${name}-forced`);
    });
  }
});
