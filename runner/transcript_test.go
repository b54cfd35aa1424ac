package runner_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
	"github.com/agentarbor/arbor/workflowagent"
)

var update = flag.Bool("update", false, "rewrite the expected events and wire of the transcripts")

// A transcript is a txtar file: the agents of a tree, what their models answer,
// what the user says, and then what must come out: the stored events and the
// requests on the wire. Each is played six times, with the models in process and
// behind a real HTTP endpoint, by chat completions and by the Responses API, streamed and
// not, and must come out the same.
//
//	-- agents --       one a line, children indented: NAME [parent] [peers] [back] [each] [decide[=MODEL]] [asks] [TOOL…] [| DESCRIPTION];
//	                   with the word tool it is an agent tool of its parent, with sequential, parallel or loop a workflow of its children,
//	                   with graph one whose nodes are its children, one behind the other, which ask first if they say human
//	-- script --       see package llm/scripted
//	-- user --         one message a line; or /approve CALL, or ? for the first one that waits, /deny CALL REASON, /answer CALL JSON, /resume, in a process of its own
//	-- events --       written by -update
//	-- wire --         written by -update
type transcript struct {
	file    string
	archive *txtar.Archive
}

func (tr *transcript) section(name string) string {
	for _, f := range tr.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func (tr *transcript) set(name, data string) {
	for i, f := range tr.archive.Files {
		if f.Name == name {
			tr.archive.Files[i].Data = []byte(data)
			return
		}
	}
	tr.archive.Files = append(tr.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

func transcripts(t testing.TB) []*transcript {
	files, err := filepath.Glob("testdata/*/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []*transcript
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		all = append(all, &transcript{file, archive})
	}
	return all
}

// testTools are the tools that agents of transcripts can have. Tools named
// second… wait for one that is named first… so that parallel calls settle in a
// known order.
func testTools(t testing.TB) *tools.Registry {
	type in struct {
		ID int `json:"id,omitempty"`
	}
	tool := func(name string, f func(tools.Context, in) (any, error)) tools.Tool {
		made, err := tools.Func(name, "Does "+name+".", f)
		require.NoError(t, err)
		return made
	}
	var firsts sync.Map // run → channel closed by "first"
	gate := func(ctx tools.Context) chan struct{} {
		run, _, _ := strings.Cut(ctx.IdempotencyKey(), "/")
		ch, _ := firsts.LoadOrStore(run, make(chan struct{}))
		return ch.(chan struct{})
	}
	exit, err := workflowagent.ExitTool()
	require.NoError(t, err)
	pay, err := tools.Func("pay", "Does pay.", func(tools.Context, in) (any, error) { return "paid", nil }, tools.NeedsApproval())
	require.NoError(t, err)
	r, err := tools.NewRegistry(exit,
		tool("lookup", func(_ tools.Context, in in) (any, error) { return map[string]any{"id": in.ID, "amount": 19}, nil }),
		tool("broken", func(tools.Context, in) (any, error) { return nil, errors.New("the database is on fire") }),
		tool("panics", func(tools.Context, in) (any, error) { panic("boom") }),
		tool("remember", func(ctx tools.Context, in in) (any, error) { ctx.Set("seen", in.ID); return "noted", nil }),
		tool("first", func(ctx tools.Context, in in) (any, error) {
			// Its own result is stored after this returns; second waits a little longer
			// for that by reading the state that comes with it.
			ctx.Set("turn:first", true)
			close(gate(ctx))
			return "first", nil
		}),
		tool("second", func(ctx tools.Context, in in) (any, error) {
			select {
			case <-gate(ctx):
			case <-ctx.Done():
			}
			for ctx.Err() == nil { // the store tells nobody; the result is there within microseconds
				if _, ok := ctx.Get("turn:first"); ok {
					return "second", nil
				}
				time.Sleep(time.Microsecond)
			}
			return nil, ctx.Err()
		}),
		tool("ask", func(ctx tools.Context, _ in) (any, error) {
			return ctx.Ask("How many?", json.RawMessage(`{"type":"integer"}`))
		}),
		pay,
	)
	require.NoError(t, err)
	return r
}

// parseTree builds the tree of a transcript. The options are those of all agents.
func parseTree(t testing.TB, text string, model func(name string) llm.Model, all ...llmagent.Option) agent.Agent {
	type spec struct {
		depth int
		name  string
		desc  string
		words []string
		kids  []agent.Agent
		tools []tools.Tool
		nodes []*spec
	}
	registry := testTools(t)
	build := func(s *spec) agent.Agent {
		for kind, make := range map[string]func(string, string, []agent.Agent, ...workflowagent.Option) (agent.Agent, error){
			"sequential": workflowagent.Sequential, "parallel": workflowagent.Parallel, "loop": workflowagent.Loop} {
			if slices.Contains(s.words, kind) {
				a, err := make(s.name, s.desc, s.kids)
				require.NoError(t, err)
				return a
			}
		}
		if slices.Contains(s.words, "graph") {
			b, last := agentgraph.NewBuilder(s.name), ""
			for i, node := range s.nodes {
				var opts []agentgraph.NodeOption
				if slices.Contains(node.words, "human") {
					opts = append(opts, agentgraph.AskFirst("Shall it?"))
				}
				b.Node(node.name, s.kids[i], opts...)
				if last != "" {
					b.Edge(last, node.name)
				}
				last = node.name
			}
			g, err := b.Build(agentgraph.WithDescription(s.desc))
			require.NoError(t, err)
			return g
		}
		opts := slices.Concat([]llmagent.Option{llmagent.WithTransferTools(transfer.OneTool), llmagent.WithDescription(s.desc), llmagent.WithSubAgents(s.kids...),
			llmagent.WithTools(s.tools...)}, all)
		var policy agent.TransferPolicy
		for _, w := range s.words {
			if w, other, ok := strings.Cut(w, "="); ok && w == "decide" {
				opts = append(opts, llmagent.WithDecision(model(other)))
				continue
			}
			switch w {
			case "tool", "human":
			case "asks":
				opts = append(opts, llmagent.WithTransferApproval())
			case "mcp":
				server, err := mcpServer(func(string, string) {})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, server.Close()) })
				opts = append(opts, llmagent.WithToolset(server))
			case "decide":
				opts = append(opts, llmagent.WithDecision(nil))
			case "parent":
				policy.AllowTransferToParent = true
			case "peers":
				policy.AllowTransferToPeers = true
			case "back":
				policy.AllowTransferBack = true
			case "each":
				opts = append(opts, llmagent.WithTransferTools(transfer.ToolPerTarget))
			default:
				require.NotNil(t, registry.Get(w), w)
				opts = append(opts, llmagent.WithTools(registry.Get(w)))
			}
		}
		a, err := llmagent.New(s.name, "You are "+s.name+".", model(s.name), append(opts, llmagent.WithTransferPolicy(policy))...)
		require.NoError(t, err)
		return a
	}
	var open []*spec
	closeTo := func(depth int) {
		for len(open) > 1 && open[len(open)-1].depth >= depth {
			last := open[len(open)-1]
			open = open[:len(open)-1]
			parent, built := open[len(open)-1], build(last)
			if slices.Contains(last.words, "tool") {
				made, err := agenttool.New(built)
				require.NoError(t, err)
				parent.tools = append(parent.tools, made)
				continue
			}
			parent.kids, parent.nodes = append(parent.kids, built), append(parent.nodes, last)
		}
	}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, desc, _ := strings.Cut(line, "|")
		words := strings.Fields(head)
		s := &spec{depth: len(line) - len(strings.TrimLeft(line, " ")), name: words[0], words: words[1:], desc: strings.TrimSpace(desc)}
		closeTo(s.depth)
		open = append(open, s)
	}
	closeTo(1)
	require.Len(t, open, 1, "one root")
	return build(open[0])
}

