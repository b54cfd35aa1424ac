package agentfile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata and docs/agentfile.md")

// namedModel is a model that knows its name and must never be asked.
type namedModel string

func (m namedModel) Name() string { return string(m) }
func (m namedModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	panic("a model was called while a tree was loaded")
}

// resolve knows every model but those whose name begins with "no-".
func resolve(name string) (llm.Model, error) {
	if strings.HasPrefix(name, "no-") {
		return nil, errors.New("the endpoint does not serve it")
	}
	return namedModel(name), nil
}

// testEnv holds the variables that remote agents in testdata name.
func testEnv(name string) string {
	return map[string]string{
		"BILLING_TOKEN": "s3cret", "SHOP_KEY": "s3cret", "TWO_LINES": "s3cret\n",
		"SHOP_URL": "https://ann:s3cret@shop.example.com", "LOGIN_URL": "https://login.example.com/token",
	}[name]
}

// testSet stands for the tools of a server of the Model Context Protocol.
type testSet struct{ MCPServer }

func (testSet) Tools(context.Context) (*tools.Registry, error) { return nil, nil }

func testServer(s MCPServer) (tools.Set, error) {
	if s.Command == "no-such" {
		return nil, errors.New("its prefix is bad")
	}
	return testSet{s}, nil
}

func testTools(t testing.TB, names ...string) Option {
	list := make([]tools.Tool, 0, len(names))
	for _, name := range names {
		tool := must.Get(tools.Func(name, "A tool.", func(tools.Context, struct {
			ID     string  `json:"id,omitempty"`
			Amount float64 `json:"amount,omitempty"`
		}) (string, error) {
			return "", nil
		}))
		list = append(list, tool)
	}
	return WithTools(list...)
}

