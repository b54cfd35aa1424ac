// What users with some rights or none see and decide: ann has none, sue approves, rita has the right "wires".
import { api, axe, base, check, control, geometry, newPage, run, same, screenshot, settled, step, until, visit, whole } from "./lib.mjs";

const by = (user) => ({ Authorization: `Bearer ${user}`, Prefer: "wait=30" });
const refused = (text) => /status of (401|403|409)/.test(text);

/** A window in which a user has signed in. Nothing that it asks for is refused, unless a test says so. */
async function as(user) {
  const page = await newPage({ signIn: false, expected: (text) => text.includes("status of 401") });
  await page.goto(`${base}/inspect/`);
  await page.getByLabel(/token/i).fill(user);
  await page.getByLabel(/token/i).press("Enter");
  await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
  return page;
}

/** A session of ann's, in which a tool waits. */
async function asks(id, tool, fresh = true) {
  if (fresh) await api("POST", "/sessions", { id, content: "Hello" }, by("ann"));
  const turn = await api("POST", `/sessions/${id}/turns`, { content: `${tool}, please` }, by("ann"));
  same(turn.state, "waiting", id);
  return turn;
}

const card = (page) => page.getByRole("log").getByRole("article").filter({ hasText: "wants to run" });
const decides = (page) => page.getByRole("button", { name: /^(approve|deny)/i });
const failed = async (page) => same(await page.locator("main .failed").allInnerTexts(), [], `errors at ${page.url()}`);

