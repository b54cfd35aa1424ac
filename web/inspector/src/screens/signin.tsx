import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { refused, signIn } from "../state/app.js";
import { usePage } from "../ui/page.js";

/** Signs in in place: the address stays. */
export function SignIn(): JSX.Element {
  usePage("Sign in");
  const field = useRef<HTMLInputElement>(null);
  const enter = (e: Event): void => {
    e.preventDefault();
    const { current } = field;
    const token = current?.value ?? "";
    if (current !== null) current.value = "";
    if (token !== "") void signIn(token);
  };
  return (
    <form class="screen" onSubmit={enter}>
      <h1 tabIndex={-1}>Sign in</h1>
      <p>Open the address that the server printed at its start, or enter a token.</p>
      <p class="failed" role="alert">
        {refused.value}
      </p>
      <p>
        <label>
          Token <input ref={field} class="field" type="password" name="token" autocomplete="current-password" required />
        </label>{" "}
        <button class="button main" type="submit">
          Sign in
        </button>
      </p>
    </form>
  );
}
