import "./inbox.css";
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Schemas } from "../net/api.js";
import type { Place } from "../state/actions.js";
import { tell } from "../state/app.js";
import { type Decision, decidedAbout, questionOf, take } from "../state/decisions.js";
import { texts } from "../texts.js";
import { Arguments, Colleague } from "../ui/args.js";
import { useKeys } from "../ui/keys.js";
import { useSettled } from "../ui/settled.js";
import { Undo } from "../ui/undo.js";
import { visible } from "../ui/visible.js";

/** A question of a turn, as a card of a list. */
export interface Card {
  readonly name: string;
  readonly place: Place;
  readonly turn: string;
  readonly call: Schemas["Call"];
  readonly head: ComponentChildren;
}

const idOf = (card: Card): string => questionOf(card.place, card.call);
const asks = ({ call }: Card): boolean => call.mayDecide && call.kind === "permission";

/**
 * Questions with the buttons that answer them. The first answer decides, in any window. The keys are for the card that
 * has the focus, and nothing acts on a list that has just moved.
 */
export function Cards({ all }: { readonly all: readonly Card[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const { settled, move } = useSettled(all.map(idOf).join(" "), box);
  const [denying, deny] = useState("");
  const act = (does: (card: Card) => void) => (): void | false => {
    const open = all.filter((card) => asks(card) && decidedAbout(idOf(card)) === undefined);
    if (open.length === 0) return false;
    if (!settled) return undefined;
    const articles = [...(box.current?.children ?? [])] as HTMLElement[];
    const at = articles.findIndex((e) => e.contains(document.activeElement));
    if (at < 0) {
      articles[all.indexOf(open[0]!)]?.focus();
      return move();
    }
    const card = all[at];
    return card !== undefined && open.includes(card) ? does(card) : false;
  };
  useKeys({
    a: [texts.decide.approveKey, act((card) => take(card.place, card.turn, card.call, { approved: true }))],
    d: [texts.decide.denyKey, act((card) => deny(idOf(card)))],
  });
  return (
    <div class="inbox" ref={box}>
      {all.map((card) => (
        <article key={idOf(card)} class="ask" aria-label={card.name} tabIndex={0}>
          <p class="ask-head fact">{card.head}</p>
          <Ask card={card} settled={settled} denying={denying === idOf(card)} deny={(yes) => deny(yes ? idOf(card) : "")} />
        </article>
      ))}
    </div>
  );
}

interface Props {
  readonly card: Card;
  readonly settled: boolean;
  readonly denying: boolean;
  readonly deny: (yes: boolean) => void;
}

function Ask({ card, settled, denying, deny }: Props): JSX.Element {
  const { place, turn, call } = card;
  const [why, setWhy] = useState("");
  const answer = (decision: Decision): void => {
    deny(false);
    take(place, turn, call, decision);
  };
  const permission = call.kind === "permission";
  return (
    <div class="ask-body">
      <p>
        <strong>{visible(permission ? texts.decide.runs(call.tool) : (call.message ?? texts.decide.asks(call.tool)))}</strong>{" "}
        <span class="soft">{texts.decide.agent(call.agent)}</span>
      </p>
      {permission && call.message !== undefined && call.message !== "" && <p>{visible(call.message)}</p>}
      {(permission || call.params != null) && <Arguments of={call.params} />}
      <p class="soft">{texts.decide.nothing}</p>
      {!call.mayDecide ? (
        <Colleague call={call} />
      ) : decidedAbout(idOf(card)) !== undefined ? (
        <Undo question={idOf(card)} />
      ) : !permission ? (
        <Words schema={call.schema} answer={(content) => answer({ content })} />
      ) : !denying ? (
        <div class="ask-actions">
          <button class="button main" data-approve aria-disabled={!settled} onClick={() => settled && answer({ approved: true })}>
            {texts.decide.approve} <kbd>A</kbd>
          </button>
          <button class="button" aria-disabled={!settled} onClick={() => settled && deny(true)}>
            {texts.decide.denyWhy} <kbd>D</kbd>
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
            deny(false);
          }}
        >
          <input
            class="field"
            aria-label={texts.decide.why}
            placeholder={texts.decide.why}
            value={why}
            ref={(field) => void (field !== null && document.activeElement?.closest(".ask-body") !== field.closest(".ask-body") && field.focus())}
            onInput={(e) => setWhy(e.currentTarget.value)}
          />
          <button class="button" type="submit">
            {texts.decide.deny}
          </button>
          <button class="button plain" type="button" onClick={() => deny(false)}>
            {texts.decide.back}
          </button>
        </form>
      )}
    </div>
  );
}

/** An answer in words, or in JSON where the question has a schema that is no text's. */
function Words({ schema, answer }: { readonly schema: unknown; readonly answer: (content: unknown) => void }): JSX.Element {
  const json = schema !== undefined && schema !== null && (schema as { type?: unknown }).type !== "string";
  const send = (e: SubmitEvent): void => {
    e.preventDefault();
    const text = String(new FormData(e.currentTarget as HTMLFormElement).get("answer") ?? "");
    if (!json) return answer(text);
    try {
      answer(JSON.parse(text));
    } catch (error) {
      tell(texts.decide.badJSON(error instanceof Error ? error.message : String(error)), true);
    }
  };
  return (
    <form class="ask-actions" onSubmit={send}>
      <input class="field" name="answer" required aria-label={json ? texts.decide.json : texts.decide.words} placeholder={json ? texts.decide.json : texts.decide.words} />
      <button class="button main">
        {texts.decide.answer}
      </button>
    </form>
  );
}
