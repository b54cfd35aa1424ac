import type { JSX } from "preact";
import type { OpenSession } from "../state/open.js";

export function Talk({ session }: { readonly session: OpenSession }): JSX.Element {
  return <p>{session.key.id}</p>;
}
