// A person at the desk answers a user, from a second window, and gives the conversation back.
import { api, axe, check, geometry, newPage, run, same, screenshot, step, until, visit } from "./lib.mjs";

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
    const list = desk.getByRole("region", { name: "Handoffs" });
    await list.getByRole("link", { name: "I want a person" }).waitFor();
    for (const text of ["local", /^waits \d/, "from help"]) await list.getByText(text).first().waitFor();
    await list.getByRole("button", { name: "Accept I want a person" }).click();
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
    same(await desk.getByText(/queued|ringing|connecting|requested/).count(), 0, "states of a telephone");
    await axe(desk, "a conversation at the desk");
    await geometry(desk, "a conversation at the desk");
    await screenshot(desk, "desk-connected");
    check(/desk\/./.test(desk.url()), `the handoff has no address: ${desk.url()}`);
  });
  await step("a saved answer is there after a reload", async () => {
    const write = desk.getByRole("textbox", { name: "Write to the user" });
    await desk.getByText("Saved answers").click();
    await write.fill("I am looking for your parcel.");
    await desk.getByRole("button", { name: "Save this answer" }).click();
    await desk.reload();
    await write.fill("Thank you.");
    await desk.getByText("Saved answers").click();
    await desk.getByRole("button", { name: "I am looking for your parcel.", exact: true }).click();
    same(await write.inputValue(), "Thank you.\nI am looking for your parcel.", "the field");
    await axe(desk, "saved answers");
    for (const [width, height] of [[320, 640], [1440, 900]]) {
      await desk.setViewportSize({ width, height });
      await geometry(desk, `saved answers at ${width}`);
      await screenshot(desk, `desk-texts-${width}`);
    }
    await desk.getByRole("button", { name: "Remove I am looking" }).click();
    await desk.reload();
    await desk.getByText("Saved answers").click();
    await desk.getByText("Write an answer that you use often").waitFor();
  });
  await step("given back", async () => {
    await desk.getByRole("combobox", { name: "Who gets the conversation" }).selectOption("billing");
    await desk.getByRole("button", { name: "Give back to billing" }).waitFor();
    await desk.getByRole("combobox", { name: "Who gets the conversation" }).selectOption("");
    await desk.getByRole("button", { name: "Give back to help" }).click();
    await until("another agent", async () => (await api("GET", "/sessions/person")).active !== "human");
    await api("POST", "/sessions/person/turns", { content: "Thank you" }, { Prefer: "wait=30" });
    await says(user, "I am here.");
    same((await api("GET", "/desk/handoffs")).handoffs.length, 0, "handoffs under way");
  });
});
