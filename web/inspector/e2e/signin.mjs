// Browsers sign in with a code or a token, stay signed in over a restart of the server, and sign out.
import {
  base,
  check,
  control,
  enter,
  given,
  newPage,
  run,
  same,
  step,
  until,
  visit,
  axe,
  geometry,
  screenshot,
} from "./lib.mjs";

const refused = (text) => /status of 401/.test(text);
const lost = (text) => /ERR_|Failed to (fetch|load)/.test(text); // while the server is not there
const field = (page) => page.getByLabel(/token/i);
const table = (page) => page.getByRole("link", { name: /I was charged twice/ }).first();

await run(async () => {
  await step("a code", async () => {
    const page = await newPage({ signIn: false, expected: (text) => lost(text) });
    await enter(page, "/inspect/");
    await table(page).waitFor();
    same(page.url(), `${base}/inspect/`, "the code stays in the address");

    await step("the address stays", async () => {
      const other = await newPage({ signIn: false, expected: refused });
      const path = "/inspect/s/s1?at=7";
      await other.goto(base + path);
      await field(other).fill("wrong");
      await field(other).press("Enter");
      await other.getByText(/not accepted/i).waitFor();
      await axe(other, "signing in, refused");
      await geometry(other);
      await screenshot(other, "signin-refused");
      await field(other).fill("the-token");
      await field(other).press("Enter");
      await other.getByRole("log").waitFor();
      same(other.url(), base + path, "after signing in");
    });

    await step("a restart", async () => {
      await control("stop");
      await control("start");
      const again = await newPage({ context: page.context(), expected: lost });
      await again.goto(`${base}/inspect/`);
      await table(again).waitFor();
    });

    await step("signing out", async () => {
      page.arbor.expected = (text) => refused(text) || lost(text);
      await page.reload();
      await table(page).waitFor();
      const out = page.getByRole("button", { name: /sign out/i });
      if (!(await out.isVisible()))
        await page
          .getByRole("button", { name: /menu|more|local/i })
          .first()
          .click();
      await out.click();
      await field(page).waitFor();
      same(await page.evaluate(() => localStorage.getItem("arbor-key")), null, "the key is kept");
      check(!(await table(page).isVisible()), "what was shown is still there");
    });
  });

  await step("a code works once", async () => {
    const code = await control("code");
    for (const again of [false, true]) {
      const page = await newPage({ signIn: false, expected: refused });
      await page.goto(`${base}/inspect/#code=${code}`);
      await (again ? field(page) : table(page)).waitFor();
    }
  });

  // A browser sends cookies to all ports of a host, where this one is of no use.
  await step("another server of this machine", async () => {
    const elsewhere = (text) => /asked |CORS|ERR_FAILED/.test(text);
    const page = await newPage({ expected: elsewhere });
    const answer = await page.goto(`${given.control}/`);
    const { cookie } = await answer.request().allHeaders();
    check(cookie?.startsWith("arbor_"), `the cookie that it gets is ${cookie}`);
    const me = await fetch(`${base}/api/v1/me`, { headers: { Cookie: cookie ?? "" } });
    same(me.status, 401, "what the cookie alone is worth");
    same(await page.evaluate(() => localStorage.length), 0, "what is kept there");
    for (const [path, init] of [
      ["/api/v1/me", { credentials: "include", headers: { "Arbor-CSRF": "x" } }],
      ["/inspect/sign-in", { method: "POST", body: "{}" }],
    ]) {
      const got = await page.evaluate(([url, init]) => fetch(url, init).then(String, String), [base + path, init]);
      check(/TypeError/.test(got), `${path} from elsewhere: ${got}`);
    }
  });

  await step("a sign-in that has ended", async () => {
    const page = await newPage({ signIn: false, expected: refused });
    await enter(page, "/inspect/s/s1");
    await page.getByRole("log").waitFor();
    await control("token", { token: "another" });
    try {
      await page.reload();
      await field(page).waitFor();
      same(new URL(page.url()).pathname, "/inspect/s/s1", "the address");
      await field(page).fill("another");
      await field(page).press("Enter");
      await page.getByRole("log").waitFor();
    } finally {
      await control("token", { token: "the-token" });
    }
  });

  await step("nothing inline", async () => {
    let told = 0;
    const page = await newPage({
      expected: (text) => /Content Security Policy|Trusted ?(HTML|Script|Type)/.test(text) && ++told > 0,
    });
    await visit(page, "");
    const said = await page.evaluate(() => {
      try {
        document.body.innerHTML = "<b>x</b>";
        return "";
      } catch (error) {
        return String(error);
      }
    });
    check(/TrustedHTML/.test(said), `a text became HTML: ${said}`);
    await page.evaluate(() => {
      const b = document.createElement("div");
      try {
        b.setAttribute("onclick", "window.hit = 1");
      } catch {
        return;
      }
      b.click();
    });
    same(await page.evaluate(() => window.hit ?? null), null, "an inline script ran");
    await until("a report of the policy", () => told > 0);
  });
});