// TestGolden loads each folder in testdata/*.txtar, or the file in it that the
// comment's last line names after "load". The archive's last file is what must come of
// it: "problems", or "tree".
func TestGolden(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.txtar"))
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			fsys, want := fstest.MapFS{"agents": {Mode: os.ModeDir | 0o755}}, txtar.File{}
			var inputs []txtar.File
			for _, f := range archive.Files {
				if f.Name == "problems" || f.Name == "tree" {
					want = f
					continue
				}
				inputs = append(inputs, f)
				fsys["agents/"+f.Name] = &fstest.MapFile{Data: f.Data}
			}
			opts := []Option{WithModel(resolve), testTools(t, "lookup_order", "refund", "billing", agent.TransferTool), WithGetenv(testEnv), WithMCP(testServer), WithGuards(agent.Guard{Name: "no-cards"}, agent.Guard{Name: "polite"})}

			given := "agents"
			if _, file, ok := strings.Cut(string(archive.Comment), "\nload "); ok {
				given += "/" + strings.TrimSpace(file)
			}
			got := txtar.File{Name: "tree"}
			tree, err := LoadFS(fsys, given, opts...)
			if err != nil {
				got = txtar.File{Name: "problems", Data: []byte(err.Error() + "\n")}
			} else {
				got.Data = []byte(draw(t, tree))
			}
			if *update {
				archive.Files = append(inputs, got)
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
				return
			}
			require.Equal(t, want.Name+"\n"+string(want.Data), got.Name+"\n"+string(got.Data))
			require.NotContains(t, string(got.Data), "s3cret")

			// The same folder on a disk gives the same problems, below its path.
			var files *Error
			var problems []Problem
			if errors.As(err, &files) {
				problems = files.Problems
			}
			dir := filepath.Join(t.TempDir(), "agents")
			require.NoError(t, os.CopyFS(dir, must.Get(fsys.Sub("agents"))))
			onDisk, err := Check(dir+strings.TrimPrefix(given, "agents"), opts...)
			require.NoError(t, err)
			for i, p := range onDisk {
				require.True(t, strings.HasPrefix(p.File, dir), p.File)
				onDisk[i].File = filepath.ToSlash("agents" + strings.TrimPrefix(p.File, dir))
				onDisk[i].Message = strings.ReplaceAll(strings.ReplaceAll(p.Message, dir, "agents"), `agents\`, "agents/")
			}
			require.Equal(t, problems, onDisk)
		})
	}
}

// draw writes what a tree's agents are and what their models would read.
func inner(a agent.Agent) string {
	var names []string
	for _, child := range agent.PropertiesOf(a).Inner {
		name := child.Name()
		if of := agent.PropertiesOf(child); of.Flow != "" {
			name += " " + of.Flow + " (" + inner(child) + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func draw(t *testing.T, tree *Tree) string {
	var b strings.Builder
	for n := range tree.Index().Walk() {
		source, ok := tree.Source(n.Agent.Name())
		require.True(t, ok)
		fmt.Fprintf(&b, "%s%s (%s:%d)\n", strings.Repeat("  ", n.Depth), n.Agent.Name(), source.File, source.Line)
		line := func(what, value string) {
			if value != "" {
				fmt.Fprintf(&b, "%s  %s: %s\n", strings.Repeat("  ", n.Depth), what, value)
			}
		}
		line("description", n.Agent.Description())
		for _, g := range n.Guards() {
			line("guard", g.Name)
		}
		if b := n.Properties.Budgets; b != (agent.Budgets{}) {
			line("budgets", fmt.Sprintf("%v", b))
		}
		for _, route := range n.Routes() {
			line("route", fmt.Sprintf("%s, always: %t", route.To.Agent.Name(), route.When == nil))
		}
		if a, ok := agent.As[interface{ Graph() *agentgraph.Graph }](n.Agent); ok {
			for _, n := range a.Graph().Nodes {
				line("node", n.ID+" "+n.Ref)
			}
			continue
		}
		if n.Properties.Flow != "" {
			line(n.Properties.Flow, inner(n.Agent))
			continue
		}
		if a, ok := agent.As[interface{ Toolsets() []tools.Set }](n.Agent); ok {
			for _, s := range a.Toolsets() {
				line("server", strings.ReplaceAll(fmt.Sprintf("%+v", s), "s3cret", "SECRET"))
			}
		}
		if a, ok := agent.As[interface{ CardURL() string }](n.Agent); ok {
			line("remote", a.CardURL())
			continue
		}
		if r, ok := agent.As[*router.Router](n.Agent); ok {
			for _, rule := range r.Rules() {
				line("rule", fmt.Sprintf("%s: %s (%s)", rule.When, rule.To, rule.Reason))
			}
			line("default", fmt.Sprintf("%s, sticky: %t", r.Default(), r.Sticky()))
			for _, child := range n.Children() {
				if child.Edge.OnError != "" {
					line("after an error of "+child.Agent.Name(), child.Edge.OnError)
				}
			}
			line("a person", fmt.Sprint(n.Human() != nil))
			continue
		}
		a := n.Agent.(*llmagent.Agent)
		req := request(t, tree, n)
		prompt := req.System
		for _, form := range []transfer.Tools{transfer.OneTool, transfer.ToolPerTarget} {
			_, text := transfer.DefaultForm(form).Offer(n, n.Targets(), "")
			prompt = strings.TrimSuffix(strings.TrimSuffix(prompt, text), "\n\n")
		}
		var offered, targets []string
		for _, s := range req.Tools {
			offered = append(offered, s.Name)
		}
		for _, target := range n.Targets() {
			targets = append(targets, target.Agent.Name())
		}
		line("model", a.Model().Name())
		line("tools", strings.Join(offered, ", "))
		line("may transfer to", strings.Join(targets, ", "))
		line("prompt", fmt.Sprintf("%q", prompt))
		line("settings", settings(req.Settings))
	}
	return b.String()
}

func settings(s llm.Settings) string {
	var parts []string
	add := func(format string, v any) { parts = append(parts, fmt.Sprintf(format, v)) }
	if s.Temperature != nil {
		add("temperature %g", *s.Temperature)
	}
	if s.TopP != nil {
		add("top_p %g", *s.TopP)
	}
	if s.MaxTokens != 0 {
		add("max_tokens %d", s.MaxTokens)
	}
	if s.Stop != nil {
		add("stop %q", s.Stop)
	}
	if s.ToolChoice != "" {
		add("tool_choice %s", s.ToolChoice)
	}
	if s.ParallelToolCalls != nil {
		add("parallel_tool_calls %t", *s.ParallelToolCalls)
	}
	if s.LeakedCalls != "" {
		add("leaked_calls %s", s.LeakedCalls)
	}
	if s.ResponseFormat != nil {
		add("response_format %s", s.ResponseFormat.Name+" "+string(s.ResponseFormat.Schema))
	}
	return strings.Join(parts, ", ")
}

// request returns what an agent's model would be asked in an empty session.
func request(t *testing.T, tree *Tree, n *agent.Node) *llm.Request {
	inv := agent.NewInvocation(agent.InvocationParams{Node: n, Tree: tree.Index(), Session: emptySession{}})
	_, req, err := n.Agent.(*llmagent.Agent).NextRequest(t.Context(), inv)
	require.NoError(t, err)
	return req
}

type emptySession struct{}

func (emptySession) Key() agent.SessionKey               { return agent.SessionKey{} }
func (emptySession) Seq() int64                          { return 0 }
func (emptySession) Turns() agent.Turns                  { return agent.Turns{} }
func (emptySession) State(string) (any, bool)            { return nil, false }
func (emptySession) Memo(key any, create func() any) any { return create() }
func (emptySession) File(context.Context, string) (*event.File, []byte, error) {
	return nil, nil, agent.ErrNoFile
}
func (emptySession) Events(context.Context, int64) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}
