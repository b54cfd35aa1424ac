// A graph at the root is drawn next to its session with the edges that were taken, and Why explains each node by them.
import { axe, geometry, newPage, run, same, screenshot, step, visit, whole } from "./lib.mjs";

await run(async () => {
  const page = await newPage();
  const drawing = page.getByRole("group", { name: "Graph pipeline, drawn" });
  const box = (node) => drawing.locator(".picture-box").filter({ hasText: node });
  const why = page.getByRole("complementary", { name: "Details" });
  const edge = (text) => why.getByRole("listitem").filter({ hasText: text });

  await step("the drawing beside the session", async () => {
    await visit(page, "s/one");
    await drawing.getByRole("button", { name: "splitter ✓ done" }).waitFor();
    await drawing.getByRole("button", { name: /sentiment ✗ failed/ }).waitFor();
    same(await drawing.getByRole("button", { name: /✓ taken/ }).count(), 2, "edges that were taken");
    await whole(page);
    await axe(page, "a graph at the root");
    await geometry(page, "a graph at the root");
    await screenshot(page, "rootgraph-talk");
  });

  await step("why a node ran, or did not", async () => {
    await box("sentiment").click();
    await edge("splitter → sentiment").getByText("taken", { exact: true }).waitFor();
    same(await why.getByRole("listitem").count(), 1, "edges to sentiment");
    await box("entities").click();
    await edge("splitter → entities").getByText("taken", { exact: true }).waitFor();
    await box("error-handler").click();
    await why.getByText("error-handler is the fallback. It answered because sentiment failed").waitFor();
    await box("splitter").click();
    await why.getByText("pipeline starts with splitter.").waitFor();
  });

  await step("why the graph answered as it did", async () => {
    await visit(page, "s/one?tab=why");
    await edge("splitter → translator").getByText("not taken").waitFor();
    await edge("splitter → entities").getByText("taken", { exact: true }).waitFor();
    await why.getByText("the model is gone").waitFor();
    await whole(page);
    await axe(page, "why of a graph");
    await screenshot(page, "rootgraph-why");
    await why.getByRole("link", { name: "Show the run in the graph" }).click();
    await page.getByRole("heading", { level: 1, name: "pipeline" }).waitFor();
  });
});
