import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { OpenSession } from "../state/open.js";
import type { Entry } from "../state/values.js";
import { stateAt } from "../state/views.js";
import { clock } from "../ui/amount.js";
import { Folded } from "../ui/json.js";
import { asText, visible } from "../ui/visible.js";
import { texts } from "../texts-behind.js";
import { Place, Waiting, lastOf } from "./detail.js";

/** How many values are shown at first. */
const few = 50;


/** The state of a session at the moment: keys and values, their scopes, and the last writer of each. */
export function Values({ session }: { readonly session: OpenSession }): JSX.Element {
  const { seq } = session.facts.value;
  const { value, error } = stateAt(session, lastOf(session, seq, "state", "user"));
  const [most, show] = useState(few);
  return (
    <div class="details-body">
      {value === undefined ? (
        <Waiting error={error} what={texts.state.what} />
      ) : (
        <section>
          <h2>{texts.state.at(seq)}</h2>
          {value.length === 0 && <p class="soft">{texts.state.none}</p>}
          <dl class="d-samples">
            {value.slice(0, most).map((e) => (
              <Value key={e.key} entry={e} />
            ))}
          </dl>
          {value.length > most && (
            <button class="button" onClick={() => show(most + 5 * few)}>
              {texts.state.more(value.length)}
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
      <dt class="code">
        <b>{visible(key)}</b>
      </dt>
      <dd class="code" dir="auto">
        <Folded text={asText(value, 2)} />
      </dd>
      <dd class="soft fact">
        {texts.state.scopes[scope]} ·{" "}
        {by === undefined ? (
          texts.state.unknown
        ) : (
          <>
            {texts.state.written(agent === "user" ? "" : visible(agent))}, <Place seq={by.seq ?? 0}>{texts.at(by.seq ?? 0)}</Place>, {clock(by.time)}
          </>
        )}
      </dd>
    </div>
  );
}
