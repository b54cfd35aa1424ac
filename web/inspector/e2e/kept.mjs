// What a session keeps: its state, with the writers, and its files, with their versions.
import { readFileSync } from "node:fs";
import { api, axe, check, geometry, newPage, run, same, step, until, visit, whole } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  const details = page.getByRole("complementary", { name: /details/i });
  const term = async (name) => {
    const key = details.getByRole("term").filter({ hasText: new RegExp(`^${name}$`) });
    await key.waitFor();
    return (await key.locator("..").innerText()).replace(/\s+/g, " ");
  };

  await step("the state, with who wrote it", async () => {
    await visit(page, "s/drawn");
    await page.keyboard.press("5");
    await until("the tab State", () => page.url().includes("tab=state"));
    check(/^month april of the session · written by clerk, at \d+,/.test(await term("month")), `month: ${await term("month")}`);
    check((await term("orders")).includes("orders 9007199254740993 of"), "a number has lost digits");
    check((await term("user:name")).includes("shared by the user's sessions"), `user:name: ${await term("user:name")}`);
    same(await details.getByRole("term").filter({ hasText: "turn:draft" }).count(), 0, "values of a turn that is over");
    await details.getByRole("link", { name: /^at \d/ }).first().click();
    await until("the event", () => /sel=ev%3A\d+/.test(page.url()) && page.url().includes("tab=state"));
    await whole(page);
  });

  await step("the state as it was", async () => {
    const { events } = await api("GET", "/sessions/drawn/events?types=state");
    await visit(page, `s/drawn?tab=state&at=${events[0].seq}`);
    check((await term("month")).startsWith("month march of the session"), `month then: ${await term("month")}`);
    check((await term("turn:draft")).includes("until the turn ends"), "the turn's value is missing");
    await visit(page, "s/drawn?tab=state&at=1");
    await details.getByText("There are no values yet.").waitFor();
  });

  await step("the files, with their versions", async () => {
    await visit(page, "s/drawn");
    await page.keyboard.press("6");
    const rows = details.locator("section", { has: page.getByRole("heading", { name: /^Files at/ }) }).getByRole("listitem");
    await rows.first().waitFor();
    const texts = (await rows.allInnerTexts()).map((t) => t.replace(/\s+/g, " "));
    same(texts.map((t) => /april\.csv|march\.csv|plot\.png/.exec(t)?.[0]), ["april.csv", "plot.png", "march.csv", "plot.png"], "files");
    check(/version 2 of 2 · by clerk, at \d+/.test(texts[1]) && /version 1 of 2/.test(texts[3]), `versions: ${texts.join("; ")}`);
    check(texts[0].includes("text/csv · 16 bytes"), `type and size: ${texts[0]}`);
    await until("the pictures", async () => (await details.getByRole("img", { name: "plot.png" }).evaluateAll((all) => all.filter((i) => i.naturalWidth === 120).length)) === 2);
    const [saved] = await Promise.all([page.waitForEvent("download"), details.getByRole("button", { name: "Download april.csv" }).click()]);
    same([saved.suggestedFilename(), readFileSync(await saved.path(), "utf8")], ["april.csv", "day,orders\n1,17\n"], "what was saved");
    await whole(page);
  });

  await step("nothing was made", async () => {
    await visit(page, "s/plain?tab=files");
    await details.getByText("There are no files yet.").waitFor();
  });

  await step("the session as a file", async () => {
    for (const [name, says] of [["plain.md", "**user:**"], ["plain.jsonl", '"type":"user"'], ["plain.yaml", "- say: "]]) {
      const [saved] = await Promise.all([page.waitForEvent("download"), details.getByRole("button", { name: `Download ${name}` }).click()]);
      same(saved.suggestedFilename(), name, "the name of the file");
      check(readFileSync(await saved.path(), "utf8").includes(says), `${name} does not hold ${says}`);
    }
    await axe(page, "the session as a file");
    await geometry(page, "the session as a file");
  });
});