await run(async () => {
  const paid = await asks("paid", "pay");
  await asks("booked", "book");

  await step("a user without rights", async () => {
    const page = await as("ann");
    await visit(page, "s/paid");
    await card(page).getByText("A colleague has to approve this.").waitFor();
    // The call itself is hidden, and all that it asks to do is shown, as it is written.
    const args = await card(page).getByLabel("Arguments").innerText();
    check(/9007199254740993\s/.test(args) && /5\.00/.test(args) && args.includes("the end"), `the arguments are ${args.slice(0, 200)}`);
    same(await decides(page).count(), 0, "buttons");
    await page.keyboard.press("a");
    await page.keyboard.press("d");
    await settled(page);
    same((await api("GET", "/sessions/paid", undefined, by("ann"))).state, "waiting", "after the keys");
    await axe(page, "a question for a colleague");
    await geometry(page, "a question for a colleague");
    await screenshot(page, "rights-colleague");
    same(await page.getByRole("link", { name: /^seen/i }).count(), 0, "links to what models were shown");
    for (const path of ["s/paid?tab=why", "s/paid?tab=seen", "s/paid?tab=if"]) {
      await visit(page, path);
      await page.getByRole("complementary").getByText("with the right inspect").first().waitFor();
      await failed(page);
    }
    for (const path of ["s/paid?tab=cost", "s/paid/feed", "s/paid/runs", "s/paid/graph", "s/paid?at=4", "tree", "tree/clerk/other", "usage", "graph/clerk", "approvals"]) {
      await visit(page, path);
      await whole(page);
      await failed(page);
    }
    await page.getByText("This list is for users who decide").waitFor();
    same(await page.getByRole("link", { name: "Approvals" }).count(), 0, "links to approvals");
    await visit(page, "");
    const inbox = page.getByRole("region", { name: "Inbox" });
    await inbox.getByText("A colleague has to approve this.").waitFor();
    same(await inbox.getByText("9007199254740993").count(), 2, "accounts as they are written");
    same(await decides(page).count(), 2, "buttons, which are about what the user books");
    await visit(page, "s/booked");
    await page.getByRole("log").getByRole("button", { name: /^approve/i }).waitFor();
    await page.keyboard.press("a");
    await page.getByRole("log").getByText("book is done").first().waitFor();
  });

  await step("who may read and do nothing", async () => {
    const page = await as("ian");
    await visit(page, "s/paid?user=ann&tab=seen");
    await page.getByText("You can read this session.").waitFor();
    await page.getByRole("complementary").getByText("You pay.").first().waitFor();
    const offers = /^(stop|send|edit|fork|approve|deny|cancel|resume|try again|delete)/i;
    for (const path of ["s/paid", "s/paid?at=3", "s/paid?sel=ev:1&tab=if", "s/paid/runs", "s/paid/graph"]) {
      await visit(page, `${path}${path.includes("?") ? "&" : "?"}user=ann`);
      await whole(page);
      same(await page.getByRole("button", { name: offers }).allInnerTexts(), [], `buttons at ${path}`);
      await page.keyboard.press("?");
      const keys = await page.getByRole("dialog").getByRole("definition").allInnerTexts();
      same(keys.filter((k) => /^(send|stop|fork|approve|deny|edit|say)/i.test(k)), [], `keys at ${path}`);
      await page.keyboard.press("Escape");
    }
    await visit(page, "?user=ann");
    await page.getByRole("row").filter({ hasText: "Hello" }).first().waitFor();
    same(await page.getByRole("button", { name: /^(delete|start)/i }).count(), 0, "buttons in the list");
    same(await page.getByRole("link", { name: "Approvals" }).count(), 0, "links to approvals");
  });

  await step("who approves", async () => {
    await asks("denied", "pay");
    await asks("wired", "wire");
    const user = await as("ann");
    await visit(user, "s/paid");
    await card(user).waitFor();
    const page = await as("sue");
    await page.getByRole("link", { name: "Approvals" }).click();
    const all = page.getByRole("article", { name: "pay waits" });
    await until("two calls", async () => (await all.count()) === 2);
    same(await page.getByRole("article", { name: "wire waits" }).count(), 0, "calls that need another right");
    const first = all.filter({ hasText: "paid" });
    for (const text of ["a session of ann", "for clerk", "since", "9007199254740993", "5.00", "the end"]) {
      await first.getByText(text).first().waitFor({ state: "attached" });
    }
    await axe(page, "approvals");
    await geometry(page, "approvals");
    await screenshot(page, "rights-approvals");
    const [sent] = await Promise.all([
      page.waitForRequest((r) => r.url().includes("/decisions")),
      first.getByRole("button", { name: /^approve/i }).click(),
    ]);
    same(sent.postDataJSON().decisions[0].digest, paid.pending[0].digest, "the digest of what was seen");
    await user.getByRole("log").getByText("pay is done").first().waitFor();
    await until("one call", async () => (await all.count()) === 1);
    await all.getByRole("button", { name: /^deny/i }).click();
    await all.getByRole("textbox").fill("not today");
    await all.getByRole("textbox").press("Enter");
    await page.getByText(/^Nothing waits for you/).waitFor();
    const decided = (await api("GET", "/sessions/denied/events?limit=100&user=ann")).events.find((e) => e.type === "relay_resolved");
    same([decided.approved, decided.by, decided.rights, decided.reason], [false, "sue", ["approve"], "not today"], "in the log");
    const rita = await as("rita");
    await visit(rita, "approvals");
    await rita.getByRole("article", { name: "wire waits" }).getByRole("button", { name: /^approve/i }).click();
    await rita.getByText(/^Nothing waits for you/).waitFor();
  });

  await step("who comes second, or may not any more", async () => {
    const page = await as("sue");
    page.arbor.expected = refused;
    // The list stays as it was while its answer is held, as for a reader who is faster than it.
    let held;
    await page.route("**/api/v1/approvals", async (route) => {
      await held;
      await route.continue().catch(() => {});
    });
    for (const [id, meanwhile, says] of [
      ["second", (turn) => api("POST", `/sessions/second/turns/${turn.id}/decisions?user=ann`, { decisions: [{ callId: turn.pending[0].callId, approved: false }] }), /Someone else decided first/],
      ["changed", () => asks("changed", "pay", false), /Someone else decided first/],
      ["revoked", () => control("rights"), /You may not decide this/],
    ]) {
      const turn = await asks(id, "pay");
      await visit(page, "approvals");
      const approve = page.getByRole("article").filter({ hasText: id }).getByRole("button", { name: /^approve/i });
      await approve.waitFor();
      let release;
      held = new Promise((go) => (release = go));
      await meanwhile(turn);
      await approve.click();
      await page.getByRole("status").getByText(says).first().waitFor();
      release();
      await until("the list as it is", async () => {
        const left = await page.getByRole("article").count();
        return left === (id === "changed" ? 1 : 0);
      });
    }
    same((await api("GET", "/sessions/changed?user=ann")).state, "waiting", "what is asked now");
  });
});
