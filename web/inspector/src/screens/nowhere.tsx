import type { JSX } from "preact";
import { route } from "../state/route.js";
import { texts } from "../texts.js";
import { Link } from "../ui/link.js";
import { usePage } from "../ui/page.js";

export function Nowhere(): JSX.Element {
  const { value } = route;
  usePage(texts.nowhere.tab);
  return (
    <div class="screen">
      <h1 tabIndex={-1}>{texts.nowhere.title}</h1>
      <p class="code">{value.screen === "nowhere" ? value.path : ""}</p>
      <p>
        <Link to={{ screen: "sessions" }}>{texts.nowhere.sessions}</Link>
      </p>
    </div>
  );
}
