package agentfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// write makes a folder of files and returns its path.
func write(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return dir
}

// problems loads a folder that must not load, and returns the lines without dir.
func problems(t *testing.T, dir string) []string {
	_, err := Load(dir, WithModel(resolve))
	var files *Error
	require.ErrorAs(t, err, &files)
	return strings.Split(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), "\n")
}

func loadOne(t *testing.T, text string) *Tree {
	tree, err := Load(write(t, map[string]string{"a.md": text}), WithModel(resolve))
	require.NoError(t, err)
	return tree
}

func prompt(t *testing.T, tree *Tree) string { return request(t, tree, tree.Index().Root()).System }

func TestBodyIsWordForWord(t *testing.T) {
	for text, want := range map[string]string{
		"---\n---\nOne line":                                       "One line",
		"---\n---\n\n \t\n  indented\n\nlast  \n\n\n":              "  indented\n\nlast  ",
		"---\n---\n---\nrule above\n---\nand below\n---\n":         "---\nrule above\n---\nand below\n---",
		"---\r\nname: x\r\n---\r\nWindows\r\n\r\nlines\r\n":        "Windows\n\nlines",
		"\ufeff---\nname: x\n---\nmarked":                          "marked",
		"---  \n---\t\ninvisible ends":                             "invisible ends",
		"---\n---":                                                 "",
		"---\n---\n<b>{{.X}} & \"ü\" 日本\t</b>":                     "<b>{{.X}} & \"ü\" 日本\t</b>",
		"---\n---\n## System Prompt\na\n## Behavior Guidelines\nb": "## System Prompt\na\n## Behavior Guidelines\nb",
	} {
		require.Equal(t, want, prompt(t, loadOne(t, text)), "%q", text)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	big := "---\nname: big\n---\n" + strings.Repeat("x", maxFile)
	for text, want := range map[string]string{
		"---\nname: a\n---\nok\nbad \xff\n": "a.md:5: the line is not UTF-8",
		"---\nname: a\n---\nok\nbad \x00\n": "a.md:5: the line holds the control character 0x00",
		"---\r\nname: \xe9\r\n---\r\n":      "a.md:2: the line is not UTF-8",
		"\xff\xfe-\x00-\x00-\x00\n\x00":     "a.md:1: the file is UTF-16: save it as UTF-8",
		big:                                 "a.md:1: the file is larger than 1 MiB, which is the most that is read",
		"---\ndescription: " + strings.Repeat("x", 40<<10) + "\n---\n": "a.md:1: the front matter is larger than 32 KiB: long texts belong into the body",
		"---\r\nname: a\r\nnmae: b\r\n---\r\n":                         `a.md:3: unknown key "nmae"; did you mean "name"?`,
		"\ufeff---\nnmae: b\n---\n":                                    `a.md:2: unknown key "nmae"; did you mean "name"?`,
		"---\nname: a":                                                 "a.md:1: the front matter that begins here has no end: a line --- is missing",
	} {
		require.Equal(t, []string{want}, problems(t, write(t, map[string]string{"a.md": text})), "%.80q", text)
	}
	// Neither the size nor the coding of a file that is no agent matters.
	dir := write(t, map[string]string{"a.md": "---\nignore: [BIG.md, latin.md]\n---\n", "BIG.md": strings.Repeat("x\n", 5<<20), "latin.md": "caf\xe9"})
	_, err := Load(dir, WithModel(resolve))
	require.NoError(t, err)
}

func TestPaths(t *testing.T) {
	dir := write(t, map[string]string{"a.md": "---\n---\n"})
	file := filepath.Join(dir, "a.md")
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):      "there is no such folder",
		file:                            "this is a file: give the folder that holds the agents, or a router or a graph of agents, whose file ends in .yaml or .yml",
		filepath.Join(dir, "none.yaml"): "there is no such file",
	} {
		problems, err := Check(path)
		require.NoError(t, err)
		require.Equal(t, []Problem{{File: path, Message: want}}, problems)
		_, err = Load(path, WithModel(resolve))
		require.EqualError(t, err, path+": "+want)
	}
	_, err := Check("")
	require.ErrorContains(t, err, "the path is empty")
	_, err = LoadFS(nil, ".")
	require.ErrorContains(t, err, "the file system is nil")

	t.Chdir(dir)
	require.NoError(t, os.WriteFile("a.md", []byte("---\nx: y\n---\n"), 0o644))
	found, err := Check(".")
	require.NoError(t, err)
	require.Equal(t, []Problem{{File: "a.md", Line: 2, Col: 1, Message: found[0].Message}}, found)
	tree, err := LoadFS(fstest.MapFS{"b.md": {Data: []byte("---\n---\n")}}, "./", WithModel(resolve))
	require.NoError(t, err)
	source, ok := tree.Source("b")
	require.True(t, ok)
	require.Equal(t, Source{"b.md", 1}, source)
}

