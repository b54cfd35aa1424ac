import "./inbox.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import { type Place, decide, once } from "../state/actions.js";
import { tell } from "../state/app.js";
import { useKeys } from "../ui/keys.js";
import { Arguments, Colleague } from "../ui/args.js";
import { visible } from "../ui/visible.js";

interface Props {
  readonly place: Place;
  readonly turn: string;
  readonly call: Schemas["Call"];
  /** Whether the keys a and d are for this one. */
  readonly keys: boolean;
}

/** A question of a turn with the buttons that answer it. Who answers first decides, in any window. */
export function Ask({ place, turn, call, keys }: Props): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState<string | undefined>();
  const answer = (decision: Omit<Schemas["Decision"], "callId">): void => {
    if (busy) return;
    setBusy(true);
    void decide(place, turn, { callId: call.callId, ...(call.digest !== undefined && { digest: call.digest }), ...decision }, once()).then((taken) => taken || setBusy(false));
  };
  const permission = call.kind === "permission";
  useKeys(
    keys && permission && call.mayDecide
      ? { a: ["Approve", () => answer({ approved: true })], d: ["Deny…", () => setWhy(why ?? "")] }
      : {},
  );
  return (
    <div class="ask-body">
      <p>
        <strong>{visible(permission ? `${call.tool} wants to run` : (call.message ?? `${call.tool} asks`))}</strong>{" "}
        <span class="soft">for {call.agent}</span>
      </p>
      {permission && call.message !== undefined && call.message !== "" && <p>{visible(call.message)}</p>}
      {(permission || call.params != null) && <Arguments of={call.params} />}
      <p class="soft">Nothing has happened yet.</p>
      {!call.mayDecide ? (
        <Colleague call={call} />
      ) : !permission ? (
        <Words schema={call.schema} busy={busy} answer={(content) => answer({ content })} />
      ) : why === undefined ? (
        <div class="ask-actions">
          <button class="button main" disabled={busy} onClick={() => answer({ approved: true })}>
            Approve {keys && <kbd>A</kbd>}
          </button>
          <button class="button" disabled={busy} onClick={() => setWhy("")}>
            Deny… {keys && <kbd>D</kbd>}
          </button>
        </div>
      ) : (
        <form
          class="ask-actions"
          onSubmit={(e) => {
            e.preventDefault();
            answer({ approved: false, ...(why.trim() !== "" && { reason: why.trim() }) });
          }}
          onKeyDown={(e) => {
            if (e.key !== "Escape") return;
            e.preventDefault();
            setWhy(undefined);
          }}
        >
          <input
            class="field"
            aria-label="Why, for the agent"
            placeholder="Why, for the agent"
            value={why}
            ref={(field) => void (field !== null && document.activeElement?.closest(".ask-body") !== field.closest(".ask-body") && field.focus())}
            onInput={(e) => setWhy(e.currentTarget.value)}
          />
          <button class="button" type="submit" disabled={busy}>
            Deny
          </button>
          <button class="button plain" type="button" onClick={() => setWhy(undefined)}>
            Back
          </button>
        </form>
      )}
    </div>
  );
}

/** An answer in words, or in JSON where the question has a schema that is no text's. */
function Words({ schema, busy, answer }: { readonly schema: unknown; readonly busy: boolean; readonly answer: (content: unknown) => void }): JSX.Element {
  const json = schema !== undefined && schema !== null && (schema as { type?: unknown }).type !== "string";
  const send = (e: SubmitEvent): void => {
    e.preventDefault();
    const text = String(new FormData(e.currentTarget as HTMLFormElement).get("answer") ?? "");
    if (!json) return answer(text);
    try {
      answer(JSON.parse(text));
    } catch (error) {
      tell(`The answer is no JSON: ${error instanceof Error ? error.message : String(error)}.`, true);
    }
  };
  return (
    <form class="ask-actions" onSubmit={send}>
      <input class="field" name="answer" required aria-label={json ? "Your answer, as JSON" : "Your answer"} placeholder={json ? "Your answer, as JSON" : "Your answer"} />
      <button class="button main" disabled={busy}>
        Answer
      </button>
    </form>
  );
}
