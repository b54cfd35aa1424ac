import type { JSX } from "preact";
import { route } from "../state/route.js";
import { Link } from "../ui/link.js";
import { usePage } from "../ui/page.js";

export function Nowhere(): JSX.Element {
  const { value } = route;
  usePage("Nothing here");
  return (
    <div class="screen">
      <h1 tabIndex={-1}>There is nothing at this address</h1>
      <p class="code">{value.screen === "nowhere" ? value.path : ""}</p>
      <p>
        <Link to={{ screen: "sessions" }}>Go to the sessions</Link>
      </p>
    </div>
  );
}
