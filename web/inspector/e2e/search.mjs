// All sessions of a user are searched by the server: by first and last words, phrases, agent, state and date.
import { api, axe, geometry, newPage, run, same, screenshot, step, until, visit } from "./lib.mjs";

const rows = (page) => page.getByRole("region", { name: "All sessions" }).getByRole("row");
const field = (page) => page.getByRole("searchbox", { name: /search/i });
const filter = (page) => new URL(page.url()).searchParams.get("f") ?? "";

/** Waits until the list has the sessions of these titles and no others. */
const shows = (page, ...titles) =>
  until(titles.join(", ") || "no session", async () => {
    const got = await page.locator("table.list a.title").allInnerTexts();
    return JSON.stringify(got.map((t) => t.trim()).sort()) === JSON.stringify([...titles].sort()) || Promise.reject(new Error(JSON.stringify(got)));
  });

await run(async () => {
  await api("POST", "/sessions", { id: "oldest", content: "The green parrot of my aunt" }, { Prefer: "wait=30" });
  await api("POST", "/sessions", { id: "mixed", content: "My aunt has a parrot that is green" }, { Prefer: "wait=30" });
  for (let i = 0; i < 60; i++) await api("POST", "/sessions", { id: `n${i}`, content: `Number ${i}` }, { Prefer: "wait=30" });
  const page = await newPage();

  await step("sessions that are not loaded, by words with spaces", async () => {
    await visit(page, "");
    same(await page.getByText("green parrot").count(), 0, "rows of a session that is not on the first page");
    await field(page).focus();
    await page.keyboard.type("parrot green aunt");
    await shows(page, "The green parrot of my aunt", "My aunt has a parrot that is green");
    same(await field(page).inputValue(), "parrot green aunt", "the field");
    await until("the address", () => filter(page) === "parrot green aunt");
  });

  await step("a phrase, and how far the search went", async () => {
    await field(page).fill('"green parrot" aunt');
    await shows(page, "The green parrot of my aunt");
    await page.getByRole("status").getByText(/All \d+ sessions were searched/).waitFor();
    await until("the address", () => filter(page) === '"green parrot" aunt');
    await page.reload();
    await shows(page, "The green parrot of my aunt");
    same(await field(page).inputValue(), '"green parrot" aunt', "the field after a reload");
    await axe(page, "a search");
    await geometry(page, "a search");
    await screenshot(page, "search");
  });

  await step("last words, agent and state", async () => {
    await field(page).fill('"restart the router"');
    await shows(page, "My router is slow");
    await field(page).fill("");
    await until("no filter", () => filter(page) === "");
    await page.getByText("Agent and date").click();
    await page.getByRole("textbox", { name: "Agent" }).pressSequentially("tech");
    await page.getByRole("textbox", { name: "Agent" }).press("Enter");
    await shows(page, "My router is slow");
    await until("the address", () => filter(page) === "agent:tech");
    await visit(page, "?f=state:failed");
    await shows(page, "I was charged twice");
    await visit(page, "?f=parrot until:2001-01-01");
    await page.getByText(/No session matches/).waitFor();
  });

  await step("a filter is saved, and gone back to", async () => {
    await visit(page, "?f=parrot");
    await page.getByRole("button", { name: "Save this filter" }).click();
    await visit(page, "");
    await page.getByRole("link", { name: "parrot", exact: true }).click();
    await shows(page, "The green parrot of my aunt", "My aunt has a parrot that is green");
    await page.getByRole("button", { name: "Forget the filter parrot" }).click();
    same(await page.getByRole("link", { name: "parrot", exact: true }).count(), 0, "saved filters");
  });

  await step("forks are titled by what differs", async () => {
    await visit(page, "?f=charges");
    await shows(page, "Which charges were there?");
    same(await rows(page).filter({ hasText: "fork" }).count(), 1, "forks");
  });

  await step("titles have no marks of Markdown, and hide no character", async () => {
    const title = "My pelican and ⟨U+202E⟩its fish";
    await api("POST", "/sessions", { id: "marked", content: "## My **pelican** and \u202eits `fish`" }, { Prefer: "wait=30" });
    await visit(page, "?f=pelican");
    await shows(page, title);
    same(await page.getByRole("button", { name: `Delete ${title}`, exact: true }).count(), 1, "buttons named after it");
    await visit(page, "s/marked");
    await until("the name of the tab", async () => (await page.title()) === `${title} · Arbor`);
    same(await page.getByRole("heading", { level: 1 }).innerText(), title, "the heading");
  });
});
