// The screen of an agent: its instructions and rights, its file, how it routes, and the sessions in which it spoke.
import { axe, geometry, newPage, run, same, screenshot, settled, step, visit, whole } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  const facts = page.getByRole("complementary", { name: "The chosen agent" });
  const row = (name) => facts.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });

  await step("what an agent is told and may do", async () => {
    await visit(page, "tree/support/billing");
    await facts.getByText("desk/billing.md:2").waitFor();
    await facts.getByText("You are billing.").first().waitFor();
    await facts.getByText("50 model calls").waitFor();
    await facts.getByText("transfers to no other agent").waitFor();
    await facts.getByText("refund_charge", { exact: true }).last().click();
    await facts.getByText("charge_id").first().waitFor();
    await facts.getByText("Gives money back.").waitFor();
  });

  await step("how it routes, and where it has spoken", async () => {
    await row("transferred from support").waitFor();
    same(await row("transferred from support").getByRole("cell").allInnerTexts(), ["3", "50 %"], "transfers to billing");
    same(await row("kept the conversation").getByRole("cell").allInnerTexts(), ["6", "100 %"], "runs without a transfer");
    await facts.getByRole("listitem").filter({ hasText: "I was charged twice" }).first().waitFor();
    await whole(page);
    await axe(page, "an agent");
    await geometry(page, "an agent");
    await screenshot(page, "agent-light");
    await page.emulateMedia({ colorScheme: "dark" });
    await settled(page);
    await screenshot(page, "agent-dark");
    await page.setViewportSize({ width: 390, height: 844 });
    await settled(page);
    await screenshot(page, "agent-390");
    await facts.getByRole("link", { name: "All sessions that billing has now" }).click();
    await page.getByRole("row").filter({ hasText: "I was charged twice" }).first().waitFor();
  });
});
