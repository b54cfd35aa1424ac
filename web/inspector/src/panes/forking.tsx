import type { JSX } from "preact";
import type { Schemas } from "../net/api.js";
import { asking, runsOf } from "../state/forking.js";
import type { OpenSession } from "../state/open.js";
import { viewAt } from "../state/views.js";
import { Sheet } from "../ui/sheet.js";
import { visible } from "../ui/visible.js";
import { Price, withoutModel } from "./detail.js";

interface Props {
  readonly session: OpenSession;
  readonly agent: string;
  readonly at: number;
  /** What an agent has instead of what it has in the tree. */
  readonly change?: Schemas["Change"] | undefined;
  /** Whether what it costs stands elsewhere. */
  readonly priced?: boolean;
}

/** Models and tools that may run, by their names, and what the first answer costs. */
export function WhatRuns({ session, agent, at, change, priced = false }: Props): JSX.Element {
  const { models, tools, unknown } = runsOf(agent, change);
  const names = (all: readonly string[], most = 12): string => visible([...all.slice(0, most), ...(all.length > most ? [`${all.length - most} more`] : [])].join(", "));
  return (
    <dl class="d-facts">
      <div class="d-fact">
        <dt>Models</dt>
        <dd>
          {[...models].map(([model, agents]) => (
            <p key={model}>
              <b>{visible(model)}</b> for {names(agents)}
            </p>
          ))}
          {models.size === 0 && <p>{unknown ? "The server does not say which." : "none"}</p>}
        </dd>
      </div>
      <div class="d-fact">
        <dt>Tools that may run</dt>
        <dd>{tools.length > 0 ? names(tools, 40) : unknown ? "The server does not say which." : "none"}</dd>
      </div>
      {!priced && (
        <div class="d-fact">
          <dt>Price</dt>
          <dd>
            <FirstPrice session={session} agent={agent} at={at} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function FirstPrice({ session, agent, at }: Props): JSX.Element {
  if (withoutModel(agent, "") !== "" || at < 1) return <>price unknown</>;
  const { value, error } = viewAt(session, agent, at);
  if (value === undefined) return <>{error === undefined ? "Loading the price…" : "price unknown"}</>;
  return <Price session={session} view={value} n={1} least />;
}

/** Asks before something runs in a fork. */
export function Forking({ session }: { readonly session: OpenSession }): JSX.Element | null {
  const { value } = asking;
  if (value === undefined || value.session !== session) return null;
  const { title, what, does, agent, at, runs, answer } = value;
  const all = runsOf(agent);
  const tools = all.tools.length > 0 || all.unknown;
  return (
    <Sheet title={title} from="middle" onClose={() => answer(false)}>
      <div class="screen details-body">
        <p>{what}</p>
        <p>{runs ? "This runs immediately:" : "Nothing runs now. When you write or resume in the fork, this may run:"}</p>
        <WhatRuns session={session} agent={agent} at={at} />
        <p class="ask-actions">
          <button class="button main" {...(!runs && { "data-first": true })} onClick={() => answer(true)}>
            {runs && tools ? `${does} and let tools run` : does}
          </button>
          <button class="button" onClick={() => answer(false)}>
            Cancel
          </button>
        </p>
      </div>
    </Sheet>
  );
}
