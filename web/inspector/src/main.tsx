import "./style/tokens.css";
import "./style/base.css";
import { render } from "preact";
import { App } from "./app.js";
import { translate } from "./language.js";
import { begin } from "./state/app.js";
import { list } from "./state/list.js";
import { open } from "./state/open.js";
import "./ui/paste.js";
import "./style/short.css";

document.addEventListener("visibilitychange", () => {
  open.value?.seen(!document.hidden);
  list.value?.seen(!document.hidden);
});
await translate();
render(<App />, document.getElementById("page")!);
void begin(new URL(import.meta.url).searchParams.get("v") ?? "");
