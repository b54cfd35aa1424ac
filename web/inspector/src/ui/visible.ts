// Invisible characters that change how text is read: control characters, marks of
// direction, and invisible ones. They are written as their numbers. Joiners stay, since scripts and
// emoji need them, and so do line breaks and tabs.
const hidden =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(hidden, sign).replaceAll("\r", "⟨U+000D⟩");
}

function sign(c: string): string {
  return `⟨U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** A value as JSON, a string as itself. */
export function asText(value: unknown, spaces?: number): string {
  return visible(typeof value === "string" ? value : (JSON.stringify(value, null, spaces) ?? ""));
}

/** The beginning of a text on one line. */
export function oneLine(text: string, most = 120): string {
  const line = text.slice(0, most * 4).replace(/\s+/g, " ").trim();
  const letters = [...line];
  return letters.length > most || text.length > most * 4 ? `${letters.slice(0, most - 2).join("")} …` : line;
}

/** The arguments of a call as people write them: key="value", other=2. */
export function argsText(input: unknown): string {
  const args =
    typeof input === "object" && input !== null && !Array.isArray(input)
      ? Object.entries(input).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
      : input === undefined
        ? []
        : [JSON.stringify(input)];
  return args.join(", ");
}

/** The beginning of a call: name(key="value", other=2). */
export function callText(name: string, input: unknown): string {
  return visible(`${name}(${oneLine(argsText(input))})`);
}
