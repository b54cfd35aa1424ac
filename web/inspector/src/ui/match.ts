// How well typed text matches a name.

/**
 * How well a text fits a query, 0 if not at all: each word of the query must begin a word of the
 * text, be part of one, or have its letters there in order, which counts least.
 */
export function fit(query: string, text: string): number {
  const names = text.toLowerCase();
  let sum = 1;
  for (const word of query.toLowerCase().split(/\s+/)) {
    if (word === "") continue;
    const one = fitWord(word, names);
    if (one === 0) return 0;
    sum += one;
  }
  return sum;
}

function fitWord(word: string, names: string): number {
  if (names === word) return 100;
  if (names.startsWith(word)) return 60;
  if (names.split(/[^\p{L}\p{N}]+/u).some((part) => part.startsWith(word))) return 40;
  if (names.includes(word)) return 20;
  if (word.length < 2) return 0;
  let at = -1;
  const first = names.indexOf(word[0]!);
  for (const letter of word) {
    at = names.indexOf(letter, at + 1);
    if (at < 0) return 0;
  }
  return at - first <= 3 * word.length ? 5 : 0;
}

/** What fits a query, the best first; all in their order if it is empty. */
export function best<T>(query: string, all: readonly T[], text: (item: T) => string): T[] {
  if (query.trim() === "") return [...all];
  return all
    .map((item) => ({ item, score: fit(query, text(item)) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ item }) => item);
}
