package yamldoc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/oddbytes"
)

// strict allows little and says of everything else what it is.
var strict = Rules{What: "the head", Before: 10, Tokens: 60, Depth: 4, Flow: 3, Keys: 3, Documents: 1,
	Plain: true}

func TestProblems(t *testing.T) {
	const plain = "anchors, aliases, merge keys, tags and directives are not read in the head: write the value out"
	for text, want := range map[string][]string{
		"a: 1":                                     nil,
		"a: &x 1\nb: *x\n<<: {c: 1}":               {"11:4 " + plain, "12:4 " + plain, "13:1 " + plain},
		"a: !!str 1":                               {"11:4 " + plain},
		"%YAML 1.2\n---\na: 1":                     {"11:1 " + plain},
		"? a\n: b":                                 {"11:1 keys that begin with ? are not read"},
		"a: 1\nb: 1\nc: 1\nd: 1":                   {"14:2 a mapping has more than 3 keys"},
		"a: [[[[1]]]]":                             {"11:7 the head is nested more than 3 levels deep"},
		"a:\n b:\n  c:\n   d:\n    e: 1":           {"15:6 the head is nested more than 4 levels deep"},
		"---\na: 1\n---\na: 1\n---\na: 1\n":        {"15:1 the head has more than 1 documents"},
		"a: [" + strings.Repeat("1, ", 60):         {"11:0 the head has more than 60 parts"},
		"a: 1\n\tb: 2":                             {"12:1 the head is not valid YAML: a tab is used for indentation: indent with spaces"},
		"a: b: c":                                  {"11:4 the head is not valid YAML: mapping value is not allowed in this context: a text that holds \": \" needs quotes around it, and all keys of a mapping begin in the same column"},
		"a: |\n b\n" + strings.Repeat(" \n\n", 25): nil,
		"a: |\n b\n" + strings.Repeat("\n", 1<<20) + "c: 1": {"63:0 the head has more than 50 empty lines in a row"},
		"a: |\r b\r" + strings.Repeat("\r", 1<<20) + "c: 1": {"11:0 the head has more than 50 empty lines in a row"},
		"a: 'b' == c": {"11:8 the head is not valid YAML: the value before this has ended: a text that begins with a quote or a bracket needs quotes around the whole of it"},
		"a: {{b}}":    {"11:5 the head is not valid YAML: could not find flow map content: a text that begins with { needs quotes around it"},
		"a: \"b\n":    {"11:4 the head is not valid YAML: could not find end character of double-quoted text"},
		"# nothing\n": nil,
	} {
		file, problems := Parse(text, strict)
		require.Equal(t, want == nil, file != nil, text)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Col, p.Message))
		}
		require.Equal(t, want, got, text)
	}
	_, problems := Parse("a: !x 1\nb: {<<: 1}", Rules{})
	require.Equal(t, []Problem{{Line: 1, Col: 4, Message: "tags such as !x are not read: quotes make a text of anything"},
		{Line: 2, Col: 5, Message: "merge keys (<<) are not read: write the keys out, or use an alias for the whole value"}}, problems)
	_, problems = Parse("a: [&x 1, *x]", strict)
	require.EqualError(t, AsError(problems), ":11: "+plain, "the line is printed once")
	_, problems = Parse("a: [", Rules{})
	require.Equal(t, []Problem{{Line: 1, Col: 4, Message: "this is not valid YAML: sequence end token ']' not found"}}, problems)
}

func TestDecode(t *testing.T) {
	text, problem := Decode([]byte("\xef\xbb\xbfa: ä\r\nb\t\n"), 100)
	require.Nil(t, problem)
	require.Equal(t, "a: ä\nb\t\n", text)
	for data, want := range map[string]Problem{
		"a\nb\xff":          {Line: 2, Message: "the line is not UTF-8"},
		"\xff\xfea\x00":     {Line: 1, Message: "the file is UTF-16: save it as UTF-8"},
		"a\n\nb\x01":        {Line: 3, Message: "the line holds the control character 0x01"},
		"a\x7f":             {Line: 1, Message: "the line holds the control character 0x7f"},
		repeated(1<<20 + 1): {Line: 1, Message: "the file is larger than 1 MiB, which is the most that is read"},
	} {
		_, problem := Decode([]byte(data), 1<<20)
		require.Equal(t, &want, problem)
	}
}

