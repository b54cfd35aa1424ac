// Before something runs in a fork the page says which models and tools, and what it costs; tools run after a yes.
import { api, check, log, newPage, run, same, step, until, visit } from "./lib.mjs";

const sessions = async () => (await api("GET", "/sessions?limit=200")).sessions.length;
const sheet = (page) => page.getByRole("dialog");
const idOf = (page) => /\/s\/([^/?]+)/.exec(page.url())[1];

/** What a sheet shows before anything is done. */
async function says(page, ...texts) {
  for (const text of texts) await sheet(page).getByText(text).first().waitFor();
}

await run(async () => {
  const page = await newPage();
  const before = await sessions();

  await step("F asks first", async () => {
    await visit(page, "s/forked?at=9");
    await page.getByText("as it was at 9").first().waitFor();
    await page.keyboard.press("F");
    await says(page, /^Fork at \d/, "Nothing runs now", "small", "list_charges, refund_charge", /about [\d,]+ tokens.*\$0\.0/);
    same(await sessions(), before, "sessions before the answer");
    await page.keyboard.press("Escape");
    await sheet(page).waitFor({ state: "detached" });
    same(await sessions(), before, "sessions after a no");
    await page.keyboard.press("F");
    await sheet(page).getByRole("button", { name: "Fork", exact: true }).click();
    await until("the fork", () => idOf(page) !== "forked");
    same(await sessions(), before + 1, "sessions after a yes");
  });

  await step("the first message in a fork asks first, and once", async () => {
    const id = idOf(page);
    const { seq } = await api("GET", `/sessions/${id}`);
    const write = page.getByRole("textbox", { name: /write to/i });
    await write.fill("My router is slow");
    await write.press("Enter");
    await says(page, "This runs immediately", "list_charges, refund_charge");
    same((await api("GET", `/sessions/${id}`)).seq, seq, "events before the answer");
    await sheet(page).getByRole("button", { name: "Cancel" }).click();
    same(await write.inputValue(), "My router is slow", "what was written, after a no");
    await write.press("Enter");
    await sheet(page).getByRole("button", { name: "Send and let tools run" }).click();
    await until("an answer", async () => (await api("GET", `/sessions/${id}`)).seq > seq);
    await until("an empty field", async () => (await write.inputValue()) === "");
    await write.fill("Thank you");
    await write.press("Enter");
    await until("no second question", async () => (await log(id)).some((e) => e.type === "user" && e.content === "Thank you"));
  });

  await step("other words ask first", async () => {
    await visit(page, "s/forked");
    const count = await sessions();
    await page.getByRole("log").getByRole("button", { name: "Edit" }).first().click();
    const words = page.getByRole("textbox", { name: "New text" });
    await words.fill("My router is slow");
    await words.press("Control+Enter");
    await says(page, "Say this instead?", "This runs immediately", "large", "small", "list_charges, refund_charge", /\$0\.0/);
    same(await sessions(), count, "sessions before the answer");
    await sheet(page).getByRole("button", { name: "Say it and let tools run" }).click();
    await until("the fork", () => idOf(page) !== "forked");
    await page.getByRole("log").getByText("Restart the router.").first().waitFor();
    const write = page.getByRole("textbox", { name: /write to/i });
    await write.fill("Thank you");
    await write.press("Enter");
    await until("no second question", async () => (await log(idOf(page))).some((e) => e.content === "Thank you"));
  });

  await step("writing in the past asks first", async () => {
    await visit(page, "s/forked?at=9");
    const count = await sessions();
    const write = page.getByRole("textbox", { name: /fork here and say/i });
    await write.fill("Where is my address?");
    await write.press("Enter");
    await says(page, /and say this\?/, "list_charges, refund_charge");
    same(await sessions(), count, "sessions before the answer");
    await sheet(page).getByRole("button", { name: "Fork and let tools run" }).click();
    await until("the fork", () => idOf(page) !== "forked");
  });

  await step("What if names what may run", async () => {
    await visit(page, "s/s1?tab=if&sel=ev:1");
    const details = page.getByRole("complementary", { name: /details/i });
    await details.getByText("list_charges, refund_charge").waitFor();
    await details.getByRole("button", { name: "Fork instead and let tools run" }).waitFor();
    check((await details.getByText(/\$0\.0/).count()) > 0, "there is no price");
  });

  await step("the comparison says in short what differs", async () => {
    await visit(page, "diff/s1/edited");
    await page.getByRole("heading", { level: 1, name: /I was charged twice and My router is slow/ }).waitFor();
    const row = async (name) => {
      const cells = page.getByRole("table", { name: "In short" }).getByRole("row", { name: new RegExp(`${name}: `) }).getByRole("cell");
      return (await cells.allInnerTexts()).map((t) => t.replace(/\s+/g, " ").replace(`${name} `, ""));
    };
    same(await row("first difference"), ["user: I was charged twice", "user: My router is slow"], "where they part");
    same(await row("route from there"), ["support → billing", "support → tech"], "routes");
    await until("what it cost", async () => (await row("cost from there")).every((t) => /^\$0\.00\d+ · \d answers · [\d,]+ tokens$/.test(t)));
    same((await row("cost from there"))[1].replace(/^.* · 2/, "2"), "2 answers · 734 tokens", "the cost of the fork alone");
    await visit(page, "diff/s1/forked");
    await page.getByRole("heading", { level: 1, name: /I was charged twice and Which charges were there/ }).waitFor();
    await until("what it cost", async () => (await row("cost from there")).every((t) => t.startsWith("$")));
    check(!(await row("cost from there"))[1].includes("4 answers"), "what both share counts as the fork's");
  });

  await step("Ctrl Enter sends what its field is part of, and nothing else", async () => {
    await visit(page, "s/s1?tab=if&sel=ev:1");
    const count = await sessions();
    const write = page.getByRole("textbox", { name: /write to/i });
    await write.fill("This stays here");
    const instead = page.getByRole("textbox", { name: /says instead/i });
    await instead.fill("My router is slow");
    await instead.press("Control+Enter");
    await until("the fork", async () => (await sessions()) === count + 1);
    await page.getByRole("article").filter({ hasText: "wants to run" }).getByRole("button", { name: /^deny/i }).click();
    const reason = page.getByRole("textbox", { name: /why\? the model/i });
    await reason.fill("not today");
    await reason.press("Control+Enter");
    await until("the denial", async () => (await log("s1")).some((e) => e.type === "relay_resolved" && e.reason === "not today"));
    same(await write.inputValue(), "This stays here", "the composer");
    same((await log("s1")).filter((e) => e.type === "user").length, 2, "messages");
    await visit(page, "");
    await page.getByRole("textbox", { name: /first message/i }).fill("Hello");
    await page.getByRole("searchbox").first().press("Control+Enter");
    same(await sessions(), count + 1, "sessions after the key in the search");
    await page.getByRole("textbox", { name: /first message/i }).press("Control+Enter");
    await until("a session", async () => (await sessions()) === count + 2);
  });
});