// counter makes ids that are the same in every run.
func counter() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return "i" + strconv.Itoa(n)
	}
}

// checked refuses requests that an endpoint would refuse.
type checked struct{ llm.Model }

func (m checked) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if err := view.Check(req); err != nil {
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "wire check: " + err.Error()})
		}
	}
	return m.Model.Generate(ctx, req)
}

type mode struct {
	name         string
	http, stream bool
	responses    bool // the other protocol of OpenAI's
	behind       bool // a router
}

var modes = []mode{{name: "in process"}, {name: "in process, streamed", stream: true}, {name: "http", http: true}, {name: "http, streamed", http: true, stream: true},
	{name: "responses", http: true, responses: true}, {name: "responses, streamed", http: true, responses: true, stream: true}}

// play runs a transcript and returns what came out.
func (tr *transcript) play(t *testing.T, m mode, all ...llmagent.Option) (events, wire string) {
	var mu sync.Mutex
	var requests bytes.Buffer
	script, err := scripted.Parse([]byte(tr.section("script")))
	require.NoError(t, err)
	recorded := func(name string) llm.Model {
		return recorder{script.Model(name), func(req *llm.Request) {
			mu.Lock()
			defer mu.Unlock()
			writeRequest(&requests, name, req)
			if want, system := targetLines(req); system != want {
				fmt.Fprintf(&requests, "  the system text lists %q\n", system)
			}
		}}
	}
	model := func(name string) llm.Model { return checked{recorded(name)} }
	if m.http {
		server, err := endpoint.Start(func(name string) (llm.Model, bool) { return recorded(name), true })
		require.NoError(t, err)
		defer server.Close()
		model = func(name string) llm.Model {
			opts := []openai.Option{openai.WithBaseURL(server.URL()), openai.WithRetries(0)}
			if m.responses {
				opts = append(opts, openai.WithResponses(), openai.WithReasoningEcho())
			}
			client, err := openai.New(name, opts...)
			require.NoError(t, err)
			return checked{client}
		}
	}
	opts := []runner.Option{runner.WithIDs(counter())}
	if m.stream {
		opts = append(opts, runner.WithStreaming())
	}
	root := parseTree(t, tr.section("agents"), model, all...)
	if m.behind {
		root, err = behindRouter(root)
		require.NoError(t, err)
	}
	store := sessiontest.Memory(t)
	r, err := runner.New(root, store, opts...)
	require.NoError(t, err)

	key := session.ID("s1")
	var out strings.Builder
	depth := depths{}
	for message := range strings.Lines(tr.section("user")) {
		var stored []*event.Event
		var failed string
		deltas := make(map[string]string)
		turn := r.Run(context.Background(), key, llm.UserText(strings.TrimSuffix(message, "\n")))
		if decision, ok := strings.CutPrefix(message, "/"); ok {
			r, err = runner.New(root, store, opts...)
			require.NoError(t, err)
			if pending, err := r.Pending(context.Background(), key); err == nil && len(pending) > 0 { // whose id a graph has made
				decision = strings.Replace(decision, "?", pending[0].ToolCallID, 1)
			}
			turn = r.Resume(context.Background(), key, decisionsOf(decision)...)
		}
		for e, err := range turn {
			if err != nil {
				failed = fmt.Sprintf("error: %s\n", errorNames(err))
				continue
			}
			if e.Partial {
				deltas[e.ID] += partialText(e)
				continue
			}
			// Deltas of inner scopes that come later than the whole are dropped, and a workflow has no model.
			if d := partialText(e); m.stream && d != "" && e.Scope == "" && strings.Contains(tr.section("script"), e.Agent+": ") {
				require.Equal(t, d, deltas[e.ID], "deltas and the complete event differ")
			}
			stored = append(stored, e)
		}
		for _, e := range stored {
			var line strings.Builder
			writeEvent(&line, e, depth.of(e))
			out.WriteString(approvalID.ReplaceAllString(line.String(), " approve_agent"))
		}
		out.WriteString(failed)
	}
	require.NoError(t, script.Done())
	checkLog(t, r, load(t, r, key))
	return out.String(), requests.String()
}

