// The first run: messages made of the agents' descriptions, and screens that say what to do next.
import { axe, check, geometry, newPage, run, same, screenshot, step, visit } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  await step("empty screens say what to do next", async () => {
    for (const [path, text] of [["usage", /Start one under Sessions/], ["approvals", /Calls that need your decision appear here/], ["tree/support/tech", /Start one under Sessions/]]) {
      await visit(page, path);
      await page.getByText(text).first().waitFor();
    }
  });
  await step("a tour of four steps, when it is asked for", async () => {
    await visit(page, "");
    const sheet = page.getByRole("dialog");
    same(await sheet.count(), 0, "tours that nobody asked for");
    const ask = page.getByRole("button", { name: /^Take the tour/ });
    await ask.press("Enter");
    for (const n of [1, 2, 3, 4]) {
      await sheet.getByRole("heading", { name: `step ${n} of 4` }).waitFor();
      if (n === 1) await axe(page, "the tour");
      else check(await sheet.locator("p[tabindex]").evaluate((e) => e === document.activeElement), "the focus is not at the text");
      await sheet.getByRole("button", { name: n < 4 ? "Next" : "Finish" }).press("Enter");
    }
    await sheet.waitFor({ state: "detached" });
    check(await ask.evaluate((e) => e === document.activeElement), "the focus does not come back");
    for (let i = 0; i < 5; i++) { // a sheet that is closed before it is painted leaves the page its keys
      await page.keyboard.press("?");
      await sheet.waitFor();
      await page.keyboard.press("Escape");
      await sheet.waitFor({ state: "detached" });
    }
    await page.keyboard.press("?");
    await sheet.getByRole("button", { name: "Take the tour" }).click();
    await sheet.getByRole("heading", { name: "step 1 of 4" }).waitFor();
    await page.setViewportSize({ width: 320, height: 640 });
    await geometry(page, "the tour at 320");
    await screenshot(page, "tour-320");
    await page.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.reload();
    await ask.waitFor();
    same(await sheet.count(), 0, "tours that came back");
  });
  await step("an example starts the first session", async () => {
    await visit(page, "");
    const examples = page.getByRole("button", { name: /^I need help with this: / });
    await examples.first().waitFor();
    same(await examples.allInnerTexts(), ["Refunds, invoices, charges", "Network, router, devices", "Sign-in, addresses"].map((d) => `I need help with this: ${d}.`), "examples");
    await examples.nth(1).click();
    const field = page.getByRole("textbox", { name: /first message/i });
    same(await field.inputValue(), "I need help with this: Network, router, devices.", "the field");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("log").getByText("Restart the router.").first().waitFor();
  });
});