func TestTooDeep(t *testing.T) {
	dir := write(t, map[string]string{strings.Repeat("d/", 40) + "a.md": "---\n---\n", "b.md": "---\n---\n"})
	require.Contains(t, problems(t, dir)[0], "nested more than 32 levels deep")
}

func TestHistoryForms(t *testing.T) {
	for text, want := range map[string]view.Policy{
		"full": view.Full(), "text_only": view.TextOnly(), "own": view.Own(),
		"last_turns:6": view.LastTurns(6), `"last_turns: 6"`: view.LastTurns(6),
		"{last_turns: 6}": view.LastTurns(6), "\n  last_turns: 6": view.LastTurns(6),
	} {
		r := &report{given: func(f string) string { return f }}
		d := parse(r, "a.md", []byte("---\nhistory: "+text+"\n---\n"))
		require.Empty(t, r.problems, text)
		require.Equal(t, want, d.history, text)
	}
}

// TestModelsAndTools shows that a name is resolved once, that summarize_text
// uses the agent's model, and that registered tools come before built-in ones.
func TestModelsAndTools(t *testing.T) {
	dir := write(t, map[string]string{
		"a.md":   "---\nmodel: m1\ntools: [summarize_text]\n---\n",
		"a/b.md": "---\nmodel: m1\n---\n", "a/c.md": "---\n---\n", "a/d.md": "---\n---\n",
	})
	asked := map[string]int{}
	count := func(name string) (llm.Model, error) { asked[name]++; return namedModel(name), nil }
	tree, err := Load(dir, WithModel(count))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"m1": 1, "": 1}, asked)
	require.Same(t, tree.Index().Root().Agent, tree.Root())

	mine, err := tools.Func("summarize_text", "Mine.", func(tools.Context, struct{}) (string, error) { return "", nil })
	require.NoError(t, err)
	tree, err = Load(dir, WithModel(count), WithTools(mine))
	require.NoError(t, err)
	require.Equal(t, []tools.Tool{mine}, tree.Root().(*llmagent.Agent).Tools())
}

// TestModelList: a list is a chain, which agents that name the same models share; every
// name is checked where it stands.
func TestModelList(t *testing.T) {
	dir := write(t, map[string]string{
		"a.md":   "---\nmodel: [m1, m2]\ntools: [summarize_text]\n---\n",
		"a/b.md": "---\nmodel: [m1, m2]\n---\n", "a/c.md": "---\nmodel: [m2, m1]\n---\n", "a/d.md": "---\nmodel: [m1]\n---\n",
	})
	tree, err := Load(dir, WithModel(resolve))
	require.NoError(t, err)
	models := func(name string) (names []string) {
		m := tree.Index().Node(name).Agent.(*llmagent.Agent).Model()
		if chain, ok := m.(*policy.Fallback); ok {
			for _, m := range chain.Models() {
				names = append(names, m.Name())
			}
			return names
		}
		return []string{m.Name()}
	}
	require.Equal(t, []string{"m1", "m2"}, models("a"))
	require.Equal(t, []string{"m2", "m1"}, models("c"))
	require.Equal(t, []string{"m1"}, models("d"))
	require.Same(t, tree.Root().(*llmagent.Agent).Model(), tree.Index().Node("b").Agent.(*llmagent.Agent).Model())

	for front, want := range map[string]string{
		"model: [m1, bad]": `a.md:2: the model "bad" cannot be used: no`, "model: []": "a.md:2: model is an empty list",
		"model: [m1, m1]": `names "m1" twice`, "model: [m1, 7]": "one of them is", "model: {}": "a text or a list of texts"} {
		dir := write(t, map[string]string{"a.md": "---\n" + front + "\n---\n"})
		_, err := Load(dir, WithModel(func(name string) (llm.Model, error) {
			if name == "bad" {
				return nil, errors.New("no")
			}
			return namedModel(name), nil
		}))
		require.ErrorContains(t, err, want, front)
	}
}

