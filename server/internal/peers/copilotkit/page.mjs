// Serves the page page.jsx and CopilotKit's runtime, which talks to a served tree, and uses the page in Chromium. The
// input is {server, token, state, says}. The output is what the page's tool was given, the agents' answers, the agent
// in charge, the state that is shared, and all errors.
import { readFileSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { execFileSync } from "node:child_process";
import { HttpAgent } from "@ag-ui/client";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
console.log = console.error; // only the result goes to the output
const installed = createRequire(new URL("../../../../web/inspector/", import.meta.url));
const { buildSync } = installed("esbuild");
const { chromium } = installed("playwright-core");

const script = buildSync({
  entryPoints: [new URL("page.jsx", import.meta.url).pathname],
  bundle: true,
  write: false,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
}).outputFiles[0].contents;

const { server, token, state, says } = JSON.parse(readFileSync(0, "utf8"));
const headers = { Authorization: `Bearer ${token}` };
const runtime = new CopilotRuntime({ agents: { desk: new HttpAgent({ url: `${server}/agui`, headers }) } });
const api = createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" });
const site = createServer((req, res) => {
  if (req.url.startsWith("/api/")) return api(req, res);
  if (req.url === "/page.js") return res.setHeader("Content-Type", "text/javascript").end(script);
  res.setHeader("Content-Type", "text/html").end('<!doctype html><title>Desk</title><body><script src="/page.js"></script>');
});
await new Promise((listening) => site.listen(0, "127.0.0.1", listening));

const home = mkdtempSync(path.join(tmpdir(), "arbor-browser-"));
process.once("exit", () => rmSync(home, { recursive: true, force: true }));
const browser = await chromium.launch({
  executablePath: execFileSync("sh", ["-c", "command -v chromium-headless-shell || command -v chromium"], { encoding: "utf8" }).trim(),
  env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home },
  chromiumSandbox: false,
  args: ["--disable-gpu", "--disable-dev-shm-usage"],
});
const page = await browser.newPage();
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
await page.goto(`http://127.0.0.1:${site.address().port}/`);
await page.evaluate((given) => window.show(given), state);
const field = page.getByLabel("Your message");
const said = [];
for (const words of says) {
  const before = await page.locator("li[data-role=assistant]").count();
  await field.fill(words);
  await field.press("Enter");
  await page.locator("li[data-role=assistant]").nth(before).waitFor();
  await page.locator("input:enabled").waitFor();
  said.push(await page.locator("li[data-role=assistant]").last().textContent());
}
const shown = JSON.parse(await page.locator("output").textContent());
errors.push(...(await page.evaluate(() => window.errors)));
await browser.close();
process.stdout.write(JSON.stringify({ ...shown, said, errors }), () => process.exit(0));