// approvalID is the id of a call that a graph makes, which differs with streaming.
var approvalID = regexp.MustCompile(` #i\d+( permission)? approve_agent`)

// decisionsOf reads a line of the user's that decides.
func decisionsOf(line string) []runner.Decision {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	call, rest, _ := strings.Cut(rest, " ")
	switch verb {
	case "approve":
		return []runner.Decision{runner.Approve(call)}
	case "deny":
		return []runner.Decision{runner.Deny(call, rest)}
	case "answer":
		return []runner.Decision{runner.Answer(call, json.RawMessage(rest))}
	}
	return nil
}

// depths says how many scopes are around an event.
type depths map[string]int

func (d depths) of(e *event.Event) int {
	if _, ok := e.Data.(*event.HarnessStart); ok && e.Scope != "" && d[e.Scope] == 0 {
		d[e.Scope] = d[cmp.Or(event.ParentRun(e.Scope), e.ParentID)] + 1
	}
	d[e.RunID] = d[e.Scope]
	if e.Type() == event.TypeToolCall {
		d[e.ID] = d[e.Scope]
	}
	return d[e.Scope]
}

func partialText(e *event.Event) string {
	switch d := e.Data.(type) {
	case *event.Text:
		return d.Content
	case *event.Reasoning:
		return d.Content
	}
	return ""
}