func TestOptions(t *testing.T) {
	dir := write(t, map[string]string{"a.md": "---\n---\n", "a/b.md": "---\nmodel: m\n---\n"})
	_, err := Load(dir)
	require.ErrorContains(t, err, "use WithModel")
	found, err := Check(dir)
	require.NoError(t, err)
	require.Empty(t, found)

	// The default model is no file's fault; a model that a file names is.
	cause := errors.New("set OPENAI_MODEL")
	_, err = Load(dir, WithModel(func(string) (llm.Model, error) { return nil, cause }))
	var files *Error
	require.ErrorAs(t, err, &files)
	require.Equal(t, filepath.Join(dir, "a", "b.md")+`:2: the model "m" cannot be used: set OPENAI_MODEL`, err.Error())
	noDefault := WithModel(func(name string) (llm.Model, error) {
		if name == "" {
			return nil, cause
		}
		return namedModel(name), nil
	})
	_, err = Load(dir, noDefault)
	require.ErrorIs(t, err, cause)
	require.NotErrorAs(t, err, &files)
	_, err = Check(dir, noDefault)
	require.ErrorIs(t, err, cause)
	_, err = Load(dir, WithModel(func(string) (llm.Model, error) { return nil, nil }))
	require.ErrorContains(t, err, "no such model")

	_, err = Load(dir, WithModel(resolve), WithTools(nil))
	require.ErrorContains(t, err, "tool 0 is nil")
	_, err = Load(dir, WithModel(resolve), testTools(t, "x", "x"))
	require.ErrorContains(t, err, `"x" is registered twice`)
}

// TestColumns shows where in a line a problem is, counted in characters.
func TestColumns(t *testing.T) {
	dir := write(t, map[string]string{"a.md": "---\ntools: [\"é\", nix]\n  \ntransfer: {parent: 1, pears: true}\nsettings:\n  top_p: 3\n---\n"})
	found, err := Check(dir)
	require.NoError(t, err)
	var at []pos
	for _, p := range found {
		at = append(at, pos{p.Line, p.Col})
	}
	require.Equal(t, []pos{{2, 9}, {2, 14}, {4, 20}, {4, 23}, {6, 10}}, at)
}

func TestOrderIsStable(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range strings.Split("q w e r t y u i o p a s d f g h j k l", " ") {
		files[name+".md"] = &fstest.MapFile{Data: []byte("---\nx: 1\ny: 2\nsubagents: [q, nobody]\ntools: [z]\n---\n")}
	}
	_, first := LoadFS(files, ".", WithModel(resolve))
	require.Error(t, first)
	for range 20 {
		_, again := LoadFS(files, ".", WithModel(resolve))
		require.Equal(t, first, again)
	}
}

