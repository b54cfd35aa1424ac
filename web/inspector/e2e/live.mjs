// What happens in a session appears in every window while it happens, however often connections break.
import {
  api,
  axe,
  check,
  control,
  geometry,
  log,
  newPage,
  run,
  same,
  screenshot,
  step,
  until,
  visit,
  words,
} from "./lib.mjs";

const numbers = (n) =>
  Array.from({ length: n }, (_, i) => `${i + 1} `)
    .join("")
    .trim();
const plain = (text) => text.replace(/[*`]/g, "").replace(/\s+/g, " ").trim();
const conversation = (page) => page.getByRole("log");
const shown = async (page) => plain(await conversation(page).innerText());
const composer = (page) => page.getByRole("textbox", { name: /write to|message/i });
const unreachable = (text) => /ERR_|Failed to (fetch|load)|network|INCOMPLETE/i.test(text);

/** Waits until a window shows a text, once. */
async function shows(page, text) {
  await until(`"${text}"`, async () => (await shown(page)).includes(text));
  const all = await shown(page);
  check(all.split(text).length === 2, `"${text.slice(0, 40)}" is shown ${all.split(text).length - 1} times`);
}

/** Whether a window shows the log: the words in their order, each once, and the state. */
async function agrees(page, id) {
  const said = await words(id);
  await until(`the words of ${id}`, async () => {
    const text = await shown(page);
    let at = 0;
    for (const w of said) {
      const found = text.indexOf(plain(w), at);
      if (found < 0) throw new Error(`"${w}" is not behind the ${at}th letter of "${text}"`);
      at = found + plain(w).length;
    }
    return true;
  });
  const all = await log(id);
  const { state, active } = await api("GET", `/sessions/${id}`);
  same(all.at(-1).seq, (await api("GET", `/sessions/${id}`)).seq, "the log's end");
  await until("the whole log", async () => (await position(page)) === all.at(-1).seq);
  return { state, active };
}

/** The last event that a window knows: the end of its slider. */
async function position(page) {
  const slider = page.getByRole("slider", { name: /time|position|event/i }).first();
  return Number((await slider.getAttribute("max")) ?? (await slider.getAttribute("aria-valuemax")));
}

const turns = (id) => `/sessions/${id}/turns`;

await run(async () => {
  await step("two windows and a program", async () => {
    await api("POST", "/sessions", { id: "live", content: "Please count" });
    const a = await newPage();
    await visit(a, "s/live");
    await control("step", { steps: 5 });
    await shows(a, numbers(5));
    await conversation(a)
      .and(a.locator("[aria-busy=true]"))
      .or(conversation(a).locator("[aria-busy=true]"))
      .first()
      .waitFor();
    await axe(a, "streaming");
    await screenshot(a, "live-streaming");

    const b = await newPage(); // in the midst of the answer
    await visit(b, "s/live");
    await shows(b, numbers(5));
    await control("step", { steps: 5 });
    for (const page of [a, b]) await shows(page, numbers(10));
    await control("step", { steps: 30 });
    for (const page of [a, b]) await shows(page, numbers(40));

    // A program speaks; then a window does; then the other one stops what the program has begun.
    await until("the end of the turn", async () => (await api("GET", "/sessions/live")).state === "done");
    await api("POST", turns("live"), { content: "My router is slow" }, { Prefer: "wait=30" });
    for (const page of [a, b]) {
      await shows(page, "Restart the router.");
      await conversation(page).getByText("router, slow").first().waitFor();
    }
    await composer(a).fill("And my router again");
    await composer(a).press("Control+Enter");
    for (const page of [a, b])
      await until("two answers", async () => (await shown(page)).split("Restart the router.").length === 3);
    await until("an empty composer", async () => (await composer(a).inputValue()) === ""); // when the request has its answer
    for (const page of [a, b]) same((await agrees(page, "live")).active, "tech", "who is active");

    await api("POST", "/sessions", { id: "stopped", content: "Please count" });
    for (const page of [a, b]) await visit(page, "s/stopped");
    await control("step", { steps: 3 });
    for (const page of [a, b]) await shows(page, numbers(3));
    await b.getByRole("button", { name: /^stop/i }).click();
    await until("a stop", async () => (await api("GET", "/sessions/stopped")).state === "cut_off");
    for (const page of [a, b]) {
      await page
        .getByText(/cut off/)
        .first()
        .waitFor();
      await until("no stop button", async () => (await page.getByRole("button", { name: /^stop/i }).count()) === 0);
    }
  });

  await step("a stream that is cut at every event", async () => {
    await api("POST", "/sessions", { id: "cut", content: "Hello" }, { Prefer: "wait=30" });
    const page = await newPage({ expected: unreachable });
    await visit(page, "s/cut");
    await shows(page, "What can I do for you?");
    const before = await control("cuts");
    await control("cut", { after: 1, times: 5 });
    const turn = api("POST", turns("cut"), { content: "I was charged twice" }, { Prefer: "wait=30" });
    await turn;
    await shows(page, "I see two charges on 1 March. Refund one?");
    await agrees(page, "cut");
    check((await control("cuts")) - before >= 3, "the stream was not cut");
    await control("cut", { times: 0 });
  });

  await step("a stream that is cut in the midst of an answer", async () => {
    await api("POST", "/sessions", { id: "midst", content: "Hello" }, { Prefer: "wait=30" });
    const page = await newPage({ expected: unreachable });
    await visit(page, "s/midst");
    await shows(page, "What can I do for you?");
    await api("POST", turns("midst"), { content: "Please count" });
    const before = await control("cuts");
    for (let i = 1; i <= 4; i++) {
      await control("cut", { after: i % 2, inside: true, times: 1 });
      await control("step", { steps: 10 });
      await shows(page, numbers(10 * i));
    }
    check((await control("cuts")) > before, "the stream was not cut");
    await agrees(page, "midst");
  });

  await step("a server that is killed and comes back", async () => {
    await api("POST", "/sessions", { id: "killed", content: "Please count" });
    const page = await newPage({ expected: unreachable });
    await visit(page, "s/killed");
    await control("step", { steps: 7 });
    await shows(page, numbers(7));
    await composer(page).fill("What I wanted to say");
    await control("stop");
    await page.getByText(/not connected since/i).waitFor();
    await axe(page, "offline");
    await geometry(page, "offline");
    await screenshot(page, "live-offline");
    await shows(page, numbers(7)); // it stays readable
    await control("start");
    await until("a connection", async () => (await page.getByText(/not connected since/i).count()) === 0);
    same(await composer(page).inputValue(), "What I wanted to say", "the composer");
    await control("step", { steps: 80 }); // the process that resumes the turn counts again
    const resume = page.getByRole("button", { name: /go on|resume/i });
    await until("the turn to be over", async () => {
      const { state } = await api("GET", "/sessions/killed");
      if (state === "cut_off" && (await resume.count()) > 0) await resume.first().click();
      return state === "done";
    });
    await shows(page, numbers(40));
    await agrees(page, "killed");
  });

  await step("another version of the server", async () => {
    const page = await newPage({ expected: unreachable });
    await visit(page, "s/s1");
    await control("stop");
    await control("start", { other: true });
    await page.getByRole("button", { name: /reload/i }).waitFor();
  });
});
