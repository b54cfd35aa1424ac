package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the root of the repository, as seen from this package's folder.
const root = "../../.."

// page is a Markdown file.
type page struct {
	path   string // from the root
	text   string
	prose  string // text without blocks
	blocks []block
}

// block is a fenced block.
type block struct {
	line   int
	lang   string
	words  []string // behind the language
	code   string
	output *string // of the text output block that follows, if one does
}

func (b block) has(word string) bool { return slices.Contains(b.words, word) }

// file returns the name of the file that the block is, or "".
func (b block) file() string {
	for _, w := range b.words {
		if name, ok := strings.CutPrefix(w, "file="); ok {
			return name
		}
	}
	return ""
}

// status returns the exit status that a command must end with.
func (b block) status() string {
	for _, w := range b.words {
		if s, ok := strings.CutPrefix(w, "status="); ok {
			return s
		}
	}
	return "0"
}

// pages returns the README, those of the examples, and all of docs/.
func pages(t testing.TB) []*page {
	t.Helper()
	all := append([]*page{read(t, filepath.Join(root, "README.md"))}, docs(t, "*.md")...)
	examples, err := os.ReadDir(filepath.Join(root, "examples"))
	require.NoError(t, err)
	for _, e := range examples {
		all = append(all, read(t, filepath.Join(root, "examples", e.Name(), "README.md")))
	}
	return all
}

// docs returns the pages in docs/ whose names match a pattern.
func docs(t testing.TB, pattern string) []*page {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var found []*page
	for _, path := range paths {
		found = append(found, read(t, path))
	}
	return found
}

func doc(t testing.TB, name string) *page {
	t.Helper()
	return read(t, filepath.Join(root, "docs", name))
}

func read(t testing.TB, path string) *page {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	rel, err := filepath.Rel(root, path)
	require.NoError(t, err)
	p := &page{path: filepath.ToSlash(rel), text: string(data)}
	p.parse(t)
	return p
}

func (p *page) parse(t testing.TB) {
	t.Helper()
	known := map[string][]string{"sh": {"repo", "endpoint", "ci", "more"}, "go": {"test", "fragment"}, "text": {"output"}}
	var open *block
	n := 0
	for line := range strings.Lines(p.text) {
		n++
		if open == nil {
			p.prose += line
		}
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "```")
		switch {
		case open == nil && isFence:
			words := strings.Fields(fence)
			open = &block{line: n}
			if len(words) > 0 {
				open.lang, open.words = words[0], words[1:]
			}
			for _, w := range open.words {
				ok := slices.Contains(known[open.lang], w) || strings.HasPrefix(w, "file=") || open.lang == "sh" && strings.HasPrefix(w, "status=") || slices.Contains([]string{"go", "js", "python"}, open.lang) && strings.HasPrefix(w, "in=")
				require.True(t, ok, "%s:%d: the fence has the unknown word %q", p.path, n, w)
			}
		case open != nil && isFence:
			require.Empty(t, fence, "%s:%d: a fence within the block of line %d", p.path, n, open.line)
			if open.lang == "text" && open.has("output") {
				require.NotEmpty(t, p.blocks, "%s:%d: there is no block before this output", p.path, open.line)
				p.blocks[len(p.blocks)-1].output = &open.code
			} else {
				p.blocks = append(p.blocks, *open)
			}
			open = nil
		case open != nil:
			open.code += line
		}
	}
	require.Nil(t, open, "%s: the last block has no end", p.path)
}

// requireOutput compares what was printed with what a page promises.
func requireOutput(t testing.TB, want, got string) {
	t.Helper()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", "(?s:.*?)")
	if !regexp.MustCompile(`\A` + pattern + `\z`).MatchString(strings.TrimSpace(got)) {
		require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got)) // … matches anything
	}
}

// section returns what is below a heading, up to the next one of its level or
// above, without blocks.
func (p *page) section(t testing.TB, heading string) string {
	t.Helper()
	i := strings.Index(p.prose, "\n"+heading+"\n")
	require.GreaterOrEqual(t, i, 0, "%s has no heading %q", p.path, heading)
	rest := p.prose[i+len(heading)+2:]
	level, _, _ := strings.Cut(heading, " ")
	if end := regexp.MustCompile(`(?m)^#{1,` + string('0'+rune(len(level))) + `} `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

var heading = regexp.MustCompile("(?m)^(#+) (.+)$")

// headings returns the texts of the headings of a level, or with 0 of all.
func (p *page) headings(level int) []string {
	var found []string
	for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
		if level == 0 || len(m[1]) == level {
			found = append(found, m[2])
		}
	}
	return found
}

var cell = regexp.MustCompile("(?m)^\\| `([^`|]+)`")

// firstCells returns the code in the first cell of each row of a text's tables.
func firstCells(text string) []string {
	var found []string
	for _, m := range cell.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestPagesAreShort: a page is read in one go. A longer one is a guide and a
// reference, which belong on pages of their own.
func TestPagesAreShort(t *testing.T) {
	for _, p := range pages(t) {
		require.Less(t, strings.Count(p.text, "\n"), 300, p.path)
	}
}
