package doctest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words are those that we do not use, with what we write instead. A number says how often the pages still have a word: it
// only ever becomes smaller.
var words = []struct {
	pattern, instead string
	left             int
}{
	{`\bhand(s|ed|ing)? (\w+ )?over\b|\bhandovers?\b`, "transfer between agents, hand off to a person", 0},
	{`\bbeside\b`, "next to, in addition to", 0},
	{`\b[Ww]hoever\b`, "the caller, the client, the process that", 0},
	{`[.!] Who [a-z]+s\b`, "a subject that acts: the client that, the agent that", 0},
	{`\b(is|are) none\b`, "no X exists, without any", 0},
	{`\bso many\b|\bof several all\b|\bno more than\b`, "n, that number of, all of them, at most", 0},
	{`\bplant(s|ed|ing)?\b|\btree of trees\b`, "load, loaded tree", 0},
	{`\bdoors?\b`, "API, handler", 0},
	{`\bharness run\b`, "run", 0},
	{`\b(go|goes|went|gone|going) on\b`, "continue, resume, adopt", 1},
	{`\b(take|takes|taken|taking|took) (\w+ )?(up|over)\b`, "continue, resume, adopt", 0},
	{`\b([Ss]omebody|[Nn]obody)\b`, "the user, a client, no process", 0},
	{`\bbehind\b|\bin front of\b`, "after, before", 3},
	{`\b(stands|lies)\b`, "is, is written", 0},
	{`\b(is|are|was|were) told\b|\bhears\b`, "reads, receives, is notified", 0},
}

var inlineCode = regexp.MustCompile("(?m)^```.*$|`[^`]*`|\\]\\([^)]*\\)")

// TestWords finds words in the pages, and in the help of the command, that we do not use.
func TestWords(t *testing.T) {
	all := pages(t)
	for _, name := range []string{"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} {
		all = append(all, read(t, filepath.Join(root, name)))
	}
	texts := map[string]string{}
	for _, p := range all {
		texts[p.path] = p.prose
	}
	var visit func(args ...string)
	visit = func(args ...string) {
		text := help(t, args...)
		texts[strings.Join(append([]string{"arbor"}, args...), " ")+" --help"] = text
		_, list, _ := strings.Cut(text, "Available Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
			if m[1] != "help" {
				visit(append(slices.Clone(args), m[1])...)
			}
		}
	}
	visit()
	for _, word := range words {
		pattern, found := regexp.MustCompile(word.pattern), []string(nil)
		for path, text := range texts {
			text = strings.ReplaceAll(inlineCode.ReplaceAllString(text, "``"), "\n", " ")
			for _, at := range pattern.FindAllStringIndex(text, -1) {
				around := text[max(0, at[0]-40):min(len(text), at[1]+40)]
				found = append(found, path+": …"+strings.ToValidUTF8(around, "")+"…")
			}
		}
		slices.Sort(found)
		if len(found) > word.left {
			t.Errorf("%d times where at most %d are left; write instead: %s\n%s", len(found), word.left, word.instead, strings.Join(found, "\n"))
		} else if len(found) < word.left {
			t.Logf("%s: the number in the table can become %d", word.pattern, len(found))
		}
	}
}