type recorder struct {
	llm.Model
	record func(*llm.Request)
}

func (r recorder) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	r.record(req)
	return r.Model.Generate(ctx, req)
}

func errorNames(err error) string {
	var names []string
	for name, target := range map[string]error{"ErrTransferRejected": agent.ErrTransferRejected, "ErrTransferLimit": agent.ErrTransferLimit,
		"ErrLimit": agent.ErrLimit, "ErrOutputTruncated": agent.ErrOutputTruncated, "ErrEmptyAnswer": agent.ErrEmptyAnswer,
		"ErrRepeatedCall": agent.ErrRepeatedCall} {
		if errors.Is(err, target) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var re *agent.RunError
	if errors.As(err, &re) {
		names = append(names, "agent="+re.Agent, "code="+re.Code)
	}
	return strings.Join(names, " ")
}

// writeEvent writes a stored event as one line. Ids of runs and texts count up
// in order, but differ with streaming, so runs have their agents' names. What happens in an
// inner scope has a mark in front for each scope around it.
func writeEvent(w *strings.Builder, e *event.Event, depth int) {
	fmt.Fprintf(w, "%d %s%s %s", e.Seq, strings.Repeat("> ", depth), e.Agent, e.Type())
	switch d := e.Data.(type) {
	case *event.User:
		fmt.Fprintf(w, " %q", d.Content.PlainText())
	case *event.Text:
		fmt.Fprintf(w, " %q", d.Content)
	case *event.Reasoning:
		fmt.Fprintf(w, " %q", d.Content)
	case *event.ToolCall:
		fmt.Fprintf(w, " #%s %s %s", e.ID, d.Name, d.Input)
	case *event.ToolResult:
		verb := ""
		if d.IsError {
			verb = " error"
		}
		fmt.Fprintf(w, " #%s %s%s %s", e.ID, d.Name, verb, d.Output)
	case *event.Transfer:
		fmt.Fprintf(w, " %s → %s: %s", d.From, d.To, d.Outcome)
		if d.Reason != "" {
			fmt.Fprintf(w, " (%s)", d.Reason)
		}
	case *event.HarnessEnd:
		fmt.Fprintf(w, " %s", d.FinishReason)
		if d.Target != "" {
			fmt.Fprintf(w, " → %s", d.Target)
		}
	case *event.Relay:
		fmt.Fprintf(w, " #%s %s %s %s", d.ToolCallID, d.Kind, d.Tool, cmp.Or(d.Message, string(d.Params)))
		if len(d.Within) > 0 {
			fmt.Fprintf(w, " within %s", strings.Join(d.Within, " > "))
		}
	case *event.RelayResolved:
		fmt.Fprintf(w, " %s", strings.Join(strings.Fields(fmt.Sprintf("approved=%v %s %s", d.Approved, d.Reason, d.Content)), " "))
	case *event.HarnessStart, *event.Usage:
	case *event.Discard:
		fmt.Fprintf(w, " %s", d.Code)
	case *event.Failure:
		fmt.Fprintf(w, " %s", d.Code)
	default:
		fmt.Fprintf(w, " %s", event.EncodeJSON(d))
	}
	w.WriteByte('\n')
}

// targetLines returns what the system text has to say about the targets that the tools
// of a request list, and what it has behind the words that are the agent's own.
func targetLines(req *llm.Request) (want, system string) {
	listed, name := "", "transfer_to_"
	for _, t := range req.Tools {
		if _, list, ok := strings.Cut(t.Description, ":\n- "); ok {
			listed += "\n- " + list
			if t.Name == agent.TransferTool {
				name = t.Name
			}
		}
	}
	_, system, _ = strings.Cut(req.System, ".")
	if listed != "" {
		want = "\n\n" + strings.NewReplacer(transfer.TargetsHere, listed[1:], transfer.ToolHere, name).Replace(transfer.Instruction)
	}
	return want, system
}

func writeRequest(w *bytes.Buffer, name string, req *llm.Request) {
	fmt.Fprintf(w, "to %s\n", name)
	for _, t := range req.Tools {
		fmt.Fprintf(w, "  tool %s", t.Name)
		if t.Name == agent.TransferTool {
			fmt.Fprintf(w, " %q", t.Description[strings.Index(t.Description, "The agents:"):])
		} else if strings.HasPrefix(t.Name, "transfer_to_") {
			fmt.Fprintf(w, " %q", t.Description[strings.Index(t.Description, "\n- ")+1:])
		}
		w.WriteByte('\n')
	}
	for _, m := range req.Messages {
		fmt.Fprintf(w, "  %s", m.Role)
		if m.Text != "" {
			fmt.Fprintf(w, " %q", m.Text)
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.ToolCall:
				fmt.Fprintf(w, " call #%s %s %s", p.ID, p.Name, p.Arguments)
			case llm.ToolResult:
				fmt.Fprintf(w, " #%s %s", p.CallID, p.Output)
			case llm.Reasoning: // goes on the wire only where an endpoint wants it
			default:
				fmt.Fprintf(w, " %T", p)
			}
		}
		w.WriteByte('\n')
	}
}

