// Answers in Markdown: pictures from elsewhere, tables, long lines, code.
import { api, axe, base, check, geometry, newPage, run, same, screenshot, step, visit } from "./lib.mjs";

const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const say = (id, content) => api("POST", "/sessions", { id, content }, { Prefer: "wait=30" });

await run(async () => {
  const page = await newPage({ expected: (text) => text.includes("pictures.example") });
  const asked = [];
  await page.context().route("**://pictures.example/**", async (route) => {
    asked.push(route.request().url());
    await route.fulfill({ contentType: "image/png", body: pixel });
  });
  const said = page.getByRole("log");

  await step("a picture is asked for after a click", async () => {
    await say("picture", "See ![A parcel; late](https://pictures.example/a;b.png?c=1) and [![in a link](https://pictures.example/b.png)](https://pages.example/).");
    await visit(page, "s/picture");
    const show = said.getByRole("button", { name: "Show the picture “A parcel; late” from pictures.example" });
    await show.waitFor();
    same(await said.getByRole("button", { name: /picture/ }).count(), 1, "pictures that can be shown");
    same(asked, [], "asked for before a click");
    await axe(page, "before");
    await show.press("Enter");
    const frame = page.frameLocator("iframe[title='A parcel; late']");
    await frame.getByRole("img", { name: "A parcel; late" }).waitFor();
    const width = await frame.locator("img").evaluate((img) => img.decode().then(() => img.naturalWidth));
    same([width, asked], [1, ["https://pictures.example/a;b.png?c=1"]], "the picture");
    await axe(page, "after");
    await geometry(page, "after");
    await screenshot(page, "answers-picture");
    await said.getByRole("button", { name: /^Hide the picture/ }).click();
    same(await page.locator("iframe").count(), 0, "frames of a hidden picture");
  });

  await step("what a tool gives is text", async () => {
    asked.length = 0;
    await say("tool", "tool: ![x](https://pictures.example/x.png)");
    await visit(page, "s/tool");
    await said.getByText("The tool has answered.").waitFor();
    same([await said.getByRole("button", { name: /picture/ }).count(), asked], [0, []], "pictures of a tool");
  });

  await step("the page itself loads nothing from elsewhere", async () => {
    const blocked = await page.evaluate(
      () =>
        new Promise((done) => {
          document.addEventListener("securitypolicyviolation", (e) => done(e.violatedDirective), { once: true });
          new Image().src = "https://pictures.example/direct.png";
        }),
    );
    same([blocked, asked], ["img-src", []], "a picture without a frame");
    const other = await page.evaluate((to) => fetch(to).then((r) => r.status), `${base}/inspect/picture?of=https%3A%2F%2Fpictures.example%2Fx.png`);
    same(other, 404, "the frame's document, outside of a frame");
  });

  await step("tables, long lines and code", async () => {
    const cells = (n, word) => `|${Array.from({ length: n }, (_, i) => ` ${word(i)} |`).join("")}\n`;
    const wide = cells(7, (i) => `Column ${i}`) + cells(7, () => "---") + cells(7, (i) => (i % 2 ? "Some longer words that would be set one below the other" : `${i}.00 EUR`));
    await say("table", `${wide}\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n${"long".repeat(80)}\n\n\`\`\`js\nconst x = "${"y".repeat(300)}";\n\`\`\`\n\nEnd.`);
    for (const [width, height] of [[1440, 900], [320, 640]]) {
      await page.setViewportSize({ width, height });
      await visit(page, "s/table");
      await said.getByText("End.").last().waitFor();
      const table = said.getByRole("group", { name: "A table" }).first();
      const lines = await table.locator("td").evaluateAll((all) => Math.max(...all.map((td) => td.getBoundingClientRect().height / 20)));
      check(lines < 4.5, `a cell of ${lines} lines at ${width}`);
      await geometry(page, `answers at ${width}`);
      await axe(page, `answers at ${width}`);
      await screenshot(page, `answers-table-${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await said.getByRole("button", { name: "Copy the js code" }).last().click();
    same(await page.evaluate(() => navigator.clipboard.readText()), `const x = "${"y".repeat(300)}";`, "what was copied");
  });
});