func TestKindOf(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Router": "Router", "a: 1\n---\nkind:  'Router' # x\r\n": "Router", "\ufeffkind: Router\n": "Router", "kind : Router": "Router",
		`{"kind": "Router", "a": 1}`: "Router", `{"a": 1,"kind":"Router"}`: "Router", "\ufeff{\n\t\"a\": 1,\n\t\"kind\":\"Router\"\n}": "Router", `"kind": Router`: "Router", "kind: Agent\nb: |\n  \"kind\": Router": "Agent",
		"# such as {\"kind\": \"Router\"}\nkind: Agent": "Agent", "a: {\"kind\": \"x\"}\nkind: Agent": "Agent",
		"": "", "a:\n  kind: Router": "", "# kind: Router": "", "a: kind": "", "mankind: Router": "", "kind:\n  a: 1": "",
	} {
		require.Equal(t, want, KindOf([]byte(text)), text)
	}
}

func repeated(n int) string { return strings.Repeat("a", n) }

// TestNodes reads a value of each kind, with its place.
func TestNodes(t *testing.T) {
	file, problems := Parse("# first\nmap: {b: [1]}\nblock:\n  c: |\n    two\n    lines\nword: w\n1: -2\nnone:\ntrue: false\nfloat: 1.5\nbig: 18446744073709551615\nexp: 1e-07\nnan: .nan\n", Rules{Before: 1})
	require.Empty(t, problems)
	require.Len(t, file.Documents, 1)
	doc := file.Documents[0]
	var got []string
	for i := range doc.Len() {
		p := doc.Pair(i)
		name, ok := p.Key.Name()
		require.True(t, ok)
		line, col := p.Value.Place()
		v, wrong := p.Value.Scalar()
		got = append(got, fmt.Sprintf("%s %d:%d %s %v %T %s", name, line, col, p.Value.Describe(), v, v, wrong))
	}
	require.Equal(t, []string{
		`map 3:6 a mapping <nil> <nil> the value cannot be read`,
		`block 5:3 a mapping <nil> <nil> the value cannot be read`,
		`word 8:7 the text "w" w string `,
		`1 9:4 the number -2 -2 int64 `,
		`none 10:6 nothing <nil> <nil> `,
		`true 11:7 the value false false bool `,
		`float 12:8 the number 1.5 1.5 float64 `,
		`big 13:6 the number 18446744073709551615 18446744073709551615 uint64 `,
		`exp 14:6 the number 1e-07 1e-07 json.Number `,
		`nan 15:6 the number .nan <nil> <nil> the number .nan has no JSON form`,
	}, got)
	text := doc.Pair(1).Value.Pair(0).Value
	words, _ := text.Text()
	require.Equal(t, "two\nlines\n", words)
	require.Equal(t, "|", text.Block())
	require.Equal(t, 5, text.Line())
	list := doc.Pair(0).Value.Pair(0).Value
	require.Equal(t, List, list.Kind())
	whole, ok := list.Item(0).Whole()
	require.True(t, ok)
	require.EqualValues(t, 1, whole)
	require.Equal(t, Nothing, list.Item(1).Kind())
	require.Equal(t, 1, Node{}.Line())
}

