import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { OpenSession } from "../state/open.js";
import type { Entry } from "../state/values.js";
import { stateAt } from "../state/views.js";
import { clock, count, counted } from "../ui/amount.js";
import { Folded } from "../ui/json.js";
import { asText, visible } from "../ui/visible.js";
import { Place, Waiting, lastOf } from "./detail.js";

/** How many values are shown at first. */
const few = 50;

const scopes: Readonly<Record<Entry["scope"], string>> = {
  session: "of the session",
  turn: "until the turn ends",
  user: "of all sessions of the user, as this one wrote it",
  app: "of all sessions of the app, as this one wrote it",
};

/** The state of a session at the moment: keys and values, where each counts, and who wrote it last. */
export function Values({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const { value, error } = stateAt(session, lastOf(session, seq, "state", "user"));
  const [most, show] = useState(few);
  return (
    <div class="details-body">
      {value === undefined ? (
        <Waiting error={error} what="the state" />
      ) : (
        <section>
          <h2>State at {count(seq)}</h2>
          {value.length === 0 && <p class="soft">There are no values. Tools and the program can write some.</p>}
          <dl class="d-samples">
            {value.slice(0, most).map((e) => (
              <Value key={e.key} entry={e} />
            ))}
          </dl>
          {value.length > most && (
            <button class="button" onClick={() => show(most + 5 * few)}>
              Show more of {counted(value.length, "value")}
            </button>
          )}
        </section>
      )}
    </div>
  );
}

function Value({ entry: { key, value, scope, by } }: { readonly entry: Entry }): JSX.Element {
  const agent = by?.agent ?? "";
  return (
    <div class="d-value">
      <dt class="code">{visible(key)}</dt>
      <dd class="code" dir="auto">
        <Folded text={asText(value, 2)} />
      </dd>
      <dd class="soft fact">
        {scopes[scope]} ·{" "}
        {by === undefined ? (
          "the log does not say who wrote it"
        ) : (
          <>
            written {agent === "user" ? "when the turn began" : `by ${visible(agent)}`}, <Place seq={by.seq ?? 0}>at {count(by.seq ?? 0)}</Place>, {clock(by.time)}
          </>
        )}
      </dd>
    </div>
  );
}
