// A tool of an agent, run by hand in the workshop of a server: nothing of it is stored.
import "./question.css";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, type Schemas, path, post } from "../net/api.js";
import { texts } from "../texts-behind.js";
import { span } from "../ui/amount.js";
import { useDraft } from "../ui/draft.js";
import { asText, visible } from "../ui/visible.js";
import { Pre } from "../ui/words.js";
import { Fields, emptyAnswer } from "./fields.js";

type Tool = Schemas["View"]["tools"][number];

interface Props {
  readonly agent: string;
  /** Those of the request that run by hand. */
  readonly tools: readonly Tool[];
}

export function ByHand({ agent, tools }: Props): JSX.Element | null {
  const [name, choose] = useState(tools[0]?.function.name);
  const tool = tools.find((t) => t.function.name === name);
  if (tool === undefined) return null;
  return (
    <section class="by-hand" aria-label={texts.byHand.name}>
      <h3>{texts.byHand.name}</h3>
      <p class="soft fact">{texts.byHand.about}</p>
      <label class="fields-one">
        <span class="fact">{texts.byHand.tool}</span>
        <select class="field" value={name} onChange={(e) => choose(e.currentTarget.value)}>
          {tools.slice(0, 200).map((t) => (
            <option key={t.function.name} value={t.function.name}>
              {visible(t.function.name)}
            </option>
          ))}
        </select>
      </label>
      <Call key={name} agent={agent} tool={tool} />
    </section>
  );
}

function Call({ agent, tool: { function: tool } }: { readonly agent: string; readonly tool: Tool }): JSX.Element {
  const schema = { type: "object", properties: {}, ...(tool.parameters as object | undefined) };
  const [input, give] = useDraft<unknown>(`tool ${agent} ${tool.name}`, () => emptyAnswer(schema));
  const [stands, set] = useState<"" | "runs" | "asks">("");
  const [outcome, show] = useState<Schemas["ToolOutcome"]>();
  const [failed, fail] = useState("");
  const run = async (approved: boolean): Promise<void> => {
    if (stands === "runs") return;
    set("runs");
    show(undefined);
    fail("");
    let next: "" | "asks" = "";
    try {
      show(await post<Schemas["ToolOutcome"]>(path("agents", agent, "tools", tool.name), { input, approved }));
    } catch (error) {
      if (error instanceof ApiError && error.code === "needs_approval") next = "asks";
      else fail(error instanceof ApiError ? [error.message, ...(error.problem?.problems ?? []).map((p) => `${p.path} ${p.message}`)].join(": ") : String(error));
    }
    set(next);
  };
  const change = (value: unknown): void => {
    give(value);
    if (stands === "asks") set(""); // an approval is for the arguments that were shown
  };
  return (
    <form
      class="fields"
      onSubmit={(e) => {
        e.preventDefault();
        void run(stands === "asks");
      }}
    >
      {tool.description !== undefined && <p class="soft">{visible(tool.description)}</p>}
      <Fields schema={schema} value={input} change={change} />
      {stands === "asks" && <p role="alert">{texts.byHand.needsApproval(visible(tool.name))}</p>}
      <p class="d-ask">
        <button class="button main" aria-disabled={stands === "runs"}>
          {stands === "runs" ? texts.byHand.running : stands === "asks" ? texts.byHand.approve : texts.byHand.run(tool.name)}
        </button>
        {stands === "asks" && (
          <button type="button" class="button" onClick={() => set("")}>
            {texts.byHand.cancel}
          </button>
        )}
      </p>
      <div aria-live="polite">
        {failed !== "" && <p class="failed">{visible(failed)}</p>}
        {outcome !== undefined && <Outcome of={outcome} />}
      </div>
    </form>
  );
}

function Outcome({ of: { output, isError, seconds, state, files } }: { readonly of: Schemas["ToolOutcome"] }): JSX.Element {
  return (
    <>
      <p class={isError ? "failed" : undefined}>{texts.byHand.done(isError, span(seconds * 1000))}</p>
      <Pre text={asText(output, 2)} wrapped label={texts.byHand.output} />
      {Object.keys(state).length > 0 && <p class="soft fact">{texts.byHand.state(asText(state))}</p>}
      {files.length > 0 && <p class="soft fact">{texts.byHand.files(visible(files.join(", ")))}</p>}
    </>
  );
}