// TestAliases: each alias stands for the value of its anchor, which keeps its place.
func TestAliases(t *testing.T) {
	file, problems := Parse("a: &x {b: &y 1, c: *y}\nd: [*x]\n---\nx: &x 2\n", Rules{Depth: 2})
	require.Empty(t, problems)
	require.Equal(t, map[string]any{"a": map[string]any{"b": int64(1), "c": int64(1)}, "d": []any{map[string]any{"b": int64(1), "c": int64(1)}}},
		new(Decoder).Any(file.Documents[0]))
	require.Equal(t, 1, file.Documents[0].Pair(1).Value.Item(0).Line())
	require.Equal(t, map[string]any{"x": int64(2)}, new(Decoder).Any(file.Documents[1]))
	for text, want := range map[string]map[string]any{
		"&k a: 1\nb: *k":             {"a": int64(1), "b": "a"},
		"{&k a: &v b, *v : *k}":      {"a": "b", "b": "a"},
		"a: &x 1\nb: {c: 2, *x : 3}": {"a": int64(1), "b": map[string]any{"c": int64(2), "1": int64(3)}},
	} {
		file, problems := Parse(text, Rules{})
		require.Empty(t, problems, text)
		require.Equal(t, want, new(Decoder).Any(file.Documents[0]), text)
	}
	for text, want := range map[string][]Problem{
		"&k a: 1\n&k b: 2":                 {{Line: 2, Col: 1, Message: "the anchor &k is already on line 1"}},
		"a: *x\nb: *x\nc: &x 1":            {{Line: 1, Col: 4, Message: "the alias *x has no anchor &x before it"}},
		"a: &x {b: *x}":                    {{Line: 1, Col: 11, Message: "the alias *x has no anchor &x before it"}},
		"a: &x 1\nb: &x 2":                 {{Line: 2, Col: 4, Message: "the anchor &x is already on line 1"}},
		"a: &x 1\n---\nb: *x":              {{Line: 3, Col: 4, Message: "the alias *x has no anchor &x before it"}},
		"a: &x [1, 2]\nb: [*x, *x]":        {{Line: 1, Message: "aliases make the file more than 4 values larger"}},
		"a: &x [[1]]\nb: &y [*x]\nc: [*y]": {{Line: 1, Message: "aliases make the file more than 4 values larger"}},
	} {
		_, problems := Parse(text, Rules{Aliases: 4})
		require.Equal(t, want, problems, text)
	}
	_, problems = Parse("a: &x [1]\nb: &y [*x]\nc: &z [*y]\nd: [*z]", Rules{Depth: 2, Aliases: 100})
	require.Equal(t, []Problem{{Line: 1, Message: "aliases nest the file more than 4 levels deep"}}, problems)
}

// FuzzParse: whatever a text is, reading ends without a panic, and every problem and
// every value has a place in the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: [1, {b: c}]\n", "a: |\n b\n", "? a\n: b", "&a *a", "<<: *a", "!!x", "%", "\t", "{", "- - -", "a: 'b\n c'\n---\nd", "\r\n\r"} {
		f.Add(text)
	}
	for _, odd := range oddbytes.JSON() {
		f.Add("a: " + odd)
	}
	f.Fuzz(func(t *testing.T, data string) {
		text, problem := Decode([]byte(data), 64<<10)
		if problem != nil {
			require.LessOrEqual(t, problem.Line, strings.Count(data, "\n")+1)
			return
		}
		lines := strings.Count(text, "\n") + 1
		inside := func(line int) { require.True(t, line > 5 && line <= 5+lines, "%d of %d", line, lines) }
		file, problems := Parse(text, Rules{Before: 5, Tokens: 5000, Depth: 20, Keys: 100, Documents: 5, Aliases: 1000})
		require.Equal(t, file == nil, len(problems) > 0)
		for _, p := range problems {
			inside(p.Line)
			require.NotContains(t, p.Message, "cannot be read as YAML", "a panic")
		}
		var walk func(n Node)
		walk = func(n Node) {
			inside(n.Line())
			require.NotEmpty(t, n.Describe())
			if v, wrong := n.Scalar(); wrong == "" {
				_, err := json.Marshal(v)
				require.NoError(t, err)
			}
			for i := range n.Len() {
				if n.Kind() == List {
					walk(n.Item(i))
					continue
				}
				p := n.Pair(i)
				inside(p.Key.Line())
				walk(p.Value)
			}
		}
		if file != nil {
			for _, doc := range file.Documents {
				walk(doc)
			}
		}
	})
}
