// The letters of agents in their marks.

/** A word or a number of a name. */
const part = /\p{L}+|\p{N}+/gu;

function candidate(name: string, n: number): string {
  const [one = "?", two = ""] = name.match(part) ?? [];
  return two === "" ? [...one].slice(0, n).join("") : [...one].slice(0, 1).join("") + [...two].slice(0, n - 1).join("");
}

/** Two letters for each name, and up to four for names that would have the same ones. */
export function lettersOf(names: Iterable<string>): ReadonlyMap<string, string> {
  const made = new Map<string, string>();
  let left = [...new Set(names)];
  for (let n = 2; n <= 4 && left.length > 0; n++) {
    const same = new Map<string, number>();
    for (const name of left) {
      const letters = candidate(name, n);
      made.set(name, letters);
      same.set(letters, (same.get(letters) ?? 0) + 1);
    }
    left = left.filter((name) => same.get(made.get(name)!)! > 1);
  }
  return made;
}
