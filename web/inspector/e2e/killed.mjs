// Two windows look at a session whose server is killed in mid-answer, and comes back as another process.
import { check, control, newPage, run, screenshot, step, until, visit } from "./lib.mjs";

const unreachable = (text) => /ERR_|Failed to (fetch|load)|network|INCOMPLETE/i.test(text);

await run(async () => {
  await step("a server that is killed", async () => {
    const windows = [await newPage({ expected: unreachable }), await newPage({ expected: unreachable })];
    const shown = (page) => page.getByRole("log").innerText();
    const show = async (text) => {
      for (const page of windows) await until(`"${text}"`, async () => (await shown(page)).includes(text));
    };
    for (const page of windows) await visit(page, "s/s1");
    await show("I look in");
    await control("kill");
    for (const page of windows) await page.getByText(/Not connected since/).first().waitFor();
    await show("I look in");
    await screenshot(windows[0], "killed");
    await control("start");
    await show("It is refunded.");
    for (const page of windows) {
      const text = await shown(page);
      check(!text.includes("I look in"), `words that were never stored are still shown: ${text}`);
      check(text.split("It is refunded.").length === 2, `the answer is shown more than once: ${text}`);
      await until("no bar", async () => (await page.getByText(/Not connected since/).count()) === 0);
    }
    const composer = windows[1].getByRole("textbox", { name: /write to/i });
    await composer.fill("thanks");
    await composer.press("Control+Enter");
    await show("thanks");
    await show("Good bye.");
  });
});
