import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Sheet } from "./sheet.js";

const steps: readonly (readonly [title: string, text: string])[] = [
  ["Start a session", "Write a message on the screen Sessions. The agents answer it in a session of its own. What waits for your decision stands at the top of this screen."],
  ["Ask why", "In a conversation, Why? says why an answer came from this agent, and Seen shows what its model was asked. Cost shows what it cost, and What if tries something else."],
  ["Go back", "The line below a conversation is its log. Move along it to see an earlier moment. A message that you write there starts a fork, and the session stays as it was."],
  ["Look at the agents", "The screen Tree shows each agent with its instructions and tools. Press ? for the keys that work where you are. This tour is there, too."],
];

/** Four steps that say what the page is for. It opens only when somebody asks for it. */
export function Tour({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const [at, go] = useState(0);
  const text = useRef<HTMLParagraphElement>(null);
  const [title, words] = steps[at]!;
  const last = at === steps.length - 1;
  // A reader hears each step as it comes.
  useEffect(() => {
    if (at > 0) text.current?.focus();
  }, [at]);
  return (
    <Sheet title={`${title}, step ${at + 1} of ${steps.length}`} from="middle" onClose={onClose}>
      <div class="screen">
        <p ref={text} tabIndex={-1}>
          {words}
        </p>
        <p class="ask-actions">
          {at > 0 && (
            <button class="button" onClick={() => go(at - 1)}>
              Back
            </button>
          )}
          <button class="button main" data-first onClick={last ? onClose : () => go(at + 1)}>
            {last ? "Finish" : "Next"}
          </button>
          {!last && (
            <button class="button plain" onClick={onClose}>
              Leave the tour
            </button>
          )}
        </p>
      </div>
    </Sheet>
  );
}
