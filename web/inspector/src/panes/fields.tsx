// An answer by a JSON schema: fields for simple members, and JSON for what is not simple.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { texts } from "../texts.js";
import { asText, visible } from "../ui/visible.js";

interface Schema {
  readonly type?: unknown;
  readonly title?: unknown;
  readonly description?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Props {
  readonly schema: unknown;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
}

/** What an answer is before anybody has written one. */
export function emptyAnswer(schema: unknown): unknown {
  const s = (schema ?? { type: "string" }) as Schema;
  if (s.default !== undefined) return s.default;
  if (s.type === "object" && s.properties !== undefined) {
    const given = Object.entries(s.properties).flatMap(([name, of]) => {
      const value = emptyAnswer(of);
      return value === undefined || (value === "" && !s.required?.includes(name)) ? [] : [[name, value] as const];
    });
    return Object.fromEntries(given);
  }
  if (s.type === "boolean") return false;
  if (Array.isArray(s.enum)) return s.enum[0];
  return s.type === "string" || s.type === undefined ? "" : undefined;
}

export function Fields({ schema, value, change }: Props): JSX.Element {
  const s = (typeof schema === "object" && schema !== null ? schema : { type: "string" }) as Schema;
  if (s.type !== "object" || s.properties === undefined) {
    return <Field name={texts.decide.words} schema={s} value={value} change={change} />;
  }
  const all = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const set = (name: string, now: unknown): void => {
    const { [name]: _, ...rest } = all;
    change(now === undefined || (now === "" && !s.required?.includes(name)) ? rest : { ...rest, [name]: now });
  };
  return (
    <div class="fields">
      {Object.entries(s.properties).map(([name, of]) => (
        <Field key={name} name={name} schema={of} value={all[name]} change={(now) => set(name, now)} needed={s.required?.includes(name) ?? false} />
      ))}
    </div>
  );
}

interface FieldProps extends Omit<Props, "schema"> {
  readonly name: string;
  readonly schema: Schema;
  readonly needed?: boolean;
}

function Field({ name, schema, value, change, needed = true }: FieldProps): JSX.Element {
  const title = visible(typeof schema.title === "string" ? schema.title : name) + (needed ? "" : ` ${texts.decide.optional}`);
  const about = typeof schema.description === "string" ? visible(schema.description) : "";
  if (schema.type === "boolean") {
    return (
      <label class="fields-one fields-yes">
        <input type="checkbox" checked={value === true} onChange={(e) => change(e.currentTarget.checked)} /> {title}{" "}
        <span class="fact soft">{about}</span>
      </label>
    );
  }
  return (
    <label class="fields-one">
      <span class="fact">
        {title} <span class="soft">{about}</span>
      </span>
      <Input schema={schema} value={value} change={change} needed={needed} />
    </label>
  );
}

function Input({ schema, value, change, needed }: Omit<FieldProps, "name">): JSX.Element {
  const [wrong, tell] = useState("");
  const common = { class: "field", dir: "auto" as const };
  if (Array.isArray(schema.enum)) {
    const chosen = schema.enum.findIndex((v) => JSON.stringify(v) === JSON.stringify(value));
    return (
      <select {...common} value={String(chosen)} onChange={(e) => change(schema.enum![Number(e.currentTarget.value)])}>
        {!needed && <option value="-1">–</option>}
        {schema.enum.map((v, i) => (
          <option key={i} value={String(i)}>
            {asText(v)}
          </option>
        ))}
      </select>
    );
  }
  if (schema.type === "number" || schema.type === "integer") {
    return (
      <input
        {...common}
        type="number"
        step={schema.type === "integer" ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        value={typeof value === "number" ? value : ""}
        onInput={(e) => change(Number.isNaN(e.currentTarget.valueAsNumber) ? undefined : e.currentTarget.valueAsNumber)}
      />
    );
  }
  if (schema.type === "string" || schema.type === undefined) {
    return <input {...common} maxLength={schema.maxLength} value={typeof value === "string" ? value : ""} onInput={(e) => change(e.currentTarget.value)} />;
  }
  const read = (text: string): void => {
    try {
      change(JSON.parse(text));
      tell("");
    } catch {
      tell(texts.decide.notJSON);
    }
  };
  return (
    <>
      <textarea {...common} rows={3} onInput={(e) => read(e.currentTarget.value)}>
        {value === undefined ? "" : JSON.stringify(value, null, 2)}
      </textarea>
      {wrong !== "" && <span class="failed fact">{wrong}</span>}
    </>
  );
}