// TestReferenceIsCurrent compares the table of the page with the keys of the parser: their names,
// their order, and the example, or the type, of each.
func TestReferenceIsCurrent(t *testing.T) {
	page := must.Get(os.ReadFile("../docs/agentfile.md"))
	_, table, _ := strings.Cut(string(page), "| key | example | default | meaning |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want, have []string
	var rows func(prefix string, keys []yamldoc.Key)
	rows = func(prefix string, keys []yamldoc.Key) {
		for _, k := range keys {
			value := k.Type
			if k.Example != "" {
				value = "`" + k.Example + "`"
			}
			want = append(want, "| `"+prefix+k.Name+"` | "+value+" |")
			switch k.Name {
			case "history", "routes", "rules", "specialists", "intent": // whose keys other pages explain
			default:
				rows(prefix+k.Name+".", k.Keys)
			}
		}
	}
	rows("", keys(newParser(&report{}, &definition{router: &routerKeys{}})))
	for _, line := range strings.Split(strings.ReplaceAll(table, "| `false` |", "| `true` |"), "\n") {
		cells := strings.SplitN(line, " | ", 3)
		have = append(have, cells[0]+" | "+cells[1]+" |")
	}
	require.Equal(t, want, have, "the table of docs/agentfile.md has other keys than the parser")
}

// TestHelpdesk loads the example, which has no Go code of its own.
func TestHelpdesk(t *testing.T) {
	tree, err := Load("../examples/helpdesk", WithModel(resolve))
	require.NoError(t, err)
	var paths []string
	for n := range tree.Index().Walk() {
		paths = append(paths, n.Path)
		require.NotEmpty(t, n.Agent.Description())
		require.NotEmpty(t, request(t, tree, n).System)
	}
	require.Equal(t, []string{"support", "support/billing", "support/tech", "support/tech/auth", "support/tech/database",
		"support/tech/network", "support/account"}, paths)
	require.IsType(t, &llmagent.Agent{}, tree.Root())
	require.Equal(t, agent.TransferPolicy{}, tree.Root().(*llmagent.Agent).Properties().Policy)
	source, _ := tree.Source("auth")
	require.Equal(t, Source{filepath.FromSlash("../examples/helpdesk/tech/auth.md"), 2}, source)
}

// TestStateKey: all keys or those that are listed, which have to stand in the body.
func TestStateKey(t *testing.T) {
	for front, wrong := range map[string]string{"state: true": "", "state: [name]": "", "state: false": "", "": "",
		"state: [nmae]": `a.md:2: state names "nmae", and the body does not hold {nmae}`, "state: 7": "true, or a list of names"} {
		dir := write(t, map[string]string{"a.md": "---\n" + front + "\n---\nHello {name} and {other?}.\n"})
		tree, err := Load(dir, WithModel(resolve))
		if wrong != "" {
			require.ErrorContains(t, err, wrong)
			continue
		}
		require.NoError(t, err)
		r := must.Get(runner.New(tree.Root(), session.NewMemory()))
		preview, err := r.Preview(t.Context(), session.ID("s"), "a")
		if front == "state: true" || front == "state: [name]" {
			require.ErrorAs(t, err, new(*llmagent.StateError))
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "Hello {name} and {other?}.", strings.TrimSpace(preview.System))
	}
}

// A change holds instead of what a file says, and one that cannot be made is an error.
func TestChange(t *testing.T) {
	fsys := fstest.MapFS{"front.md": {Data: []byte("---\nmodel: small\nsubagents: [billing, flow]\n---\nYou route.\n")}, "billing.md": {Data: []byte("---\ndescription: Bills\n---\nYou bill.\n")},
		"flow.md": {Data: []byte("---\nkind: sequential\nagents: [x]\n---\n")}, "x.md": {Data: []byte("---\n---\nYou wait.\n")}}
	load := func(opts ...Option) (*Tree, error) { return LoadFS(fsys, ".", append(opts, WithModel(resolve))...) }
	text := func(s string) *string { return &s }
	tree, err := load(WithChange("front", Change{Instructions: text("You send to billing."), Model: text("large")}), WithChange("billing", Change{Description: text("Money")}))
	require.NoError(t, err)
	front, ok := agent.As[*llmagent.Agent](tree.Root())
	require.True(t, ok)
	require.Equal(t, "You send to billing.", front.Instructions())
	require.Equal(t, "large", front.Model().Name())
	billing, ok := agent.As[*llmagent.Agent](tree.Index().Node("billing").Agent)
	require.True(t, ok)
	require.Equal(t, []string{"Money", "You bill."}, []string{billing.Description(), billing.Instructions()})
	for name, c := range map[string]Change{"nobody": {Description: text("x")}, "flow": {Instructions: text("x")}} {
		_, err := load(WithChange(name, c))
		require.ErrorContains(t, err, strconv.Quote(name))
	}
	_, err = load(WithChange("flow", Change{Description: text("One after the other")}))
	require.NoError(t, err)
}
