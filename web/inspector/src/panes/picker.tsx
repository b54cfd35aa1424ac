// Where a conversation branches: which branch is shown, and links to the others.
import { type Active, type ViewNode, switchTo } from "@agentarbor/conversation";
import type { JSX } from "preact";
import type { Parting } from "../state/family.js";
import type { OpenSession } from "../state/open.js";
import { change, go, route } from "../state/route.js";
import { texts } from "../texts.js";
import { Icon } from "../ui/icons.js";

/** The path of the address through a conversation that branches; what makes no sense is not looked at. */
export function pathOf(text: string | undefined): Active {
  try {
    const active: unknown = JSON.parse(text ?? "{}");
    return typeof active === "object" && active !== null ? (active as Active) : {};
  } catch {
    return {};
  }
}

/** The sessions that part here: each way leads to another one. */
export function Relatives({ parting: { ways, own } }: { readonly parting: Parting }): JSX.Element {
  const to = (i: number): void => {
    const { user } = route.value;
    const session = ways[i];
    if (session !== undefined) go({ screen: "session", id: session.id, middle: "talk", ...(user !== undefined && { user }) });
  };
  return <Picker at={own} of={ways.length} to={to} title={(i) => ways[i]?.id ?? ""} />;
}

/** The runs of one graph that can take the place of a message. */
export function Alternatives({ session, view }: { readonly session: OpenSession; readonly view: ViewNode }): JSX.Element | null {
  const { alternatives } = view;
  if (alternatives === undefined) return null;
  const { graph } = session.moment.value;
  const now = route.value;
  const own = alternatives.findIndex((id) => graph.node(id)?.runId === view.runId);
  const to = (i: number): void => {
    const active = pathOf(now.screen === "session" ? now.active : undefined);
    const id = alternatives[i];
    if (id !== undefined) change({ active: JSON.stringify(switchTo(graph, active, id)) });
  };
  return <Picker at={own} of={alternatives.length} to={to} title={() => ""} />;
}

interface PickerProps {
  readonly at: number;
  readonly of: number;
  readonly to: (i: number) => void;
  readonly title: (i: number) => string;
}

function Picker({ at, of, to, title }: PickerProps): JSX.Element {
  return (
    <span class="talk-picker fact" role="group" aria-label={texts.talk.branch(at + 1, of)}>
      {at + 1}/{of}
      <button class="talk-do" aria-label={texts.talk.previousBranch} title={title(at - 1)} disabled={at <= 0} onClick={() => to(at - 1)}>
        <Icon name="left" />
      </button>
      <button class="talk-do" aria-label={texts.talk.nextBranch} title={title(at + 1)} disabled={at >= of - 1} onClick={() => to(at + 1)}>
        <Icon name="right" />
      </button>
    </span>
  );
}
