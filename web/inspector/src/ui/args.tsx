import type { JSX } from "preact";
import type { Schemas } from "../net/api.js";
import { texts } from "../texts.js";
import { asText, visible } from "./visible.js";

/** The arguments of a call, whole, one a row: the person who decides sees all of them. */
export function Arguments({ of: params }: { readonly of: unknown }): JSX.Element | null {
  const rows = typeof params === "object" && params !== null && !Array.isArray(params) ? Object.entries(params) : params == null ? [] : [["", params]];
  if (rows.length === 0) return <p class="fact soft">{texts.decide.noArguments}</p>;
  return (
    <dl class="question-args" tabIndex={0} aria-label={texts.decide.arguments}>
      {rows.map(([name, value]) => (
        <div key={String(name)}>
          <dt class="soft">{visible(String(name))}</dt>
          <dd class="code" dir="auto">
            {asText(value, 2)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What a reader who may not decide sees in place of the buttons. */
export function Colleague({ call }: { readonly call: Pick<Schemas["Call"], "kind" | "by"> }): JSX.Element {
  const user = call.by?.[0] === "user" || (call.by === undefined && call.kind === "input");
  return <p class="question-do">{user ? texts.decide.user : texts.decide.colleague}</p>;
}
