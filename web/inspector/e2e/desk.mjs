// A person at the desk answers a user, from a second window, and gives the conversation back.
import { api, check, newPage, run, same, screenshot, step, until, visit } from "./lib.mjs";

const conversation = (page) => page.getByRole("log");
const says = (page, text) => conversation(page).getByText(text).first().waitFor();

await run(async () => {
  const user = await newPage();
  const desk = await newPage();
  await step("a handoff", async () => {
    await visit(user, "s/person");
    await says(user, "I have asked for a person to join us.");
    await user.getByRole("banner").getByText("waits for a person").waitFor();
    await visit(desk, "desk");
    await desk.getByText("wants a person").first().waitFor();
    await desk
      .getByRole("button", { name: /accept/i })
      .first()
      .click();
    const write = desk.getByRole("textbox").last();
    await write.waitFor();
    await says(desk, "I want a person");
    await write.fill("Hello, this is Ann");
    await write.press("Control+Enter");
    await says(user, "Hello, this is Ann");
    await user.getByRole("banner").getByText("with a person").waitFor();
    const composer = user.getByRole("textbox", { name: /write to/i });
    await composer.fill("My parcel is late");
    await composer.press("Control+Enter");
    await says(desk, "My parcel is late");
    await screenshot(desk, "desk-connected");
    check(/desk\/./.test(desk.url()), `the handoff has no address: ${desk.url()}`);
  });
  await step("given back", async () => {
    await desk
      .getByRole("button", { name: /give back/i })
      .first()
      .click();
    const sure = desk.getByRole("dialog").getByRole("button", { name: /give back/i });
    if (await sure.isVisible().catch(() => false)) await sure.click();
    await until("another agent", async () => (await api("GET", "/sessions/person")).active !== "human");
    await api("POST", "/sessions/person/turns", { content: "Thank you" }, { Prefer: "wait=30" });
    await says(user, "I am here.");
    same((await api("GET", "/desk/handoffs")).handoffs.length, 0, "handoffs under way");
  });
});
