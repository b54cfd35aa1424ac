// The first run: messages made of the agents' descriptions, and screens that say what to do next.
import { newPage, run, same, step, visit } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  await step("empty screens say what to do next", async () => {
    for (const [path, text] of [["usage", /Start one under Sessions/], ["approvals", /Calls that need your decision appear here/], ["tree/support/tech", /Start one under Sessions/]]) {
      await visit(page, path);
      await page.getByText(text).first().waitFor();
    }
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
