import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { refused, signIn } from "../state/app.js";
import { texts } from "../texts.js";
import { usePage } from "../ui/page.js";

/** Signs in in place: the address stays. */
export function SignIn(): JSX.Element {
  usePage(texts.signIn.title);
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
      <h1 tabIndex={-1}>{texts.signIn.title}</h1>
      <p>{texts.signIn.how}</p>
      <p class="failed" role="alert">
        {refused.value}
      </p>
      <p>
        <label>
          {texts.signIn.token} <input ref={field} class="field" type="password" name="token" autocomplete="current-password" required />
        </label>{" "}
        <button class="button main" type="submit">
          {texts.signIn.enter}
        </button>
      </p>
    </form>
  );
}
