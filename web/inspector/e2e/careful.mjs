// Decisions are made on purpose: keys act on the focused card alone, nothing acts on what has just moved, and what was
// decided can be undone before it is sent.
import { api, check, log, newPage, run, same, step, until, visit } from "./lib.mjs";

/** A session whose second turn waits for an approval. */
async function story(id) {
  await api("POST", "/sessions", { id, content: "I was charged twice" }, { Prefer: "wait=30" });
  await api("POST", `/sessions/${id}/turns`, { content: `Please refund one, ${id}` }, { Prefer: "wait=30" });
  same((await api("GET", `/sessions/${id}`)).state, "waiting", id);
}

const state = async (id) => (await api("GET", `/sessions/${id}`)).state;
const inbox = (page) => page.getByRole("region", { name: "Inbox" });
const card = (page, id) => inbox(page).getByRole("article").filter({ has: page.locator(`a[href*="/s/${id}"]`) });
const settledCard = (page, id) => until(`buttons of ${id}`, () => card(page, id).getByRole("button", { name: /^approve/i }).isEnabled());

await run(async () => {
  const page = await newPage();
  for (const id of ["one", "two", "three"]) await story(id);

  await step("a key acts on the focused card alone, and is sent after three seconds", async () => {
    await visit(page, "");
    await settledCard(page, "two");
    await card(page, "two").focus();
    await page.keyboard.press("a");
    await card(page, "two").getByText("You approved this").waitFor();
    same(await card(page, "one").getByText("You approved this").count(), 0, "other cards that were decided");
    same(await state("two"), "waiting", "two before it is sent");
    await until("two to be decided", async () => (await state("two")) === "done");
    for (const id of ["s1", "one", "three"]) same(await state(id), "waiting", id);
  });

  await step("without a focused card a key decides nothing", async () => {
    await visit(page, "");
    await settledCard(page, "one");
    let sent = 0;
    page.on("request", (r) => (sent += r.url().includes("/decisions") ? 1 : 0));
    await page.keyboard.press("a");
    await page.keyboard.press("a");
    same(await inbox(page).getByText("You approved this").count(), 0, "cards that were decided");
    check(await page.evaluate(() => document.activeElement?.matches("article.ask")), "the first card has not the focus");
    same(sent, 0, "decisions");
  });

  await step("an approval is undone by the button, and a denial by a key", async () => {
    await visit(page, "");
    await settledCard(page, "one");
    let sent = 0;
    page.on("request", (r) => (sent += r.url().includes("/decisions") ? 1 : 0));
    await card(page, "one").getByRole("button", { name: /^approve/i }).click();
    await card(page, "one").getByRole("button", { name: /^undo/i }).click();
    await settledCard(page, "one");
    await card(page, "one").getByRole("button", { name: /^deny/i }).click();
    await card(page, "one").getByRole("textbox").fill("not today");
    await card(page, "one").getByRole("textbox").press("Enter");
    await card(page, "one").getByText("You denied this").waitFor();
    await page.keyboard.press("u");
    await card(page, "one").getByText("You denied this").waitFor({ state: "detached" });
    await settledCard(page, "one");
    await visit(page, "s/one");
    const talk = page.getByRole("log");
    await talk.getByRole("button", { name: /^approve/i }).waitFor();
    await page.keyboard.press("a");
    await talk.getByText("You approved this").waitFor();
    await page.keyboard.press("u");
    await talk.getByRole("button", { name: /^approve/i }).waitFor();
    same(sent, 0, "decisions");
    same(await state("one"), "waiting", "one");
  });

  await step("nothing acts on a list that has just changed", async () => {
    await visit(page, "");
    await settledCard(page, "one");
    await card(page, "three").focus();
    // The oldest card goes away, so that those below it move up.
    await page.evaluate(() => {
      window.pressed = [];
      const list = document.querySelector(".inbox");
      const seen = new MutationObserver((changes) => {
        if (changes.every((c) => c.removedNodes.length === 0)) return;
        seen.disconnect();
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true, cancelable: true }));
        const [first] = list.querySelectorAll("[data-approve]");
        window.pressed = [first.getAttribute("aria-disabled")];
        first.click();
      });
      seen.observe(list, { childList: true });
    });
    const turn = await api("GET", "/sessions/s1");
    await api("POST", `/sessions/s1/turns/${turn.turn}/decisions`, { decisions: [{ callId: turn.pending[0].callId, approved: false }] });
    await until("the list to change", async () => (await page.evaluate(() => window.pressed.length)) > 0);
    same(await page.evaluate(() => window.pressed), ["true"], "buttons that act on what has just moved");
    same(await inbox(page).getByText("You approved this").count(), 0, "cards that were decided");
    await settledCard(page, "three");
    await page.keyboard.press("a");
    await card(page, "three").getByText("You approved this").waitFor();
    await card(page, "three").getByRole("button", { name: /^undo/i }).click();
  });

  await step("a bar that comes moves the cards, which then wait", async () => {
    await visit(page, "");
    await settledCard(page, "three");
    const acts = await page.evaluate(
      () =>
        new Promise((done) => {
          const bar = document.createElement("div");
          bar.style.height = "50px";
          document.querySelector(".bars").append(bar);
          requestAnimationFrame(() =>
            requestAnimationFrame(() => {
              done(document.querySelector(".inbox [data-approve]").getAttribute("aria-disabled"));
              bar.remove();
            }),
          );
        }),
    );
    same(acts, "true", "a button that has just moved is off");
  });

  await step("what was approved is sent when the page is left", async () => {
    await visit(page, "");
    await settledCard(page, "three");
    await card(page, "three").getByRole("button", { name: /^approve/i }).click();
    await card(page, "three").getByText("You approved this").waitFor();
    await page.goto("about:blank");
    await until("three to be decided", async () => (await state("three")) === "done");
  });

  await step("what somebody else decides in the meantime counts", async () => {
    page.arbor.expected = (text) => text.includes("status of 409");
    await visit(page, "");
    await settledCard(page, "one");
    await card(page, "one").getByRole("button", { name: /^approve/i }).click();
    const turn = await api("GET", "/sessions/one");
    await api("POST", `/sessions/one/turns/${turn.turn}/decisions`, { decisions: [{ callId: turn.pending[0].callId, approved: false, reason: "no" }] });
    await card(page, "one").waitFor({ state: "detached" });
    await until("one to be denied", async () => (await log("one")).some((e) => e.type === "relay_resolved" && e.approved === false));
    await page.getByRole("status").getByText(/Someone else decided first/).waitFor();
  });
});
