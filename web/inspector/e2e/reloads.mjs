// What came of a change of the agents' files is said on every screen.
import { control, newPage, run, same, step, visit } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  const broken = page.getByText(/The agents' files cannot be used/);
  const taken = page.getByText(/The next turn uses the new tree/);
  const problems = [{ file: "desk/billing.md", line: 3, message: "the key modle is unknown" }, { file: "desk/tech.md", message: "it has no description" }];

  await step("broken files and new ones are told on every screen", async () => {
    for (const path of ["", "s/failed", "usage", "approvals", "desk"]) {
      await visit(page, path);
      same(await broken.count(), 0, `what is said at /${path} at first`);
      await control("refused", { problems });
      await broken.getByText("desk/billing.md:3: the key modle is unknown").waitFor();
      await control("took");
      await taken.waitFor();
      await broken.waitFor({ state: "detached" });
      await page.getByRole("status").getByRole("button", { name: "Dismiss" }).click();
      await taken.waitFor({ state: "detached" });
    }
  });

  await step("all problems are on the screen of the tree", async () => {
    await control("refused", { problems });
    await page.getByRole("link", { name: "Show all 2 problems" }).click();
    await page.getByRole("heading", { level: 1, name: /^Tree of/ }).waitFor();
    await page.getByText("it has no description").waitFor();
    same(await broken.count(), 0, "what the bar says there");
    await control("took");
  });
});
