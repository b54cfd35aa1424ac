// What an owner may try on a server of their own machine: a changed agent in a fork, a tool by hand, and other instructions in a file.
import { api, axe, check, geometry, given, log, newPage, run, same, screenshot, settled, step, until, visit, whole } from "./lib.mjs";

const sessions = async () => (await api("GET", "/sessions?limit=200")).sessions;

await run(async () => {
  const page = await newPage({ expected: (text) => /status of (409|422)/.test(text) });
  const details = page.getByRole("complementary", { name: /details/i });
  const option = details.getByRole("radio", { name: /with a changed agent/ });
  const agent = page.getByRole("complementary", { name: "The chosen agent" });
  const hand = agent.getByRole("region", { name: "Run a tool by hand" });
  const edit = agent.getByRole("region", { name: "Edit the instructions" });

  if (!given.workshop) {
    await step("a server without a workshop offers nothing of it", async () => {
      await visit(page, "s/s1?tab=if&sel=ev:1");
      await details.getByRole("radio", { name: /with the current tree/ }).waitFor();
      same(await option.count(), 0, "options to change an agent");
      await visit(page, "tree/support/billing");
      await agent.getByText("You are billing.").first().waitFor();
      same(await hand.count(), 0, "forms of tools");
      same(await edit.count(), 0, "editors of instructions");
    });
    return;
  }

  if (given.restart) {
    await step("the page says that saved instructions need a restart", async () => {
      await visit(page, "tree/support/tech");
      await edit.getByRole("button", { name: "Edit the instructions" }).click();
      await edit.getByRole("textbox", { name: /^Instructions/ }).fill("Be short.");
      await edit.getByRole("button", { name: "Show what changes" }).click();
      await edit.getByRole("button", { name: "Save in the file" }).click();
      await edit.getByText("Saved in desk/tech.md. This server does not reload files: turns use the text after a restart.").waitFor();
    });
    return;
  }

  await step("an agent is changed in a fork", async () => {
    await visit(page, "s/s1?tab=if&sel=ev:1");
    await option.check();
    const instead = details.getByRole("textbox", { name: /^Instructions/ });
    const fork = details.getByRole("button", { name: /^Fork/ });
    await instead.waitFor();
    same(await instead.inputValue(), "You are the first to answer. Hand over to whoever knows.", "the instructions");
    same(await fork.getAttribute("aria-disabled"), "true", "a fork without a change");
    await details.getByRole("textbox", { name: /^Model/ }).fill("huge");
    await details.getByText("huge for support").waitFor();
    await details.getByText("at least one answer of huge, price unknown").waitFor();
    await fork.click();
    await page.getByText("only instructions can be changed").waitFor();
    same((await sessions()).length, 1, "sessions after a change that cannot be made");
    await details.getByRole("textbox", { name: /^Model/ }).fill("large");
    await details.getByText(/at least 1 answer .* \$0\.0/).waitFor();
    await instead.fill("Say no.");
    await whole(page);
    await axe(page, "a changed agent");
    await geometry(page, "a changed agent");
    await screenshot(page, "workshop-change");
    await fork.click();
    await details.getByRole("link", { name: "Compare" }).first().waitFor();
    const [made] = await sessions();
    check(/^s1\.support-instructions-/.test(made.id), `the fork is called ${made.id}`);
    await until("its answer", async () => (await log(made.id)).some((e) => e.type === "text" && e.content === "support was told: Say no."));
    await details.getByRole("link", { name: "Compare" }).first().click();
    await page.getByRole("heading", { level: 1, name: new RegExp(`s1 and .*${made.id}`) }).waitFor();
    await page.getByText("support was told: Say no.").first().waitFor();
    const route = page.getByRole("table", { name: "In short" }).getByRole("row", { name: /route from there: / }).getByRole("cell");
    same(await route.allInnerTexts(), ["route from there support → billing", "route from there support"], "routes");
    await screenshot(page, "workshop-compare");
  });

  await step("a changed agent at 320 pixels", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await visit(page, "s/s1?tab=if&sel=ev:1");
    const sheet = page.getByRole("dialog");
    await sheet.getByRole("radio", { name: /with a changed agent/ }).check();
    await sheet.getByRole("textbox", { name: /^Instructions/ }).waitFor();
    await axe(page, "a changed agent at 320");
    await geometry(page, "a changed agent at 320");
    await screenshot(page, "workshop-change-320");
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  await step("a tool is run by hand", async () => {
    const before = JSON.stringify(await log("s1"));
    const count = (await sessions()).length;
    await visit(page, "tree/support/billing");
    const tool = hand.getByRole("combobox", { name: "Tool" });
    await tool.waitFor();
    same(await tool.getByRole("option").allInnerTexts(), ["transfer_to_bank", "list_charges", "refund_charge"], "tools that run by hand");
    await tool.selectOption("list_charges");
    await hand.getByRole("textbox", { name: /^product/ }).fill("router");
    await page.getByRole("link", { name: "Usage", exact: true }).click();
    await until("no form", async () => (await hand.count()) === 0);
    await page.goBack();
    await tool.waitFor();
    await tool.selectOption("list_charges");
    same(await hand.getByRole("textbox", { name: /^product/ }).inputValue(), "router", "what was written before the screen was left");
    await hand.getByRole("button", { name: "Run list_charges" }).press("Enter");
    await hand.getByText("ch_1004").waitFor();
    await axe(page, "a tool by hand");
    await geometry(page, "a tool by hand");
    await screenshot(page, "workshop-tool");

    await hand.getByRole("combobox", { name: "Tool" }).selectOption("refund_charge");
    await hand.getByRole("textbox", { name: /^charge_id/ }).fill("ch_1");
    await hand.getByRole("textbox", { name: /^amount/ }).fill("1 EUR");
    await hand.getByRole("button", { name: "Run refund_charge" }).click();
    await hand.getByText(/refund_charge needs an approval for this call/).waitFor();
    same(await hand.getByText("refunded").count(), 0, "results before the approval");
    await hand.getByRole("textbox", { name: /^charge_id/ }).fill("ch_2");
    await hand.getByRole("button", { name: "Run refund_charge" }).click();
    await hand.getByRole("button", { name: "Approve and run" }).click();
    await hand.getByText("refunded ch_2").waitFor();
    await hand.getByText('In a session it would write {"refunds":1}.').waitFor();
    await page.setViewportSize({ width: 320, height: 640 });
    await settled(page);
    await axe(page, "a tool by hand at 320");
    await geometry(page, "a tool by hand at 320");
    await screenshot(page, "workshop-tool-320");
    same((await sessions()).length, count, "sessions");
    same(JSON.stringify(await log("s1")), before, "the log of the session");
  });

  await step("the instructions in a file are edited", async () => {
    const inFile = async () => (await api("GET", "/agents/billing/body")).text;
    const text = edit.getByRole("textbox", { name: /^Instructions in desk\/billing\.md/ });
    const changes = edit.getByRole("region", { name: "What changes in the file" });
    const [showIt, save] = ["Show what changes", "Save in the file"].map((name) => edit.getByRole("button", { name }));
    const old = "You are billing.\nBe kind.\nBe brief.";
    await page.setViewportSize({ width: 1440, height: 900 });
    await visit(page, "tree/support/billing");
    await edit.getByRole("button", { name: "Edit the instructions" }).press("Enter");
    await text.waitFor();
    same(await text.inputValue(), old, "the instructions in the file");
    same(await showIt.getAttribute("aria-disabled"), "true", "a text that is as it was");

    await text.fill("You are billing.\nBe {kind}.\nBe brief.\nRhyme.");
    await showIt.click();
    await edit.getByText("1 line removed, 2 added").waitFor();
    same((await changes.locator("del, ins").allInnerTexts()), ["− Be kind.", "+ Be {kind}.", "+ Rhyme."], "what changes");
    await axe(page, "edited instructions");
    await geometry(page, "edited instructions");
    await screenshot(page, "workshop-edit");
    same(await inFile(), old, "the file before it is saved");
    await save.click();
    await edit.getByText("billing.md:4: there is no {").waitFor();
    same(await inFile(), old, "the file behind a text that was refused");

    await text.fill("You have moved.");
    same(await save.count(), 0, "a button to save what was not shown");
    await showIt.click();
    await save.click();
    await edit.getByText(/has changed since it was read/).waitFor();
    await edit.getByRole("button", { name: "Read the file again" }).click();
    await until("the other text is gone from the form", async () => (await changes.count()) === 0);
    same(await text.inputValue(), "You have moved.", "the text after the file was read again");
    await text.fill("Somebody else wrote this.\nBe short.");
    await page.setViewportSize({ width: 320, height: 640 });
    await settled(page);
    await showIt.click();
    same((await changes.locator("del, ins").allInnerTexts()), ["− Be brief.", "+ Be short."], "what changes in the newer file");
    await axe(page, "edited instructions at 320");
    await geometry(page, "edited instructions at 320");
    await screenshot(page, "workshop-edit-320");
    await save.click();
    await edit.getByText("Saved in desk/billing.md.", { exact: true }).waitFor();
    same(await inFile(), "Somebody else wrote this.\nBe short.", "the file");
    await edit.getByRole("button", { name: "Edit the instructions" }).click();
    same(await text.inputValue(), "Somebody else wrote this.\nBe short.", "the text that is edited next");
    await edit.getByRole("button", { name: "Cancel" }).click();
    await text.waitFor({ state: "detached" });
  });

  await step("a text that is not saved stays, and leaving the page asks", async () => {
    const text = edit.getByRole("textbox", { name: /^Instructions/ });
    const begin = () => edit.getByRole("button", { name: "Edit the instructions" }).click();
    const go = async (name) => {
      await page.evaluate((to) => (history.pushState(null, "", to), window.dispatchEvent(new PopStateEvent("popstate"))), `/inspect/tree/support/${name}`);
      await agent.getByRole("heading", { level: 2, name }).waitFor();
    };
    await page.setViewportSize({ width: 1440, height: 900 });
    await visit(page, "tree/support/billing");
    await begin();
    await text.fill("You are billing, and this took an hour.");
    await go("tech");
    await begin();
    same(await text.inputValue(), "Somebody else wrote this.\nBe short.", "the text of another agent");
    await text.fill("You are tech.");
    await edit.getByRole("link", { name: "billing" }).click();
    await text.waitFor();
    same(await text.inputValue(), "You are billing, and this took an hour.", "the first text after another agent was edited");
    await axe(page, "two texts that are not saved");
    await screenshot(page, "workshop-unsaved");

    const asked = [];
    const stay = (dialog) => (asked.push(dialog.type()), dialog.dismiss());
    page.on("dialog", stay);
    // Playwright's own reload would wait for the page that does not come.
    await Promise.all([page.waitForEvent("dialog"), page.evaluate(() => void setTimeout(() => location.reload()))]);
    same(asked, ["beforeunload"], "questions before the page is left");
    same(await text.inputValue(), "You are billing, and this took an hour.", "the text on the page that was not left");
    await edit.getByRole("button", { name: "Cancel" }).click();
    await edit.getByRole("link", { name: "tech" }).click();
    await edit.getByRole("button", { name: "Cancel" }).click();
    await page.reload();
    same(asked.length, 1, "questions without a text to lose");
    page.off("dialog", stay);
  });
});
