// The page in other languages: every screen on a phone, with axe, and in a small window, without anything cut off.
import { axe, geometry, given, measure, newPage, run, same, screenshot, settled, step, visit, whole } from "./lib.mjs";

const widths = { 390: 844, 1024: 768 };
const expected = (text) => text.includes("status of 404");

/** The tables of other languages that a window has asked for. */
function tables(page) {
  const asked = [];
  page.on("request", (r) => asked.push(...(new URL(r.url()).pathname.match(/\/(de|es)\.js$/)?.slice(1) ?? [])));
  return asked;
}

const language = (page) => page.evaluate(() => document.documentElement.lang);

await run(async () => {
  for (const [locale, screens] of Object.entries(given.screens)) {
    const page = await newPage({ locale: `${locale}-${locale.toUpperCase()}`, expected });
    const asked = tables(page);
    for (const { name, path, text } of screens) {
      // Widths are those of the language with the longer words.
      for (const [width, height] of Object.entries(locale === "de" ? widths : { 390: 844 })) {
        await step(`${name} ${locale} ${width}`, async () => {
          await page.setViewportSize({ width: Number(width), height });
          if (Number(width) === 390) await visit(page, path);
          else await settled(page);
          await page.getByText(new RegExp(text)).first().waitFor({ state: "attached" });
          same(await language(page), locale, "the language of the document");
          await whole(page);
          await geometry(page, "layout");
          await measure(page);
          if (Number(width) === 390) await axe(page, name, "structure");
          await screenshot(page, `${given.world}-${name}-${locale}-${width}`);
        });
      }
    }
    same([...new Set(asked)], [locale], "tables that were loaded");
  }

  await step("the reader chooses a language", async () => {
    const page = await newPage({ expected });
    const asked = tables(page);
    await visit(page, "");
    same(await language(page), "en", "the language of the document");
    same(asked, [], "tables that were loaded for English");
    const choose = async (menu, label, to) => {
      await page.getByRole("button", { name: menu, exact: true }).click();
      await Promise.all([page.waitForEvent("load"), page.getByRole("combobox", { name: label }).selectOption(to)]);
      await settled(page);
    };
    await choose("Menu", "Language", "Deutsch");
    await page.getByRole("heading", { level: 1, name: "Sitzungen" }).waitFor();
    await choose("Menü", "Sprache", "Español");
    await page.getByRole("heading", { level: 1, name: "Sesiones" }).waitFor();
    await page.getByRole("button", { name: "Menú", exact: true }).click();
    await axe(page, "menu");
    await screenshot(page, `${given.world}-menu-es`);
    await page.keyboard.press("Escape");
    await choose("Menú", "Idioma", "Como el navegador");
    await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
    same(asked, ["de", "es"], "tables that were loaded");
  });

  await step("a table that cannot be loaded leaves the page in English", async () => {
    const page = await newPage({ locale: "de", expected: (text) => text.includes("de.js") || text.includes("ERR_FAILED") });
    await page.route("**/de.js", (route) => route.abort());
    await visit(page, "");
    await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
    same(await language(page), "en", "the language of the document");
  });
});
