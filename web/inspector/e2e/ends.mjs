// The page shows how a turn ends: stopped texts stay and are marked, what failed can be tried again, and persons who
// are waited for are named.
import { api, control, log, newPage, run, same, step, until, visit } from "./lib.mjs";

const talk = (page) => page.getByRole("log");
const stands = (page, words) => page.locator(".session-title .state").filter({ hasText: words }).waitFor();
const notKept = (page) => talk(page).getByText("The log does not contain this text");

await run(async () => {
  const page = await newPage();

  await step("stopped words stay, and are marked", async () => {
    await api("POST", "/sessions", { id: "stopped", content: "Please count" });
    await visit(page, "s/stopped");
    await control("step", { steps: 7 });
    await talk(page).getByText("1 2 3 4 5 6 7").waitFor();
    await page.getByRole("button", { name: /^stop/i }).click();
    await notKept(page).waitFor();
    await talk(page).getByText("1 2 3 4 5 6 7").waitFor();
    await stands(page, "cut off");
    await page.getByRole("button", { name: "Cancel the turn" }).click();
    await until("the end of the turn", async () => (await api("GET", "/sessions/stopped")).state === "canceled");
    await stands(page, "canceled");
    await notKept(page).waitFor();
    await talk(page).getByText("1 2 3 4 5 6 7").waitFor();
    same(JSON.stringify(await log("stopped")).includes("1 2 3"), false, "whether the log has the words");
    await page.reload();
    await talk(page).getByText("Please count").waitFor();
    same(await notKept(page).count(), 0, "marks after a reload");
  });

  await step("a failed turn has Try again", async () => {
    await visit(page, "s/failed");
    await stands(page, "failed");
    const before = (await log("failed")).filter((e) => e.type === "user").length;
    await page.getByRole("button", { name: "Try again" }).click();
    await until("the message again", async () => (await log("failed")).filter((e) => e.type === "user").length === before + 1);
    const all = (await log("failed")).filter((e) => e.type === "user").map((e) => e.content);
    same(all.at(-1), all.at(-2), "what was said");
    await page.getByRole("button", { name: "Try again" }).waitFor();
  });

  await step("a question waits for a person", async () => {
    await visit(page, "s/s1");
    await stands(page, "waits for a person");
    await visit(page, "");
    await page.getByRole("row").filter({ hasText: "I was charged twice" }).getByText("waits for a person").first().waitFor();
  });
});
