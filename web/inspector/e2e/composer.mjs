// What is written and pasted: much of it at once, images, and what a message cannot take.
import { check, log, newPage, run, same, step, until, visit } from "./lib.mjs";

/** Pastes as a person does, and waits until the page answers again. */
const paste = (page, { text, files = [] }) =>
  page.evaluate(
    async ({ text, files }) => {
      const data = new DataTransfer();
      if (text !== undefined) data.setData("text/plain", typeof text === "number" ? "x".repeat(text) : text);
      for (const { name, type, base64 } of files) {
        const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
        data.items.add(new File([bytes], name, { type }));
      }
      const field = document.activeElement;
      const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      // What no listener has taken goes into the field, as a browser does it.
      if (field.dispatchEvent(event) && text !== undefined) document.execCommand("insertText", false, data.getData("text/plain"));
      await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
    },
    { text, files },
  );

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

await run(async () => {
  const page = await newPage();
  const field = page.getByRole("textbox", { name: /write to/i });
  const attached = page.getByRole("list", { name: "Attached" });
  /** Sends as soon as the page can: it cannot while it loads the session. */
  const send = async () => {
    await until("a page that can send", () => page.getByRole("button", { name: "Send", exact: true }).isEnabled());
    await page.keyboard.press("Control+Enter");
  };
  const told = (text) => page.getByRole("status").getByText(text).first().waitFor();

  await step("two megabytes are refused before they are in the field", async () => {
    await visit(page, "s/failed");
    await field.focus();
    await paste(page, { text: 2_000_000 });
    await told(/2\.0 MB is too long/);
    same(await field.inputValue(), "", "the field");
  });

  await step("a long text stands beside the field, and is sent with it", async () => {
    await paste(page, { text: `${"a line of a log\n".repeat(20_000)}the end` });
    await attached.getByText("Pasted text").waitFor();
    same(await field.inputValue(), "", "the field");
    await page.keyboard.type("Thank you");
    await send();
    await until("the message", async () => JSON.stringify((await log("failed")).findLast((e) => e.type === "user")).includes("the end"));
    const { content } = (await log("failed")).findLast((e) => e.type === "user");
    same(content.map((p) => [p.type, p.text.slice(0, 9)]), [["text", "Thank you"], ["text", "a line of"]], "parts");
    await until("an empty composer", async () => (await attached.count()) === 0);
  });

  await step("a short text goes into the field", async () => {
    await visit(page, "s/failed");
    await field.focus();
    await paste(page, { text: "some words" });
    same(await field.inputValue(), "some words", "the field");
    await field.fill("");
  });

  await step("images have thumbnails, and files do not", async () => {
    await paste(page, { files: [{ name: "red.png", type: "image/png", base64: pixel }, { name: "a.svg", type: "image/svg+xml", base64: btoa("<svg/>") }] });
    await attached.getByRole("listitem").nth(1).waitFor();
    const pictures = attached.getByRole("img");
    same(await pictures.count(), 1, "thumbnails");
    await until("the picture", () => pictures.first().evaluate((i) => i.complete && i.naturalWidth === 1));
    await attached.getByRole("button", { name: "Remove red.png" }).click();
    same(await pictures.count(), 0, "thumbnails");
  });

  await step("files that a reload has lost are named", async () => {
    const lost = page.getByText("Add them again: a.svg.");
    same(await lost.count(), 0, "notes");
    await page.reload();
    await lost.waitFor();
    await field.focus();
    await paste(page, { files: [{ name: "b.svg", type: "image/svg+xml", base64: btoa("<svg/>") }] });
    await attached.getByRole("button", { name: "Remove b.svg" }).click();
    same(await lost.count(), 0, "notes after files were added");
  });

  await step("another text in What if stays when its screen is left", async () => {
    const other = page.getByRole("textbox", { name: /says instead/i });
    await visit(page, "s/failed?sel=ev:1&tab=if");
    await other.fill("What I would rather say");
    await page.getByRole("link", { name: "Cost", exact: true }).click();
    await until("no field", async () => (await other.count()) === 0);
    await page.getByRole("link", { name: "What if", exact: true }).click();
    await other.waitFor();
    same(await other.inputValue(), "What I would rather say", "the field");
    await visit(page, "s/failed");
  });

  await step("a file that is too large is refused before it is read", async () => {
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(40_000_000)], "film.mp4", { type: "video/mp4" }));
      const { arrayBuffer } = File.prototype;
      File.prototype.arrayBuffer = function () {
        window.arborRead = true;
        return arrayBuffer.call(this);
      };
      document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await told(/film\.mp4 is too large/);
    check(!(await page.evaluate(() => window.arborRead)), "the file was read");
  });

  await step("no other field takes what it cannot hold", async () => {
    for (const [path, box] of [["", /first message/i], ["s/failed?sel=ev:1&tab=if", /says instead/i]]) {
      await visit(page, path);
      const other = page.getByRole("textbox", { name: box });
      await other.focus();
      const before = await other.inputValue();
      await paste(page, { text: 2_000_000 });
      await told(/2\.0 MB is too long/);
      same(await other.inputValue(), before, "the field");
    }
  });

  // This is the last step, and reads the log once: each reading of the photo costs seconds where the server's memory
  // accesses are checked.
  await step("the photo of a phone is attached and sent", async () => {
    await visit(page, "s/failed");
    await field.focus();
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(4 << 20)], "photo.jpg", { type: "image/jpeg" }));
      document.querySelector(".composer textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await attached.getByText("photo.jpg").waitFor();
    await field.fill("Look");
    await send();
    await until("an empty composer", async () => (await attached.count()) === 0);
    check((await log("failed")).some((e) => e.type === "user" && JSON.stringify(e.content).includes("photo.jpg")), "the photo is in the log");
  });
});
