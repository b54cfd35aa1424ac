import type { JSX } from "preact";
import type { Schemas } from "../net/api.js";
import { asking, runsOf } from "../state/forking.js";
import type { OpenSession } from "../state/open.js";
import { viewAt } from "../state/views.js";
import { Sheet } from "../ui/sheet.js";
import { visible } from "../ui/visible.js";
import { texts } from "../texts-behind.js";
import { Price, withoutModel } from "./detail.js";

interface Props {
  readonly session: OpenSession;
  readonly agent: string;
  readonly at: number;
  /** What an agent has instead of what it has in the tree. */
  readonly change?: Schemas["Change"] | undefined;
  /** Whether the price is shown elsewhere. */
  readonly priced?: boolean;
}

/** Models and tools that may run, by their names, and what the first answer costs. */
export function WhatRuns({ session, agent, at, change, priced = false }: Props): JSX.Element {
  const { models, tools, unknown } = runsOf(agent, change);
  const names = (all: readonly string[], most = 12): string => visible([...all.slice(0, most), ...(all.length > most ? [texts.fork.more(all.length - most)] : [])].join(", "));
  return (
    <dl class="d-facts">
      <div class="d-fact">
        <dt>{texts.fork.models}</dt>
        <dd>
          {[...models].map(([model, agents]) => (
            <p key={model}>
              <b>{visible(model)}</b> {texts.fork.of(names(agents))}
            </p>
          ))}
          {models.size === 0 && <p>{unknown ? texts.fork.unknown : texts.fork.none}</p>}
        </dd>
      </div>
      <div class="d-fact">
        <dt>{texts.fork.tools}</dt>
        <dd>{tools.length > 0 ? names(tools, 40) : unknown ? texts.fork.unknown : texts.fork.none}</dd>
      </div>
      {!priced && (
        <div class="d-fact">
          <dt>{texts.fork.price}</dt>
          <dd>
            <FirstPrice session={session} agent={agent} at={at} />
          </dd>
        </div>
      )}
    </dl>
  );
}

function FirstPrice({ session, agent, at }: Props): JSX.Element {
  if (withoutModel(agent, "") !== "" || at < 1) return <>{texts.fork.noPrice}</>;
  const { value, error } = viewAt(session, agent, at);
  if (value === undefined) return <>{error === undefined ? texts.fork.loading : texts.fork.noPrice}</>;
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
        <p>{runs ? texts.fork.now : texts.fork.later}</p>
        <WhatRuns session={session} agent={agent} at={at} />
        <p class="ask-actions">
          <button class="button main" {...(!runs && { "data-first": true })} onClick={() => answer(true)}>
            {runs && tools ? texts.fork.letRun(does) : does}
          </button>
          <button class="button" onClick={() => answer(false)}>
            {texts.cancel}
          </button>
        </p>
      </div>
    </Sheet>
  );
}
