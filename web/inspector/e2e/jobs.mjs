// The five jobs that the page is for. Jobs 1 to 3 take one click from the session, job 4 three, job 5 one key; all of
// them can be done by keys alone.
import {
  api,
  check,
  control,
  hands,
  log,
  newPage,
  run,
  same,
  screenshot,
  settled,
  step,
  until,
  visit,
} from "./lib.mjs";

const details = (page) => page.getByRole("complementary", { name: /details/i });
const plain = (text) => text.replace(/\s+/g, " ");
const says = (locator, ...texts) =>
  until(texts.map((t) => `"${t}"`).join(", "), async () => {
    const all = plain(await locator.innerText());
    const missing = texts.filter((t) => !(t instanceof RegExp ? t.test(all) : all.includes(t)));
    if (missing.length > 0) throw new Error(`${missing.map(String).join(", ")} is not in "${all}"`);
    return true;
  });

/** A session as s1, whose second turn waits for an approval. */
async function story(id) {
  await api("POST", "/sessions", { id, content: "I was charged twice" }, { Prefer: "wait=30" });
  await api("POST", `/sessions/${id}/turns`, { content: "Please refund one" }, { Prefer: "wait=30" });
  same((await api("GET", `/sessions/${id}`)).state, "waiting", id);
}

/** Presses Tab until an element has the focus. */
async function tabTo(page, locator, most = 80) {
  for (let i = 0; i < most; i++) {
    if (await locator.evaluate((e) => e === document.activeElement).catch(() => false)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`${locator} is not reached by ${most} tabs`);
}

const answers = {
  why: (page) =>
    says(details(page), "charged, twice", "billing", "tech", "account", /by the model/i, "Refunds, invoices, charges"),
  seen: (page) => says(details(page), "You are billing.", "I was charged twice", /new/i),
  async cost(page) {
    const usage = await api("GET", "/sessions/s1/usage");
    const { inputTokens, outputTokens, cost } = usage.session;
    const number = new Intl.NumberFormat("en");
    const price = new RegExp(`\\$${String(cost.toPrecision(2)).replace(".", "\\.")}`);
    await says(details(page), number.format(inputTokens), number.format(outputTokens), /cached/i, price);
    await says(details(page), "support", "billing");
  },
};

await run(async () => {
  const page = await newPage();
  const conversation = page.getByRole("log");
  const from = async (id = "s1") => {
    await visit(page, `s/${id}`);
    await conversation.waitFor();
    return hands(page);
  };

  await step("1 why, by one click", async () => {
    const { counted, click } = await from();
    await click(conversation.getByRole("link", { name: /why/i }).first());
    await answers.why(page);
    same(counted, { clicks: 1, keys: 0 }, "clicks");
    await screenshot(page, "job-1-why");
    // Five samples, whose price is shown before.
    const before = (await log("s1")).length;
    await control("waver");
    await details(page)
      .getByRole("button", { name: /ask again|ask .*again|sample/i })
      .first()
      .click();
    await says(details(page), /billing\W+4/, /tech\W+1/);
    same((await log("s1")).length, before, "samples were stored");
  });

  await step("2 seen, by one click", async () => {
    const { counted, click } = await from();
    await click(page.getByRole("link", { name: "Seen", exact: true }));
    await answers.seen(page);
    same(counted, { clicks: 1, keys: 0 }, "clicks");
  });

  await step("3 cost, by one click", async () => {
    const { counted, click } = await from();
    await click(page.getByRole("link", { name: "Cost", exact: true }));
    await answers.cost(page);
    same(counted, { clicks: 1, keys: 0 }, "clicks");
  });

  await step("4 what if, by three clicks", async () => {
    const { counted, click } = await from();
    await click(page.getByRole("link", { name: "What if", exact: true }));
    const words = details(page).getByRole("textbox").first();
    await words.fill("My router is slow");
    await click(
      details(page)
        .getByRole("button", { name: /fork|try|go/i })
        .last(),
    );
    await until(
      "a fork",
      async () =>
        !page.url().includes("/s/s1") || (await page.getByRole("link", { name: /compare|diff/i }).count()) > 0,
    );
    if (!page.url().includes("/diff/")) await click(page.getByRole("link", { name: /compare|diff/i }).first());
    await says(page.getByRole("main"), "router, slow", "charged, twice", "Restart the router.");
    check(counted.clicks <= 3, `${counted.clicks} clicks`);
    await screenshot(page, "job-4-diff");
  });

  await step("fold an agent's part, by keys", async () => {
    const { press } = await from();
    const rows = conversation.getByRole("article");
    const part = conversation.getByRole("button", { name: /the part of billing/i }).first();
    const open = async (yes, n) =>
      until(`${n} rows`, async () => (await rows.count()) === n && (await part.getAttribute("aria-expanded")) === String(yes));
    await part.waitFor();
    const all = await rows.count();
    await tabTo(page, part);
    await press("Enter");
    await open(false, all - 1);
    await says(part, "I see two charges on 1 March", "2 answers", "1 call");
    check(await part.evaluate((e) => e === document.activeElement), "the focus is elsewhere");
    // It stays so while the session is open, and what is selected in it is still found.
    await press("r");
    await page.getByRole("group", { name: "Runs" }).waitFor();
    await press("t");
    await open(false, all - 1);
    await tabTo(page, part);
    await press("Space");
    await open(true, all);
  });

  await step("5 take over, by one key", async () => {
    await story("approved");
    const { counted, press } = await from("approved");
    await page.getByRole("button", { name: /^approve/i }).waitFor();
    await says(conversation, "refund_charge", "ch_1004", "Nothing has happened yet");
    await press("a");
    await says(conversation, "19.00 EUR come back within three days.");
    same(counted, { clicks: 0, keys: 1 }, "keys");
    same((await api("GET", "/sessions/approved")).state, "done", "the state");
  });

  await step("5 deny, which asks why", async () => {
    await story("denied");
    const { press } = await from("denied");
    await page.getByRole("button", { name: /^deny/i }).waitFor();
    await press("d");
    await page.keyboard.type("not without the customer");
    await page.keyboard.press("Enter");
    await says(conversation, "I have left it as it is.");
    check(JSON.stringify(await log("denied")).includes("not without the customer"), "the reason is not in the log");
  });

  await step("5 once, from two windows", async () => {
    await story("both");
    const late = (text) => text.includes("status of 409"); // one of them comes second
    page.arbor.expected = late;
    const other = await newPage({ expected: late });
    for (const p of [page, other]) {
      await visit(p, "s/both");
      await p.getByRole("button", { name: /^approve/i }).waitFor();
    }
    await Promise.all([page.keyboard.press("a"), other.keyboard.press("a")]);
    for (const p of [page, other]) await says(p.getByRole("log"), "come back within three days.");
    const results = (await log("both")).filter(
      (e) => e.type === "tool_result" && JSON.stringify(e).includes("refunded"),
    );
    same(results.length, 1, "refunds");
    for (const p of [page, other])
      same(await p.getByRole("button", { name: /^approve/i }).count(), 0, "buttons that are left");
  });

  await step("5 in the inbox", async () => {
    await story("inbox");
    await visit(page, "");
    const row = page.getByRole("region", { name: /inbox|waits/i });
    await row.getByText("refund_charge").first().waitFor();
    await screenshot(page, "job-5-inbox");
  });

  await step("by keys alone", async () => {
    await story("keys");
    await visit(page, "");
    await tabTo(
      page,
      page
        .getByRole("main")
        .getByRole("link", { name: /charged twice/ })
        .first(),
    );
    await page.keyboard.press("Enter");
    await conversation.waitFor();
    await visit(page, "s/s1");
    for (const [key, tab] of [
      ["1", "why"],
      ["2", "seen"],
      ["3", "cost"],
    ]) {
      await page.keyboard.press(key);
      await until(`the tab ${tab}`, () => page.url().includes(`tab=${tab}`));
      if (tab !== "why") await answers[tab](page);
    }
    const why = conversation.getByRole("link", { name: /why/i }).first();
    await tabTo(page, why);
    await page.keyboard.press("Enter");
    await answers.why(page);
    await page.keyboard.press("Escape");
    await until("the tab to close", () => !page.url().includes("tab="));
    await page.keyboard.press("4");
    await until("the tab What if", () => page.url().includes("tab=if"));
    const words = details(page).getByRole("textbox").first();
    await tabTo(page, words);
    await page.keyboard.press("Control+A");
    await page.keyboard.type("Where is my address?");
    const go = details(page)
      .getByRole("button", { name: /fork|try|go/i })
      .last();
    await tabTo(page, go);
    await page.keyboard.press("Enter");
    await until("a fork", async () =>
      (await api("GET", "/sessions?limit=50")).sessions.some((s) => s.title === "Where is my address?"),
    );
    await visit(page, "s/keys");
    await page.getByRole("button", { name: /^approve/i }).waitFor();
    await page.keyboard.press("a");
    await says(conversation, "come back within three days.");
    await page.keyboard.press("c");
    await page.keyboard.type("My router is slow");
    await page.keyboard.press("Control+Enter");
    await says(conversation, "router");
  });

  await step("the past", async () => {
    await visit(page, "s/s1");
    const slider = page.getByRole("slider").first();
    await slider.waitFor();
    await page.keyboard.press("ArrowLeft");
    await until("a moment in the address", () => /[?&]at=\d+/.test(page.url()));
    await page
      .getByText(/as it was at/)
      .first()
      .waitFor();
    same(await page.getByRole("button", { name: /^approve/i }).count(), 0, "buttons to decide in the past");
    const entries = await page.evaluate(() => history.length);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    same(await page.evaluate(() => history.length), entries, "entries in the history");
    await page.keyboard.press(".");
    await until("the live end", () => !/[?&]at=/.test(page.url()));
    await page.goBack();
    await page.goForward();
    await settled(page);
  });
});
