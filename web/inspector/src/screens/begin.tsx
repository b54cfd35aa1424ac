import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { once, start } from "../state/actions.js";
import { type Agent, tree } from "../state/app.js";
import { texts } from "../texts-behind.js";
import { Copy } from "../ui/copy.js";
import { useKeys } from "../ui/keys.js";
import { Link } from "../ui/link.js";
import { Mark } from "../ui/mark.js";
import { openTour } from "../ui/palette.js";

/** Begins a session with the first words. */
export function Begin({ empty }: { readonly empty: boolean }): JSX.Element {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(once());
  const field = useRef<HTMLTextAreaElement>(null);
  const root = tree.value?.root.name;
  const send = (): void => {
    if (text.trim() === "" || busy) return;
    setBusy(true);
    // The key stays the same until the words change, so that sending again begins no second session.
    void start(text, key.current).finally(() => setBusy(false));
  };
  const write = (words: string): void => {
    key.current = once();
    setText(words);
  };
  useKeys({
    c: [texts.begin.key, () => field.current?.focus()],
    "mod+Enter": [texts.begin.send, send],
  });
  return (
    <>
      <form
        class="begin"
        onSubmit={(e) => {
          e.preventDefault();
          send();
        }}
      >
        <textarea
          ref={field}
          class="field"
          rows={2}
          aria-label={texts.begin.name}
          placeholder={texts.begin.hint(root)}
          value={text}
          onInput={(e) => write(e.currentTarget.value)}
        />
        <button class="button main" disabled={busy || text.trim() === ""}>
          {texts.begin.start}
        </button>
      </form>
      {empty && (
        <div class="first-words">
          <p class="soft">{texts.begin.choose}</p>
          {examples(tree.value?.root).map((words) => (
            <button
              key={words}
              class="button"
              onClick={() => {
                write(words);
                field.current?.focus();
              }}
            >
              {words}
            </button>
          ))}
          <button class="talk-do" onClick={openTour}>
            {texts.begin.tour}
          </button>
        </div>
      )}
    </>
  );
}

/** Three first messages, made of the agents' descriptions: those below the root first. */
function examples(root: Agent | undefined): string[] {
  if (root === undefined) return [];
  const below = (agent: Agent): readonly Agent[] => [...(agent.subAgents ?? []), ...(agent.agents ?? [])];
  const level = (agents: readonly Agent[]): readonly Agent[] => (agents.length === 0 ? [] : [...agents, ...level(agents.flatMap(below))]);
  const described = [...level(below(root)), root].filter((a) => a.description !== undefined);
  const made = described.slice(0, 3).map(({ description }) => texts.begin.example(description!.replace(/\.$/, "")));
  return [...new Set([...made, texts.begin.hello])].slice(0, 3);
}

/** What is shown before the first session: the tree, and how a program starts one. */
export function Nothing(): JSX.Element {
  const root = tree.value?.root;
  const line = `curl ${location.origin}/api/v1/sessions -H "Authorization: Bearer $ARBOR_TOKEN" -H "Content-Type: application/json" -d '{"content": "Hello"}'`;
  return (
    <>
      <h2>{texts.begin.none}</h2>
      <p>{texts.begin.how}</p>
      <div class="curl">
        <pre tabIndex={0}>{line}</pre>
        <Copy text={line} what={texts.begin.command} />
      </div>
      {root !== undefined && (
        <section class="agents-list" aria-label={texts.begin.tree}>
          <h2>{texts.begin.agents}</h2>
          <ul>
            <Branch agent={root} left={{ n: 24 }} />
          </ul>
        </section>
      )}
    </>
  );
}

function Branch({ agent, left }: { readonly agent: Agent; readonly left: { n: number } }): JSX.Element | null {
  if (left.n-- <= 0) return null;
  return (
    <li>
      <span>
        <Mark agent={agent.name} />
        <span>
          <Link to={{ screen: "tree", path: agent.path }}>{agent.name}</Link> <span class="soft">{agent.description}</span>
        </span>
      </span>
      {(agent.subAgents?.length ?? 0) > 0 && (
        <ul>
          {agent.subAgents!.map((child) => (
            <Branch key={child.path} agent={child} left={left} />
          ))}
        </ul>
      )}
    </li>
  );
}