var (
	calledByArgument = regexp.MustCompile(`call transfer_to_agent(#\w+)? \{"agent_name": "([\w-]+)"(?:, )?([^}]*)\}`)
	expectsTransfers = regexp.MustCompile(`expect tools \S*transfer_to_\S*`)
	toolsListed      = regexp.MustCompile(`The tools: [^"]*`)
)

// TestTranscriptsInTheOtherForm plays the transcripts with agents that are offered a tool
// for each target, whether their models call these or, all the same, transfer_to_agent;
// and has models call transfer_to_NAME that are offered one tool. What is stored is the
// same, except lists of tools in what a model reads.
func TestTranscriptsInTheOtherForm(t *testing.T) {
	for _, tr := range transcripts(t) {
		plain := &transcript{tr.file, &txtar.Archive{Files: slices.Clone(tr.archive.Files)}}
		plain.set("script", expectsTransfers.ReplaceAllString(tr.section("script"), ""))
		each := &transcript{tr.file, &txtar.Archive{Files: slices.Clone(tr.archive.Files)}}
		each.set("script", calledByArgument.ReplaceAllString(plain.section("script"), "call transfer_to_$2$1 {$3}"))
		for _, m := range modes[1:3] {
			t.Run(strings.TrimSuffix(filepath.Base(tr.file), ".txtar")+", "+m.name, func(t *testing.T) {
				want := toolsListed.ReplaceAllString(tr.section("events"), "")
				for _, played := range []struct {
					*transcript
					offered transfer.Tools
				}{{each, transfer.ToolPerTarget}, {plain, transfer.ToolPerTarget}, {each, transfer.OneTool}} {
					events, _ := played.play(t, m, llmagent.WithTransferTools(played.offered))
					require.Equal(t, want, toolsListed.ReplaceAllString(events, ""), played.section("script"))
				}
			})
		}
	}
}

func TestTranscripts(t *testing.T) {
	for _, tr := range transcripts(t) {
		t.Run(strings.TrimSuffix(filepath.Base(tr.file), ".txtar"), func(t *testing.T) {
			if *update {
				events, wire := tr.play(t, modes[0])
				tr.set("events", events)
				tr.set("wire", wire)
				require.NoError(t, os.WriteFile(tr.file, txtar.Format(tr.archive), 0o644))
			}
			for _, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					events, wire := tr.play(t, m)
					require.Equal(t, tr.section("events"), events)
					require.Equal(t, tr.section("wire"), wire)
				})
			}
		})
	}
}
