// If the offline model answers, every screen says so, and none says that it costs money.
import { newPage, run, same, step, visit } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  for (const path of ["", "tree", "usage", "s/words"]) {
    await step(`at ${path || "sessions"}`, async () => {
      await visit(page, path);
      await page.getByText("The offline model answers").first().waitFor();
    });
  }
  await step("who asks again pays nothing", async () => {
    await visit(page, "s/words?tab=why&sel=ev:4");
    const details = page.getByRole("complementary", { name: /details/i });
    await details.getByText("No tool runs and nothing is stored.").waitFor();
    same(await details.getByText(/paid|\$/).count(), 0, "words about money");
  });
});
